/* neutral.c - the neutral element of a reduction, for ranks that have joined. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/neutral.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "coll/copy.h"
#include "coll/reduce.h"

enum { WIDEST = 8, NEIGHBOURS = 2 };

static void put_floating(enum ringup_dtype t, double x, unsigned char *to)
{
	float f = (float)x;

	if (t == RINGUP_F64)
		memcpy(to, &x, sizeof(x));
	else if (t == RINGUP_F32)
		memcpy(to, &f, sizeof(f));
	else
		reduce_narrow(t, to, &f, 1);
}

/* Little-endian. */
static void put_whole(enum ringup_dtype t, int64_t x, unsigned char *to)
{
	memcpy(to, &x, reduce_dtype_bytes(t));
}

/* The greatest or the least value of the type. */
static void put_limit(enum ringup_dtype t, bool greatest, unsigned char *to)
{
	size_t size = reduce_dtype_bytes(t);

	if (reduce_is_floating(t)) {
		put_floating(t, greatest ? __builtin_inf() : -__builtin_inf(), to);
	} else if (t == RINGUP_BOOL) {
		to[0] = greatest;
	} else {
		memset(to, greatest ? 0xff : 0, size);
		if (t != RINGUP_U8 && t != RINGUP_U16)
			to[size - 1] = greatest ? 0x7f : 0x80;
	}
}

static bool scales_to(enum ringup_dtype t, const unsigned char *x, double pre,
		      const unsigned char *want)
{
	alignas(WIDEST) unsigned char in[WIDEST], out[WIDEST];

	memcpy(in, x, WIDEST);
	copy_scaled(t, out, in, 1, pre);
	return !memcmp(out, want, reduce_dtype_bytes(t));
}

/* The floating @x times @pre, as copy_scaled() computes it. */
static double scaled(enum ringup_dtype t, const unsigned char *x, double pre)
{
	alignas(WIDEST) unsigned char in[WIDEST], out[WIDEST];
	float f = 0;
	double d;

	memcpy(in, x, WIDEST);
	copy_scaled(t, out, in, 1, pre);
	memcpy(&d, out, sizeof(d));
	if (t == RINGUP_F64)
		return d;
	if (t == RINGUP_F32)
		memcpy(&f, out, sizeof(f));
	else
		reduce_widen(t, &f, out, 1);
	return (double)f;
}

/* Is every integer of the type 0 after it is multiplied by @pre? */
static bool are_all_zero(enum ringup_dtype t, double pre)
{
	bool is_signed = t != RINGUP_U8 && t != RINGUP_U16;
	double most = __builtin_ldexp(1, 8 * (int)reduce_dtype_bytes(t) - is_signed);

	/* The greatest unsigned value is most - 1; of signed ones the least is -most. */
	return (pre < 0 && !is_signed) || (most - !is_signed) * __builtin_fabs(pre) < 1;
}

/* A number that is 1 after it is multiplied by @pre; false if there is none. */
static bool put_one(enum ringup_dtype t, double pre, unsigned char *to)
{
	alignas(WIDEST) unsigned char one[WIDEST] = { 0 }, first[WIDEST] = { 0 };
	uint64_t bits;
	double x = __builtin_ceil(1 / __builtin_fabs(pre));

	if (t == RINGUP_BOOL) {
		to[0] = 1;
		return true;
	}
	if (!reduce_is_floating(t)) {
		put_whole(t, 1, one);
		if (are_all_zero(t, pre))
			return true;
		put_whole(t, x < 0x1p63 ? (int64_t)(pre < 0 ? -x : x) : 0, to);
		return scales_to(t, to, pre, one);
	}
	put_floating(t, 1, one);
	put_floating(t, 1 / pre, first);
	/* The quotient is rounded, and the product again: a neighbour may do better. */
	for (int k = 0; k <= 2 * NEIGHBOURS; k++) {
		memcpy(&bits, first, sizeof(bits));
		bits += (uint64_t)(k % 2 ? (k + 1) / 2 : -(k / 2));
		memcpy(to, &bits, sizeof(bits));
		if (scales_to(t, to, pre, one))
			return true;
	}
	/* Within two units of the last place of f16 or bf16, unless 1 / pre overflows in the
	 * type, or is so small that it loses digits. */
	memcpy(to, first, WIDEST);
	return __builtin_fabs(scaled(t, to, pre) - 1) <= (t == RINGUP_BF16 ? 0x1p-6 : 0x1p-9);
}

/* The neutral element of a minimum or maximum; a negative factor swaps the two, except for
 * bools, which are not scaled. */
static void put_last(enum ringup_dtype t, enum ringup_redop op, double pre, unsigned char *to)
{
	put_limit(t, (op == RINGUP_MIN) == (pre > 0 || t == RINGUP_BOOL), to);
	/* A factor that is 0 in the type makes every number 0, and infinity a NaN. */
	if (reduce_is_floating(t) && __builtin_isnan(scaled(t, to, pre)))
		memset(to, 0, WIDEST);
}

bool neutral_fill(void *to, enum ringup_dtype t, enum ringup_redop op, double pre,
		  uint64_t count)
{
	size_t size = reduce_dtype_bytes(t), k;
	alignas(WIDEST) unsigned char one[WIDEST] = { 0 };

	if (!count)
		return true;
	if (op == RINGUP_MIN || op == RINGUP_MAX)
		put_last(t, op, pre, one);
	else if (op != RINGUP_PRODUCT)
		/* A factor that is infinite in the type makes 0 a NaN. */
		return !reduce_is_floating(t) || !__builtin_isnan(scaled(t, one, pre));
	else if (!put_one(t, pre, one))
		return false;
	for (uint64_t i = 0; i < count; i++)
		for (k = 0; k < size; k++)
			((unsigned char *)to)[i * size + k] = one[k];
	return true;
}
