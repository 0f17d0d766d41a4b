/* half.h - f16 (5, 10) and bf16 (8, 7) from their definition, for tests. */
#ifndef HALF_H
#define HALF_H

#include <math.h>

/* What the pattern means, from the definition: @exponent bits, then @mantissa bits. */
static inline double meaning(unsigned int h, int exponent, int mantissa)
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
static inline unsigned int nearest(double x, int exponent, int mantissa)
{
	unsigned int sign = signbit(x) ? 0x8000 : 0, low = 0;
	unsigned int high = ((1U << exponent) - 1) << mantissa; /* infinity */
	double below, above;

	if (isnan(x))
		return sign | ((2U << exponent) - 1) << (mantissa - 1);
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

#endif
