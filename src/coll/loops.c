/* loops.c - vectorised kernels for AVX-512, AVX2 and other processors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/loops.h"

#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "coll/copy.h"

/* Copies fewer bytes than a vector has. */
static inline void copy_small(unsigned char *d, const unsigned char *s, size_t n)
{
	unsigned char a[16];

	while (n >= 16) {
		memcpy(a, s, 16);
		memcpy(d, a, 16);
		d += 16;
		s += 16;
		n -= 16;
	}
	copy_few(d, s, n);
}

static inline uint32_t bits_of(float f)
{
	uint32_t x;

	memcpy(&x, &f, sizeof(x));
	return x;
}

static inline float float_of(uint32_t x)
{
	float f;

	memcpy(&f, &x, sizeof(f));
	return f;
}

static inline float bf16_widen(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

static inline uint16_t bf16_narrow(float f)
{
	uint32_t x = bits_of(f);

	if ((x & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(x >> 16 | 0x40);
	return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

static inline float f16_widen(uint16_t h)
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

static inline uint16_t f16_narrow(float f)
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

#ifdef __x86_64__

#define LOOPS_NAME   avx512
#define LOOPS_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define LOOPS_BYTES  64
#define LOOPS_HALF   16
#define LOOPS_RUNS                                                                  \
	(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && \
	 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#include "coll/loops.def"

/* Not every compiler's __builtin_cpu_supports() knows f16c. */
static bool has_f16c(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

#define LOOPS_NAME   avx2
#define LOOPS_TARGET __attribute__((target("avx2,f16c")))
#define LOOPS_BYTES  32
#define LOOPS_HALF   8
#define LOOPS_RUNS   (__builtin_cpu_supports("avx2") && has_f16c())
#include "coll/loops.def"

#endif

#define LOOPS_NAME   plain
#define LOOPS_TARGET /* the architecture's baseline */
#define LOOPS_BYTES  16
#ifdef __aarch64__
#define LOOPS_HALF 4
#else
#define LOOPS_HALF 0
#endif
#define LOOPS_RUNS true
#include "coll/loops.def"

const struct loops *const loops_all[] = {
#ifdef __x86_64__
	&loops_avx512,
	&loops_avx2,
#endif
	&loops_plain,
	NULL,
};

const struct loops *loops_chosen;

const struct loops *loops_choose(void)
{
	int i = 0;

	while (!loops_all[i]->runs())
		i++;
	__atomic_store_n(&loops_chosen, loops_all[i], __ATOMIC_RELAXED);
	return loops_all[i];
}

void loops_use(const struct loops *l)
{
	__atomic_store_n(&loops_chosen, l, __ATOMIC_RELAXED);
}
