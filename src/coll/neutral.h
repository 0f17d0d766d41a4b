/* neutral.h - the neutral element of a reduction, for ranks that have joined. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_NEUTRAL_H
#define COLL_NEUTRAL_H

#include <stdbool.h>
#include <stdint.h>

#include "ringup.h"

/*
 * neutral_fill - @count elements that leave a reduction by @op unchanged after they are scaled
 * by @pre (not 0), like all inputs.  @to holds zeros, which are neutral in sums.
 *
 * Returns false if there is no such element, and then writes nothing: no integer times 2 is 1,
 * no f16 times 1e-5 is 1, and 0 times a factor that is infinite in the type is a NaN.
 */
bool neutral_fill(void *to, enum ringup_dtype t, enum ringup_redop op, double pre,
		  uint64_t count);

#endif
