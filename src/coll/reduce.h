/* reduce.h - local reduction: combine several vectors into one, element by element. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_REDUCE_H
#define COLL_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/kinds.h"
#include "ringup.h"

/* The operations that combine element by element: all but Adasum. */
enum { REDUCE_OPS = RINGUP_ADASUM };

/* The most sources for which reduce_streaming() uses streaming stores. */
enum { REDUCE_PAST = 64 };

/* The operation on each element. */
struct reduce {
	enum ringup_dtype dtype;
	enum ringup_redop redop; /* RINGUP_AVERAGE: the sum divided by divisor       */
	uint32_t divisor;        /* for RINGUP_AVERAGE; integers lose their fraction */
	double post;             /* then multiplied by this; 0 and 1 mean nothing to do */
};

/*
 * reduce_many - dst[*][i] = post * (src[0][i] op src[1][i] op ... ), in that order.
 *
 * One pass: every result is written to all @ndst destinations.  A destination
 * may be one of the sources exactly, else nothing overlaps.  f16 and bf16 are
 * widened to f32 once, combined there, and rounded once (to nearest even).
 * A minimum or maximum with a NaN is a NaN.  Bools have no average, and are not
 * scaled.  The bits are the same on every processor, whichever loops are chosen, but
 * for the payload and sign of a NaN.  Pointers are aligned to the element, no more.
 *
 * Threads: any.  nsrc >= 1, ndst >= 1, both at most 4096.
 */
void reduce_many(const struct reduce *how, void *const *dst, int ndst, const void *const *src,
		 int nsrc, uint64_t count);

/* reduce_streaming - the same, but only the first @near destinations, at least one, are written
 * to the caches: the others by copy_streaming(), a few KiB at a time.  With more than
 * REDUCE_PAST sources, all are written to the caches. */
void reduce_streaming(const struct reduce *how, void *const *dst, int ndst, int near,
		      const void *const *src, int nsrc, uint64_t count);

/* reduce_is_half - f16 and bf16, whose sums are kept in f32. */
static inline bool reduce_is_half(enum ringup_dtype dtype)
{
	return dtype == RINGUP_F16 || dtype == RINGUP_BF16;
}

static inline bool reduce_is_floating(enum ringup_dtype dtype)
{
	return reduce_is_half(dtype) || dtype == RINGUP_F32 || dtype == RINGUP_F64;
}

/* reduce_widen, reduce_narrow - between f16 or bf16 and f32; the way back rounds
 * to nearest even.  No overlap. */
void reduce_widen(enum ringup_dtype dtype, float *dst, const void *src, size_t count);
void reduce_narrow(enum ringup_dtype dtype, void *dst, const float *src, size_t count);

/* reduce_dtype_bytes - the size of an element. */
static inline size_t reduce_dtype_bytes(enum ringup_dtype dtype)
{
	static const uint8_t bytes[] = {
#define X(name, n) n,
		RINGUP_DTYPES(X)
#undef X
	};

	return (unsigned int)dtype < DTYPE_COUNT ? bytes[dtype] : 0;
}

const char *reduce_dtype_name(enum ringup_dtype dtype); /* "f32"; "?" if there is none */
const char *reduce_redop_name(enum ringup_redop redop); /* "sum" */

#endif
