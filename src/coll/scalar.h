/* scalar.h - the arithmetic of one element: f16 and bf16 from and to f32, scaled integers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_SCALAR_H
#define COLL_SCALAR_H

#include <stdint.h>
#include <string.h>

/* Also part of src/device/kernels.cu, so it is CUDA as well as C. */
#ifdef __CUDACC__
#define SCALAR static __device__ inline
#else
#define SCALAR static inline
#endif

SCALAR uint32_t bits_of(float f)
{
	uint32_t x;

	memcpy(&x, &f, sizeof(x));
	return x;
}

SCALAR float float_of(uint32_t x)
{
	float f;

	memcpy(&f, &x, sizeof(f));
	return f;
}

SCALAR float bf16_widen(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

/* Rounds to nearest even, as f16_narrow() does. */
SCALAR uint16_t bf16_narrow(float f)
{
	uint32_t x = bits_of(f);

	if ((x & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(x >> 16 | 0x40);
	return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

SCALAR float f16_widen(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = h & 0x7fff;

	if (m > 0x7c00)
		return float_of(sign | 0x7fc00000 | m << 13);
	if (m == 0x7c00)
		return float_of(sign | 0x7f800000);
	if (m >= 0x400)
		return float_of(sign | ((m << 13) + 0x38000000));
	return float_of(sign | bits_of((float)m * 0x1p-24f));
}

SCALAR uint16_t f16_narrow(float f)
{
	uint32_t x = bits_of(f), sign = x >> 16 & 0x8000;

	x &= 0x7fffffff;
	if (x > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (x >> 13 & 0x3ff));
	if (x >= 0x477ff000) /* 65520: rounds to 65536, which is infinite in f16 */
		return (uint16_t)(sign | 0x7c00);
	if (x >= 0x38800000)
		return (uint16_t)(sign | (x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13);
	/* Denormal: next to 0.5 a float counts in the same units, 2^-24. */
	return (uint16_t)(sign | (bits_of(float_of(x) + 0.5f) - 0x3f000000));
}

/* Rounds y towards zero; saturates; a NaN becomes 0. */
#define TRUNCATED(elem, y, low, high)                                                  \
	((y) > (double)(low)-1 && (y) < (double)(high) + 1 ? (elem)(y)                 \
							   : (elem)((y) < 0   ? (low)  \
								    : (y) > 0 ? (high) \
									      : 0))

SCALAR uint8_t scaled_u8(uint8_t x, double factor)
{
	double y = (double)x * factor;

	return TRUNCATED(uint8_t, y, 0, UINT8_MAX);
}

SCALAR int8_t scaled_i8(int8_t x, double factor)
{
	double y = (double)x * factor;

	return TRUNCATED(int8_t, y, INT8_MIN, INT8_MAX);
}

SCALAR uint16_t scaled_u16(uint16_t x, double factor)
{
	double y = (double)x * factor;

	return TRUNCATED(uint16_t, y, 0, UINT16_MAX);
}

SCALAR int16_t scaled_i16(int16_t x, double factor)
{
	double y = (double)x * factor;

	return TRUNCATED(int16_t, y, INT16_MIN, INT16_MAX);
}

SCALAR int32_t scaled_i32(int32_t x, double factor)
{
	double y = (double)x * factor;

	return TRUNCATED(int32_t, y, INT32_MIN, INT32_MAX);
}

/* int64_t's maximum is no double: 2^63 is the first that does not fit. */
SCALAR int64_t scaled_i64(int64_t x, double factor)
{
	double y = (double)x * factor;

	if (y >= -0x1p63 && y < 0x1p63)
		return (int64_t)y;
	return y < 0 ? INT64_MIN : y > 0 ? INT64_MAX : 0;
}

#endif
