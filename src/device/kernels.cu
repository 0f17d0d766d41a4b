/* kernels.cu - the device's kernels, in the common subset of CUDA and C; see kernels.h. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * src/device/kernels_ptx.c is made of this by tests/device/ptx.py.  tests/fakegpu/kernels_cpu.c
 * compiles it as C, with KERNEL, blockIdx and threadIdx of its own.
 */
#include "coll/scalar.h"
#include "device/kernels.h"

#ifdef __CUDACC__
#define KERNEL(name) \
	extern "C" __global__ void __launch_bounds__(DEVICE_THREADS) name(struct device_move m)
#define MAY_ALIAS
#define UNROLL_LATER \
	_Pragma("unroll 1") /* the driver's compiler does it; the PTX stays short */
#else
#define MAY_ALIAS __attribute__((may_alias))
#define UNROLL_LATER
#endif

/* The widest load and store, and narrower ones for what is not aligned to it. */
typedef struct __attribute__((aligned(16))) MAY_ALIAS {
	uint64_t low, high;
} word16;
typedef uint64_t MAY_ALIAS word8;
typedef uint32_t MAY_ALIAS word4;
typedef uint16_t MAY_ALIAS word2;
typedef uint8_t MAY_ALIAS word1;

/* The block's tile: n elements of piece number p, from element first.  A macro, since a pointer
 * to the parameter would have it copied to the threads' own memory. */
#define TILE                                                                    \
	uint32_t p = 0, high = m.pieces - 1, first, n, k;                       \
                                                                                \
	while (p < high) {                                                      \
		uint32_t middle = (p + high) / 2;                               \
                                                                                \
		if (m.piece[middle].tile_end > blockIdx.x)                      \
			high = middle;                                          \
		else                                                            \
			p = middle + 1;                                         \
	}                                                                       \
	first = (blockIdx.x - (p ? m.piece[p - 1].tile_end : 0)) * DEVICE_TILE; \
	n = m.piece[p].count - first;                                           \
	n = n < DEVICE_TILE ? n : DEVICE_TILE

#define EACH(begin, end) \
	UNROLL_LATER for (k = (begin) + threadIdx.x; k < (end); k += DEVICE_THREADS)

/* The element x becomes VALUE. */
#define MAP(name, in, out, VALUE)                                     \
	KERNEL(name)                                                  \
	{                                                             \
		TILE;                                                 \
		const in *from = (const in *)m.piece[p].from + first; \
		out *to = (out *)m.piece[p].to + first;               \
                                                                      \
		EACH(0, n)                                            \
		{                                                     \
			in x = from[k];                               \
                                                                      \
			to[k] = VALUE;                                \
		}                                                     \
	}

/* ---- moves ---- */

#define COPY(word)                                         \
	do {                                               \
		EACH(0, n / (uint32_t)sizeof(word))        \
		((word *)to)[k] = ((const word *)from)[k]; \
		EACH(n - n % (uint32_t)sizeof(word), n)    \
		to[k] = from[k];                           \
	} while (0)

KERNEL(ringup_copy)
{
	TILE;
	const word1 *from = (const word1 *)m.piece[p].from + (uint64_t)first * m.element;
	word1 *to = (word1 *)m.piece[p].to + (uint64_t)first * m.element;
	uint32_t off = ((uint32_t)(uintptr_t)from | (uint32_t)(uintptr_t)to) & 15;

	n *= m.element;
	if (!off)
		COPY(word16);
	else if (!(off & 7))
		COPY(word8);
	else if (!(off & 3))
		COPY(word4);
	else if (!(off & 1))
		COPY(word2);
	else
		COPY(word1);
}

#define FILL(word)                               \
	do {                                     \
		EACH(0, n)                       \
		((word *)to)[k] = (word)m.value; \
	} while (0)

KERNEL(ringup_fill)
{
	TILE;
	word1 *to = (word1 *)m.piece[p].to + (uint64_t)first * m.element;

	if (m.element == 8)
		FILL(word8);
	else if (m.element == 4)
		FILL(word4);
	else if (m.element == 2)
		FILL(word2);
	else
		FILL(word1);
}

MAP(ringup_bool, uint8_t, uint8_t, x != 0)

/* ---- integers ---- */

#define QUOTIENT(elem, x)  (m.divisor == 1 ? (x) : (elem)((x) / m.divisor))
#define SCALED(tag, x)     (m.factor == 1 ? (x) : scaled_##tag(x, m.factor))
#define INTEGER(tag, elem) MAP(ringup_scale_##tag, elem, elem, SCALED(tag, QUOTIENT(elem, x)))

INTEGER(u8, uint8_t)
INTEGER(i8, int8_t)
INTEGER(u16, uint16_t)
INTEGER(i16, int16_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)

/* Types that NCCL lacks travel as 32-bit integers, which wrap in the same way. */
MAP(ringup_widen_u16, uint16_t, int32_t, SCALED(u16, x))
MAP(ringup_widen_i16, int16_t, int32_t, SCALED(i16, x))
MAP(ringup_narrow_u16, int32_t, uint16_t, SCALED(u16, QUOTIENT(uint16_t, (uint16_t)x)))
MAP(ringup_narrow_i16, int32_t, int16_t, SCALED(i16, QUOTIENT(int16_t, (int16_t)x)))

/* ---- floating numbers: two steps, each rounded, as in coll/loops.def ---- */

#define FLOATING(tag, mem, elem, GET, PUT) \
	MAP(ringup_scale_##tag, mem, mem,  \
	    PUT((m.divisor == 1 ? GET(x) : GET(x) / (elem)m.divisor) * (elem)m.factor))
#define AS_IS(x) (x)

FLOATING(f16, uint16_t, float, f16_widen, f16_narrow)
FLOATING(bf16, uint16_t, float, bf16_widen, bf16_narrow)
FLOATING(f32, float, float, AS_IS, AS_IS)
FLOATING(f64, double, double, AS_IS, AS_IS)
