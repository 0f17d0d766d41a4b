/* reduce.c - local reduction: combine several vectors into one, divide or scale the result. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/reduce.h"

#include "base/kinds.h"
#include "coll/copy.h"
#include "coll/loops.h"

/* Elements taken at a time where one pass is not enough; they stay in the nearest cache. */
enum { BLOCK = 1024 };

/* Sources combined at a time in a block. */
enum { GROUP = 8 };

/* Bytes that reduce_streaming() combines at a time: they stay in the nearest cache. */
enum { NEAR_BYTES = 4096 };

const char *reduce_dtype_name(enum ringup_dtype dtype)
{
	static const char *const names[DTYPE_COUNT] = {
		[RINGUP_U8] = "u8",   [RINGUP_I8] = "i8",   [RINGUP_U16] = "u16",
		[RINGUP_I16] = "i16", [RINGUP_I32] = "i32", [RINGUP_BOOL] = "bool",
		[RINGUP_I64] = "i64", [RINGUP_F16] = "f16", [RINGUP_BF16] = "bf16",
		[RINGUP_F32] = "f32", [RINGUP_F64] = "f64",
	};

	return (unsigned int)dtype < DTYPE_COUNT ? names[dtype] : "?";
}

const char *reduce_redop_name(enum ringup_redop redop)
{
	static const char *const names[REDOP_COUNT] = {
		[RINGUP_SUM] = "sum", [RINGUP_AVERAGE] = "average", [RINGUP_MIN] = "min",
		[RINGUP_MAX] = "max", [RINGUP_PRODUCT] = "product", [RINGUP_ADASUM] = "adasum",
	};

	return (unsigned int)redop < REDOP_COUNT ? names[redop] : "?";
}

void reduce_widen(enum ringup_dtype dtype, float *dst, const void *src, size_t count)
{
	loops_best()->widen[dtype == RINGUP_BF16](dst, src, count);
}

void reduce_narrow(enum ringup_dtype dtype, void *dst, const float *src, size_t count)
{
	loops_best()->narrow[dtype == RINGUP_BF16](dst, src, count);
}

/*
 * One pass.  A division by a power of two becomes an exact multiplication, which
 * costs nothing next to the addition; other divisions are carried out, so that
 * the average of equal numbers is that number.
 */
static void reduce_floating(const struct reduce *how, void *const *dst, int ndst,
			    const void *const *src, int nsrc, uint64_t count)
{
	double factor = how->post == 0 ? 1 : how->post, divisor = 1;

	if (how->redop == RINGUP_AVERAGE)
		divisor = how->divisor;
	if (factor == 1 && how->redop == RINGUP_AVERAGE &&
	    !(how->divisor & (how->divisor - 1))) {
		factor = 1 / divisor;
		divisor = 1;
	}
	loops_best()->many[how->redop][how->dtype](dst, ndst, src, nsrc, count, factor,
						   divisor);
}

#define DIVIDE(name, elem)                              \
	static void name(elem *d, size_t n, int64_t by) \
	{                                               \
		size_t i;                               \
                                                        \
		for (i = 0; i < n; i++)                 \
			d[i] = (elem)(d[i] / by);       \
	}

DIVIDE(divide_u8, uint8_t)
DIVIDE(divide_i8, int8_t)
DIVIDE(divide_u16, uint16_t)
DIVIDE(divide_i16, int16_t)
DIVIDE(divide_i32, int32_t)
DIVIDE(divide_i64, int64_t)

static void divide(enum ringup_dtype dtype, void *d, size_t n, int64_t by)
{
	if (dtype == RINGUP_U8)
		divide_u8(d, n, by);
	else if (dtype == RINGUP_I8)
		divide_i8(d, n, by);
	else if (dtype == RINGUP_U16)
		divide_u16(d, n, by);
	else if (dtype == RINGUP_I16)
		divide_i16(d, n, by);
	else if (dtype == RINGUP_I32)
		divide_i32(d, n, by);
	else
		divide_i64(d, n, by);
}

/* Integers that are divided or scaled afterwards: a block at a time. */
static void reduce_integers(const struct reduce *how, void *const *dst, int ndst,
			    const void *const *src, int nsrc, uint64_t count)
{
	loops_many *many = loops_best()->many[how->redop][how->dtype];
	size_t size = reduce_dtype_bytes(how->dtype), n;
	int64_t block[BLOCK];
	void *to = block;

	for (uint64_t first = 0; first < count; first += n) {
		const void *from[GROUP + 1];
		int k = 0, done = 0;

		n = count - first < BLOCK ? count - first : BLOCK;
		/* A few sources at a time; the first is the result so far. */
		while (done < nsrc) {
			if (done)
				from[k++] = block;
			while (k <= GROUP && done < nsrc)
				from[k++] = (const unsigned char *)src[done++] + first * size;
			many(&to, 1, from, k, n, 1, 1);
			k = 0;
		}
		if (how->redop == RINGUP_AVERAGE && how->divisor > 1)
			divide(how->dtype, block, n, how->divisor);
		if (how->post != 0 && how->post != 1)
			copy_scaled(how->dtype, block, block, n, how->post);
		for (int i = 0; i < ndst; i++)
			copy_bytes((unsigned char *)dst[i] + first * size, block, n * size);
	}
}

void reduce_many(const struct reduce *how, void *const *dst, int ndst, const void *const *src,
		 int nsrc, uint64_t count)
{
	if (reduce_is_floating(how->dtype))
		reduce_floating(how, dst, ndst, src, nsrc, count);
	else if (how->dtype != RINGUP_BOOL &&
		 (how->redop == RINGUP_AVERAGE || (how->post != 0 && how->post != 1)))
		reduce_integers(how, dst, ndst, src, nsrc, count);
	else
		loops_best()->many[how->redop][how->dtype](dst, ndst, src, nsrc, count, 1, 1);
}

/* A block at a time, whose copy from the nearest cache costs next to nothing. */
void reduce_streaming(const struct reduce *how, void *const *dst, int ndst, int near,
		      const void *const *src, int nsrc, uint64_t count)
{
	size_t size = reduce_dtype_bytes(how->dtype);
	uint64_t few = NEAR_BYTES / size, n;
	const void *from[REDUCE_PAST];
	void *to[REDUCE_PAST];
	int i;

	if (near == ndst || near > REDUCE_PAST || nsrc > REDUCE_PAST) {
		reduce_many(how, dst, ndst, src, nsrc, count);
		return;
	}
	for (uint64_t first = 0; first < count; first += n) {
		n = count - first < few ? count - first : few;
		for (i = 0; i < nsrc; i++)
			from[i] = (const unsigned char *)src[i] + first * size;
		for (i = 0; i < near; i++)
			to[i] = (unsigned char *)dst[i] + first * size;
		reduce_many(how, to, near, from, nsrc, n);
		for (; i < ndst; i++)
			copy_streaming((unsigned char *)dst[i] + first * size, to[0], n * size);
	}
}
