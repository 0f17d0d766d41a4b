/* neutral.h - what changes nothing in a reduction. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_NEUTRAL_H
#define COLL_NEUTRAL_H

#include <stdbool.h>
#include <stdint.h>

#include "ringup.h"

/*
 * neutral_fill - @count elements that leave a reduction by @op as it is, though they are scaled
 * by @pre, which is not 0, before it like those of others.  @to holds zeros, which do that in
 * sums.
 *
 * Returns false if there are none, and then writes nothing: no integer is 1 once it has been
 * multiplied by 2, no f16 once by 1e-5, and 0 times what is infinite in a type is none.
 */
bool neutral_fill(void *to, enum ringup_dtype t, enum ringup_redop op, double pre,
		  uint64_t count);

#endif
