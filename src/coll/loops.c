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
#include "coll/scalar.h"

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
