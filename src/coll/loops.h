/* loops.h - the innermost loops, once for each instruction set: copy, combine, convert. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_LOOPS_H
#define COLL_LOOPS_H

#include <stdbool.h>
#include <stddef.h>

#include "ringup.h"

/*
 * d0[i] = d1[i] = (a[i] op b[i]) * factor, for @n elements.
 *
 * Integers wrap and ignore the factor.  Each of d0 and d1 may be a or b, or
 * each other, exactly; else nothing overlaps.
 */
typedef void loops_pair(void *d0, void *d1, const void *a, const void *b, size_t n,
			double factor);

/*
 * One set for each instruction set, all with the same results to the bit, but
 * for the payload and sign of a NaN.  Nothing here is contracted into fused
 * operations, so compile loops.c with -ffp-contract=off.
 */
struct loops {
	const char *name;   /* "avx2" */
	bool (*runs)(void); /* on this processor? */

	void (*copy)(void *dst, const void *src, size_t n); /* bytes; no overlap */

	/* By redop (an average is a sum) and dtype; NULL for f16 and bf16. */
	loops_pair *pair[RINGUP_REDOP_COUNT][RINGUP_DTYPE_COUNT];

	/* d[i] = a[i] * factor / divisor; d may be a. */
	void (*scale_f32)(float *d, const float *a, size_t n, float factor, float divisor);
	void (*scale_f64)(double *d, const double *a, size_t n, double factor, double divisor);

	/* To f32, exactly; a NaN becomes quiet, if only for f16.  From f32,
	 * rounded to nearest, ties to even; a NaN stays one. */
	void (*widen_f16)(float *d, const uint16_t *s, size_t n);
	void (*widen_bf16)(float *d, const uint16_t *s, size_t n);
	void (*narrow_f16)(uint16_t *d, const float *s, size_t n);
	void (*narrow_bf16)(uint16_t *d, const float *s, size_t n);
};

/* Every set of this build, best first; ends with NULL, and the last one runs everywhere. */
extern const struct loops *const loops_all[];

/* loops_best - the set in use: at first the best that runs here.  Threads: any. */
const struct loops *loops_best(void);

/* loops_use - make loops_best() return @l from now on, for tests; NULL undoes that. */
void loops_use(const struct loops *l);

#endif
