/* reduce.c - combine several vectors into one: blocks that stay in the nearest cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/reduce.h"

#include <stdbool.h>

#include "coll/copy.h"
#include "coll/loops.h"

/* Elements taken at a time when intermediate results have to be kept. */
enum { BLOCK = 1024 };

/* What is done to a sum once it is complete. */
struct ending {
	double factor;  /* the loops can apply it in passing              */
	double divisor; /* not 1: a pass of its own divides, and so does  */
	double post;    /* not 1: this                                    */
};

size_t reduce_dtype_bytes(enum ringup_dtype dtype)
{
	static const size_t bytes[] = {
#define X(name, n) n,
		RINGUP_DTYPES(X)
#undef X
	};

	return (unsigned int)dtype < RINGUP_DTYPE_COUNT ? bytes[dtype] : 0;
}

const char *reduce_dtype_name(enum ringup_dtype dtype)
{
	static const char *const names[RINGUP_DTYPE_COUNT] = {
		[RINGUP_U8] = "u8",   [RINGUP_I8] = "i8",   [RINGUP_I32] = "i32",
		[RINGUP_I64] = "i64", [RINGUP_F16] = "f16", [RINGUP_BF16] = "bf16",
		[RINGUP_F32] = "f32", [RINGUP_F64] = "f64",
	};

	return (unsigned int)dtype < RINGUP_DTYPE_COUNT ? names[dtype] : "?";
}

const char *reduce_redop_name(enum ringup_redop redop)
{
	static const char *const names[RINGUP_REDOP_COUNT] = {
		[RINGUP_SUM] = "sum", [RINGUP_AVERAGE] = "average", [RINGUP_MIN] = "min",
		[RINGUP_MAX] = "max", [RINGUP_PRODUCT] = "product",
	};

	return (unsigned int)redop < RINGUP_REDOP_COUNT ? names[redop] : "?";
}

static bool is_floating(enum ringup_dtype dtype)
{
	return dtype == RINGUP_F16 || dtype == RINGUP_BF16 || dtype == RINGUP_F32 ||
	       dtype == RINGUP_F64;
}

/*
 * A division by a power of two is a multiplication without loss, which costs
 * nothing next to the addition; others are carried out, so that the average of
 * equal numbers is that number.
 */
static struct ending ending_of(const struct reduce *how)
{
	struct ending end = { 1, 1, how->post == 0 ? 1 : how->post };

	if (how->redop == RINGUP_AVERAGE && how->divisor > 1)
		end.divisor = how->divisor;
	if (!is_floating(how->dtype))
		return end;
	if (end.divisor == 1) {
		end.factor = end.post;
		end.post = 1;
	} else if (end.post == 1 && !(how->divisor & (how->divisor - 1))) {
		end.factor = 1 / end.divisor;
		end.divisor = 1;
	}
	return end;
}

#define FLOOR_DIVIDE(name, elem)                               \
	static void name(elem *d, size_t n, int64_t by)        \
	{                                                      \
		size_t i;                                      \
                                                               \
		for (i = 0; i < n; i++) {                      \
			int64_t x = d[i], q = x / by;          \
                                                               \
			d[i] = (elem)(x % by < 0 ? q - 1 : q); \
		}                                              \
	}

FLOOR_DIVIDE(floor_divide_u8, uint8_t)
FLOOR_DIVIDE(floor_divide_i8, int8_t)
FLOOR_DIVIDE(floor_divide_i32, int32_t)
FLOOR_DIVIDE(floor_divide_i64, int64_t)

/* Divide and scale @n elements in place: floats by division, then post. */
static void finish(enum ringup_dtype dtype, const struct ending *end, void *d, size_t n)
{
	const struct loops *l = loops_best();
	int64_t by = (int64_t)end->divisor;

	if (dtype == RINGUP_F32)
		l->scale_f32(d, d, n, 1, (float)end->divisor);
	else if (dtype == RINGUP_F64)
		l->scale_f64(d, d, n, 1, end->divisor);
	else if (by == 1)
		;
	else if (dtype == RINGUP_U8)
		floor_divide_u8(d, n, by);
	else if (dtype == RINGUP_I8)
		floor_divide_i8(d, n, by);
	else if (dtype == RINGUP_I32)
		floor_divide_i32(d, n, by);
	else
		floor_divide_i64(d, n, by);
	if (end->post != 1)
		copy_scaled(dtype, d, d, n, end->post);
}

/* @n elements from @first on, at most a block, of a type that is its own accumulator. */
static void reduce_block(const struct reduce *how, const struct ending *end, void *const *dst,
			 int ndst, const void *const *src, int nsrc, uint64_t first, size_t n)
{
	loops_pair *pair = loops_best()->pair[how->redop][how->dtype];
	size_t size = reduce_dtype_bytes(how->dtype), at = first * size;
	bool plain = end->divisor == 1 && end->post == 1;
	unsigned char *d0 = (unsigned char *)dst[0] + at;
	unsigned char *d1 = ndst > 1 ? (unsigned char *)dst[1] + at : d0;
	double sum[BLOCK];
	const void *so_far = (const unsigned char *)src[0] + at;
	int i;

	/* Only the last step may write to a destination: it may be a source. */
	for (i = 1; i < nsrc; i++) {
		const unsigned char *more = (const unsigned char *)src[i] + at;
		bool last = plain && i == nsrc - 1;

		pair(last ? d0 : (void *)sum, last ? d1 : (void *)sum, so_far, more, n,
		     i == nsrc - 1 ? end->factor : 1);
		so_far = sum;
	}
	i = 2;
	if (nsrc == 1 || !plain) {
		if (so_far != sum)
			copy_bytes(sum, so_far, n * size);
		if (nsrc == 1 && end->factor != 1)
			copy_scaled(how->dtype, sum, sum, n, end->factor);
		if (!plain)
			finish(how->dtype, end, sum, n);
		copy_bytes(d0, sum, n * size);
		i = 1;
	}
	for (; i < ndst; i++)
		copy_bytes((unsigned char *)dst[i] + at, d0, n * size);
}

/* The same for f16 and bf16, which are widened, combined and rounded once. */
static void reduce_half(const struct reduce *how, const struct ending *end, void *const *dst,
			int ndst, const void *const *src, int nsrc, uint64_t first, size_t n)
{
	const struct loops *l = loops_best();
	bool f16 = how->dtype == RINGUP_F16;
	loops_pair *pair = l->pair[how->redop][RINGUP_F32];
	float sum[BLOCK], more[BLOCK];
	uint16_t *d0 = (uint16_t *)dst[0] + first;
	int i;

	(f16 ? l->widen_f16 : l->widen_bf16)(sum, (const uint16_t *)src[0] + first, n);
	if (nsrc == 1 && end->factor != 1)
		l->scale_f32(sum, sum, n, (float)end->factor, 1);
	for (i = 1; i < nsrc; i++) {
		(f16 ? l->widen_f16 : l->widen_bf16)(more, (const uint16_t *)src[i] + first, n);
		pair(sum, sum, sum, more, n, i == nsrc - 1 ? end->factor : 1);
	}
	if (end->divisor != 1 || end->post != 1)
		finish(RINGUP_F32, end, sum, n);
	(f16 ? l->narrow_f16 : l->narrow_bf16)(d0, sum, n);
	for (i = 1; i < ndst; i++)
		copy_bytes((uint16_t *)dst[i] + first, d0, n * sizeof(*d0));
}

void reduce_many(const struct reduce *how, void *const *dst, int ndst, const void *const *src,
		 int nsrc, uint64_t count)
{
	struct ending end = ending_of(how);
	bool half = how->dtype == RINGUP_F16 || how->dtype == RINGUP_BF16;
	uint64_t first;

	/* The usual case needs no intermediate results. */
	if (nsrc == 2 && ndst <= 2 && !half && end.divisor == 1 && end.post == 1) {
		loops_best()->pair[how->redop][how->dtype](dst[0], dst[ndst - 1], src[0],
							   src[1], count, end.factor);
		return;
	}
	for (first = 0; first < count; first += BLOCK) {
		size_t n = count - first < BLOCK ? count - first : BLOCK;

		(half ? reduce_half : reduce_block)(how, &end, dst, ndst, src, nsrc, first, n);
	}
}
