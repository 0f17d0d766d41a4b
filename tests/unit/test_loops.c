/* test_loops.c - conversions are exact for every pattern, on every set of loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/loops.h"
#include "tap.h"

enum { ALL = 65536 };

static uint32_t bits_of(float f)
{
	uint32_t x;

	memcpy(&x, &f, sizeof(x));
	return x;
}

static float float_of(uint32_t x)
{
	float f;

	memcpy(&f, &x, sizeof(f));
	return f;
}

/* What the pattern means, from the definition: @exponent bits, then @mantissa bits. */
static double meaning(unsigned int h, int exponent, int mantissa)
{
	int bias = (1 << (exponent - 1)) - 1;
	int e = (int)(h >> mantissa) & ((1 << exponent) - 1);
	int m = (int)h & ((1 << mantissa) - 1);
	double sign = h & 0x8000 ? -1 : 1;

	if (e == (1 << exponent) - 1)
		return m ? NAN : sign * INFINITY;
	if (!e)
		return sign * ldexp(m, 1 - bias - mantissa);
	return sign * ldexp((1 << mantissa) + m, e - bias - mantissa);
}

/* Positive patterns are in the order of what they mean: find the nearest by bisection. */
static unsigned int nearest(double x, int exponent, int mantissa)
{
	unsigned int sign = signbit(x) ? 0x8000 : 0, low = 0;
	unsigned int high = ((1U << exponent) - 1) << mantissa; /* infinity */
	double below, above;

	x = fabs(x);
	while (high - low > 1) {
		unsigned int middle = (low + high) / 2;

		if (meaning(middle, exponent, mantissa) <= x)
			low = middle;
		else
			high = middle;
	}
	below = meaning(low, exponent, mantissa);
	/* Rounding treats infinity as the number that would come next. */
	above = 2 * below - meaning(low - 1, exponent, mantissa);
	if (low == 0 || isfinite(meaning(high, exponent, mantissa)))
		above = meaning(high, exponent, mantissa);
	if (isinf(x))
		return sign | ((1U << exponent) - 1) << mantissa;
	if (x - below == above - x)
		return sign | (low & 1 ? high : low);
	return sign | (x - below < above - x ? low : high);
}

static int widens(void (*widen)(float *, const uint16_t *, size_t), int exponent, int mantissa)
{
	static uint16_t in[ALL];
	static float out[ALL];
	int i;

	for (i = 0; i < ALL; i++)
		in[i] = (uint16_t)i;
	widen(out, in, ALL);
	for (i = 0; i < ALL; i++) {
		double want = meaning((unsigned int)i, exponent, mantissa);

		if (isnan(want) ? !isnan(out[i]) : bits_of(out[i]) != bits_of((float)want)) {
			printf("# %04x gives %a, not %a\n", (unsigned int)i, out[i], want);
			return 0;
		}
	}
	return 1;
}

/* Every pattern comes back, and so does what lies half way to the next, and beside it. */
static int narrows(void (*narrow)(uint16_t *, const float *, size_t), int exponent,
		   int mantissa)
{
	static float in[ALL * 4];
	static uint16_t out[ALL * 4];
	int i, n = 0;

	for (i = 0; i < ALL; i++) {
		double here = meaning((unsigned int)i, exponent, mantissa);
		double there = meaning((unsigned int)i + 1, exponent, mantissa);
		float half =
			isfinite(here) && isfinite(there) ? (float)((here + there) / 2) : 65520;

		in[n++] = (float)here;
		in[n++] = half;
		in[n++] = nextafterf(half, INFINITY);
		in[n++] = nextafterf(half, -INFINITY);
	}
	for (i = 0; i < ALL; i += 3)
		in[i] = float_of((uint32_t)rand() << 16 ^ (uint32_t)rand());
	narrow(out, in, ALL * 4);
	for (i = 0; i < n; i++) {
		double got = meaning(out[i], exponent, mantissa);

		if (isnan(in[i]) ? !isnan(got) : out[i] != nearest(in[i], exponent, mantissa)) {
			printf("# %a gives %04x, not %04x\n", in[i], out[i],
			       nearest(in[i], exponent, mantissa));
			return 0;
		}
	}
	return 1;
}

/* Same patterns in, also signalling ones, same patterns out. */
static int is_like(const struct loops *a, const struct loops *b)
{
	static uint16_t in[ALL], p[ALL], q[ALL];
	static float wide[ALL], x[ALL], y[ALL];
	int i;

	for (i = 0; i < ALL; i++) {
		in[i] = (uint16_t)i;
		wide[i] = float_of((uint32_t)rand() << 16 ^ (uint32_t)rand());
		if (i % 5 == 0)
			wide[i] = float_of(0x7f800000 | ((uint32_t)rand() & 0x807fffff));
	}
	a->widen_f16(x, in, ALL);
	b->widen_f16(y, in, ALL);
	if (memcmp(x, y, sizeof(x)))
		return 0;
	a->widen_bf16(x, in, ALL);
	b->widen_bf16(y, in, ALL);
	if (memcmp(x, y, sizeof(x)))
		return 0;
	a->narrow_f16(p, wide, ALL);
	b->narrow_f16(q, wide, ALL);
	if (memcmp(p, q, sizeof(p)))
		return 0;
	a->narrow_bf16(p, wide, ALL);
	b->narrow_bf16(q, wide, ALL);
	return !memcmp(p, q, sizeof(p));
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
		ok(widens(l->widen_f16, 5, 10), "%s: every f16 becomes its f32", l->name);
		ok(widens(l->widen_bf16, 8, 7), "%s: every bf16 becomes its f32", l->name);
		ok(narrows(l->narrow_f16, 5, 10), "%s: f32 to the nearest f16, ties to even",
		   l->name);
		ok(narrows(l->narrow_bf16, 8, 7), "%s: f32 to the nearest bf16, ties to even",
		   l->name);
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
