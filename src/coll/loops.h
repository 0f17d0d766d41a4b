/* loops.h - vectorised kernels, once for each instruction set: copy and reduce. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_LOOPS_H
#define COLL_LOOPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/kinds.h"
#include "ringup.h"

/*
 * dst[*][i] = (src[0][i] op src[1][i] op ...) / divisor * factor, for @n elements.
 *
 * Floating types divide and multiply in their own precision, f16 and bf16 in
 * f32, and are rounded once.  Integers wrap and ignore factor and divisor; so
 * does bool, of which any byte but 0 is true and every result is 0 or 1.
 * Each destination may be one of the sources exactly; else nothing overlaps.
 */
typedef void loops_many(void *const *dst, int ndst, const void *const *src, int nsrc, size_t n,
			double factor, double divisor);

/*
 * One set for each instruction set, all with the same results to the bit, but
 * for the payload and sign of a NaN.  loops.c is compiled with
 * -ffp-contract=off, so that no operations are fused.
 */
struct loops {
	const char *name;   /* "avx2" */
	bool (*runs)(void); /* can this processor run it? */

	void (*copy)(void *dst, const void *src, size_t n); /* bytes; no overlap */
	void (*copy_streaming)(void *dst, const void *src,
			       size_t n); /* the same, by streaming stores */

	loops_many *many[RINGUP_ADASUM][DTYPE_COUNT]; /* an average is a sum */

	/* f16 (index 0) and bf16 (1) to f32, exactly, and back, to the nearest. */
	void (*widen[2])(float *d, const uint16_t *s, size_t n);
	void (*narrow[2])(uint16_t *d, const float *s, size_t n);
};

/* Every set of this build, best first; ends with NULL, and the last one runs everywhere. */
extern const struct loops *const loops_all[];

extern const struct loops *loops_chosen; /* atomic; NULL before the first use */

/* loops_choose - choose the best set that this processor runs. */
const struct loops *loops_choose(void) __attribute__((cold));

/* loops_best - the set in use: at first the best that runs here.  Threads: any. */
static inline const struct loops *loops_best(void)
{
	const struct loops *l = __atomic_load_n(&loops_chosen, __ATOMIC_RELAXED);

	return l ? l : loops_choose();
}

/* loops_use - make loops_best() return @l from now on, for tests; NULL undoes that. */
void loops_use(const struct loops *l);

#endif
