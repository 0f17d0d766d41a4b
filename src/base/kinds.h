/* kinds.h - how many element types, reductions and kinds of memory ringup.h has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_KINDS_H
#define BASE_KINDS_H

#include "ringup.h"

/* They grow with versions, so programs do not see them. */
#define DTYPE_COUNT  (RINGUP_BOOL + 1)
#define REDOP_COUNT  (RINGUP_ADASUM + 1)
#define MEMORY_COUNT (RINGUP_CUDA + 1)

#define X(name, bytes) +1
_Static_assert(0 RINGUP_DTYPES(X) == DTYPE_COUNT, "RINGUP_BOOL is the last of the list");
#undef X

#endif
