/* test_loops.c - each half-precision pattern is converted right, by each set of loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/loops.h"
#include "half.h"
#include "tap.h"

enum { ALL = 65536 };

/* Every pattern times @factor, which rounds to f32 and then to the type. */
static int converts(const struct loops *l, enum ringup_dtype t, int exponent, int mantissa,
		    float factor)
{
	static uint16_t in[ALL], out[ALL];
	const void *src = in;
	void *dst = out;
	int i;

	for (i = 0; i < ALL; i++)
		in[i] = (uint16_t)i;
	l->many[RINGUP_SUM][t](&dst, 1, &src, 1, ALL, factor, 1);
	for (i = 0; i < ALL; i++) {
		float f = (float)meaning((unsigned int)i, exponent, mantissa) * factor;
		double got = meaning(out[i], exponent, mantissa);

		if (isnan(f) ? !isnan(got) : out[i] != nearest(f, exponent, mantissa)) {
			printf("# %04x times %a gives %04x, not %04x\n", (unsigned int)i,
			       factor, out[i], nearest(f, exponent, mantissa));
			return 0;
		}
	}
	return 1;
}

/* Widening is exact; narrowing takes every pattern back to itself. */
static int is_inverse(const struct loops *l, int which, int exponent, int mantissa)
{
	static uint16_t in[ALL], out[ALL];
	static float wide[ALL];
	int i;

	for (i = 0; i < ALL; i++)
		in[i] = (uint16_t)i;
	l->widen[which](wide, in, ALL);
	l->narrow[which](out, wide, ALL);
	for (i = 0; i < ALL; i++) {
		double want = meaning((unsigned int)i, exponent, mantissa);

		if (isnan(want) ? !isnan(wide[i]) || !isnan(meaning(out[i], exponent, mantissa))
				: wide[i] != want || out[i] != in[i])
			return 0;
	}
	return 1;
}

/* Factors that hit ties, their neighbours, denormals, overflow and NaN. */
static int converts_all(const struct loops *l, enum ringup_dtype t, int exponent, int mantissa)
{
	static const float factors[] = {
		1,          -1,     0.5f,           0.25f,    1.5f,     1.25f,         0.75f,
		0x1.004p0f, 1.004f, 0x1.01p0f,      0.3333f,  0x1p-13f, 0x1.000002p0f, 17,
		3e38f,      1e-38f, 0x1.fffffep-1f, INFINITY, 0,        0x1.004002p0f
	};
	size_t i;
	int good = 1;

	for (i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
		good &= converts(l, t, exponent, mantissa, factors[i]);
	for (i = 0; i < 20; i++)
		good &= converts(l, t, exponent, mantissa, (float)rand() / 0x40000000);
	return good;
}

/* Same patterns in, also signalling ones and denormals, same patterns out. */
static int is_like(const struct loops *a, const struct loops *b)
{
	static const enum ringup_dtype types[] = { RINGUP_F16, RINGUP_BF16, RINGUP_F32,
						   RINGUP_F64 };
	static uint64_t in[ALL], p[ALL], q[ALL];
	const void *src = in;
	void *x = p, *y = q;
	size_t i;

	for (i = 0; i < ALL; i++)
		in[i] = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		a->many[RINGUP_SUM][types[i]](&x, 1, &src, 1, ALL, 1, 3);
		b->many[RINGUP_SUM][types[i]](&y, 1, &src, 1, ALL, 1, 3);
		if (memcmp(p, q, sizeof(p)))
			return 0;
	}
	return 1;
}

int main(void)
{
	const struct loops *plain = NULL;
	int i;

	for (i = 0; loops_all[i]; i++)
		plain = loops_all[i];
	ok(plain->runs(), "%s runs everywhere", plain->name);
	for (i = 0; loops_all[i]; i++) {
		const struct loops *l = loops_all[i];

		if (!l->runs()) {
			printf("ok %d - %s # SKIP not on this processor\n", ++tap_count,
			       l->name);
			continue;
		}
		ok(converts_all(l, RINGUP_F16, 5, 10), "%s: every f16 to f32 and back",
		   l->name);
		ok(converts_all(l, RINGUP_BF16, 8, 7), "%s: every bf16 to f32 and back",
		   l->name);
		ok(is_inverse(l, 0, 5, 10), "%s: f16 there and back", l->name);
		ok(is_inverse(l, 1, 8, 7), "%s: bf16 there and back", l->name);
		ok(is_like(l, plain), "%s: the same bits as %s, also for NaN", l->name,
		   plain->name);
	}
	ok(loops_best()->runs(), "the best is %s", loops_best()->name);
	loops_use(plain);
	ok(loops_best() == plain, "and can be overruled");
	loops_use(NULL);
	ok(loops_best()->runs(), "and again");
	return tap_done();
}
