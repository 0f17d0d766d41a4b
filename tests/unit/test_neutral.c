/* test_neutral.c - what is filled in for a rank that has joined changes no reduction. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "coll/copy.h"
#include "coll/neutral.h"
#include "coll/reduce.h"
#include "tap.h"

enum { COUNT = 67, WIDEST = 8, GUARD = 0x5a };

static const enum ringup_dtype types[] = { RINGUP_U8,   RINGUP_I8,  RINGUP_U16, RINGUP_I16,
					   RINGUP_BOOL, RINGUP_I32, RINGUP_I64, RINGUP_F16,
					   RINGUP_BF16, RINGUP_F32, RINGUP_F64 };

static const double factors[] = {
	1, 0.5, 0.25, 1.0 / 3, 0.1, 2, 3, 7.25, 1e6, -1, -0.5, -2, -3
};

/* Of every type: 0, 1, and others from -50 to 50 where there are negative ones. */
static void others(enum ringup_dtype t, void *to)
{
	double half[COUNT];
	float f[COUNT];
	int i, x;

	memset(to, 0, COUNT * WIDEST);
	for (i = 0; i < COUNT; i++) {
		x = i < 2 ? i : i * 37 % 101 - (t == RINGUP_U8 || t == RINGUP_U16 ? 0 : 50);
		if (t == RINGUP_BOOL)
			x = i % 2;
		half[i] = x / 2.0;
		f[i] = (float)half[i];
		if (reduce_is_half(t))
			continue;
		if (t == RINGUP_F32)
			memcpy((float *)to + i, &f[i], sizeof(f[i]));
		else if (t == RINGUP_F64)
			memcpy((double *)to + i, &half[i], sizeof(half[i]));
		else /* little-endian */
			memcpy((char *)to + (size_t)i * reduce_dtype_bytes(t), &x,
			       reduce_dtype_bytes(t) < sizeof(x) ? reduce_dtype_bytes(t)
								 : sizeof(x));
		if (t == RINGUP_I64 && x < 0)
			memset((char *)to + (size_t)i * 8 + 4, 0xff, 4);
	}
	if (reduce_is_half(t))
		reduce_narrow(t, to, f, COUNT);
}

static double value(enum ringup_dtype t, const void *at, int i)
{
	float f;
	double d;

	if (reduce_is_half(t)) {
		reduce_widen(t, &f, (const char *)at + (size_t)i * 2, 1);
		return (double)f;
	}
	if (t == RINGUP_F32) {
		memcpy(&f, (const float *)at + i, sizeof(f));
		return (double)f;
	}
	memcpy(&d, (const double *)at + i, sizeof(d));
	return d;
}

static double last_place(enum ringup_dtype t)
{
	return t == RINGUP_BF16  ? 0x1p-7
	       : t == RINGUP_F16 ? 0x1p-10
	       : t == RINGUP_F32 ? 0x1p-23
				 : 0x1p-52;
}

/* Two roundings of a factor that has no exact inverse: within two units in the last place. */
static int close_to(enum ringup_dtype t, const void *got, const void *want)
{
	int i;

	for (i = 0; i < COUNT; i++)
		if (fabs(value(t, got, i) - value(t, want, i)) >
		    2 * last_place(t) * fabs(value(t, want, i)))
			return 0;
	return 1;
}

/* A number that the factor turns into 1, or as good as, exists: looked for one by one. */
static int exists(enum ringup_dtype t, double pre)
{
	unsigned char x[2], out[2];
	int i;

	for (i = 0; i < 0x10000; i++) {
		x[0] = (unsigned char)i;
		x[1] = (unsigned char)(i >> 8);
		copy_scaled(t, out, x, 1, pre);
		if (reduce_is_half(t)) {
			if (fabs(value(t, out, 0) - 1) <= 2 * last_place(t))
				return 1;
		} else if (out[0] == 1 && (reduce_dtype_bytes(t) == 1 || !out[1])) {
			return 1;
		}
	}
	return 0;
}

static void one(enum ringup_dtype t, enum ringup_redop op, double pre)
{
	_Alignas(WIDEST) unsigned char x[COUNT * WIDEST], n[COUNT * WIDEST + 1],
		r[COUNT * WIDEST];
	size_t bytes = COUNT * reduce_dtype_bytes(t);
	struct reduce how = { t, op, 1, 1 };
	const void *src[2] = { x, n };
	void *dst[1] = { r };
	int is_floating = reduce_is_floating(t), small = reduce_dtype_bytes(t) <= 2;

	others(t, x);
	memset(n, 0, sizeof(n));
	n[bytes] = GUARD;
	if (!neutral_fill(n, t, op, pre, COUNT)) {
		ok(op == RINGUP_PRODUCT && (!is_floating || reduce_is_half(t)),
		   "type %d, operation %d, %g: none", t, op, pre);
		ok(!small || !exists(t, pre), "  and there is none");
		return;
	}
	ok(n[bytes] == GUARD, "type %d, operation %d, %g: not a byte too many", t, op, pre);
	copy_scaled(t, x, x, COUNT, pre);
	copy_scaled(t, n, n, COUNT, pre);
	reduce_many(&how, dst, 1, src, 2, COUNT);
	if (op == RINGUP_PRODUCT && is_floating)
		ok(close_to(t, r, x), "  changes nothing but the last bits");
	else
		ok(!memcmp(r, x, bytes), "  changes nothing");
}

/* Factors that have no inverse in the type, or are 0 or infinite in it. */
static void far_out(void)
{
	static const struct {
		enum ringup_dtype t;
		enum ringup_redop op;
		double pre;
		int there; /* something that changes nothing */
	} rows[] = {
		{ RINGUP_F16, RINGUP_PRODUCT, 1e-5, 0 },
		{ RINGUP_F16, RINGUP_PRODUCT, 1e8, 0 },
		{ RINGUP_F16, RINGUP_PRODUCT, 1e4, 1 },
		{ RINGUP_F32, RINGUP_PRODUCT, 1e-39, 0 },
		{ RINGUP_F64, RINGUP_PRODUCT, 1e-39, 1 },
		{ RINGUP_F32, RINGUP_SUM, 1e39, 0 },
		{ RINGUP_F64, RINGUP_SUM, 1e39, 1 },
		{ RINGUP_F32, RINGUP_SUM, 1e-50, 1 },
		{ RINGUP_I8, RINGUP_PRODUCT, 0.001, 1 },
		{ RINGUP_U8, RINGUP_PRODUCT, 1 / 255.0, 1 },
		{ RINGUP_I64, RINGUP_PRODUCT, 1.5e-19, 1 },
	};
	static const enum ringup_redop limits[] = { RINGUP_MIN, RINGUP_MAX };
	double n = 0;
	float f, x = -1, scaled;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ok(neutral_fill(&n, rows[i].t, rows[i].op, rows[i].pre, 1) == rows[i].there,
		   "type %d, operation %d, %g: %s", rows[i].t, rows[i].op, rows[i].pre,
		   rows[i].there ? "there is one" : "there is none");
		ok(neutral_fill(&n, rows[i].t, rows[i].op, rows[i].pre, 0), "  of no elements");
		n = 0;
	}
	copy_scaled(RINGUP_F32, &x, &x, 1, 1e-50);
	for (i = 0; i < 2; i++) {
		f = 0;
		ok(neutral_fill(&f, RINGUP_F32, limits[i], 1e-50, 1), "a factor that is 0");
		copy_scaled(RINGUP_F32, &scaled, &f, 1, 1e-50);
		ok(scaled == 0 && x == 0, "  makes 0 of it, too");
	}
}

/* Powers of two have exact inverses, and many others a neighbour that serves. */
static void to_the_bit(void)
{
	static const double exact[] = { 1, 0.5, 0.25, 2, -2, 0.1, 3 };
	float n, out;
	size_t i;

	for (i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
		n = 0;
		ok(neutral_fill(&n, RINGUP_F32, RINGUP_PRODUCT, exact[i], 1), "%g", exact[i]);
		copy_scaled(RINGUP_F32, &out, &n, 1, exact[i]);
		ok(out == 1, "  scaled it is 1, to the bit: %.9g", (double)out);
	}
}

int main(void)
{
	static const enum ringup_redop ops[] = { RINGUP_SUM, RINGUP_MIN, RINGUP_MAX,
						 RINGUP_PRODUCT };
	size_t i, j, k;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		for (j = 0; j < sizeof(ops) / sizeof(ops[0]); j++)
			for (k = 0; k < sizeof(factors) / sizeof(factors[0]); k++)
				one(types[i], ops[j], factors[k]);
	to_the_bit();
	far_out();
	return tap_done();
}
