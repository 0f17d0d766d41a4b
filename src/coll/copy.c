/* copy.c - memory copies with vector loops: cached, streaming, or owning lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/copy.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "coll/loops.h"
#include "coll/scalar.h"

void copy_bytes(void *dst, const void *src, size_t n)
{
	loops_best()->copy(dst, src, n);
}

void copy_streaming(void *dst, const void *src, size_t n)
{
	loops_best()->copy_streaming(dst, src, n);
}

void copy_settle(void)
{
#ifdef __x86_64__
	__builtin_ia32_sfence(); /* no other fence keeps such stores in order */
#endif
}

enum {
	STRING_LEAST = 256, /* bytes; for fewer, starting it takes longer than it saves */
	ZEN5 = 26,          /* family() of Zen 5; later processors have greater ones    */
};

static enum copy_ownership forced = COPY_OWNERSHIPS; /* atomic */

#ifdef __x86_64__
/* The family from cpuid: 25 is Zen 3 and Zen 4, 26 Zen 5.  Read once, since a hypervisor takes
 * microseconds to emulate cpuid. */
static int family(void)
{
	static int known = -1; /* atomic */
	int is = __atomic_load_n(&known, __ATOMIC_RELAXED);
	unsigned int a = 0, b, c, d;

	if (is >= 0)
		return is;
	__get_cpuid(1, &a, &b, &c, &d);
	is = a >> 8 & 0xf;
	if (is == 0xf)
		is += a >> 20 & 0xff;
	__atomic_store_n(&known, is, __ATOMIC_RELAXED);
	return is;
}
#endif

/*
 * Intel's processors invalidate a reader's lines as fast as they fetch them; owning a line
 * costs time there and saves none.  AMD's from Zen 5 on move strings without waiting until
 * readers' lines are invalidated; Zen 4's wait, and earlier ones move strings four times
 * slower if source and destination are close within a page.
 */
static enum copy_ownership suits(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_is("intel"))
		return COPY_ASKS;
	if (__builtin_cpu_is("amd") && family() >= ZEN5)
		return COPY_STRINGS;
#endif
	return COPY_OWNS;
}

enum copy_ownership copy_ownership(void)
{
	enum copy_ownership how = __atomic_load_n(&forced, __ATOMIC_RELAXED);

	return how == COPY_OWNERSHIPS ? suits() : how;
}

/* Other measured differences between processors: docs/HISTORY.md. */
static const struct way {
	bool sums_stream;
	int eager_pair, eager_crowd;
	unsigned char streaming_from[COPY_RESULTS]; /* MiB */
} ways[COPY_OWNERSHIPS] = {
	/*                  sums  pair crowd   SHARED ALONE GATHERED ZCOPY */
	[COPY_ASKS] = { true, 4, 64, { 16, 4, 4, 16 } },
	[COPY_OWNS] = { false, 4, 64, { 16, 16, 20, 20 } },
	[COPY_STRINGS] = { false, 16, 128, { 16, 16, 16, 16 } },
};

bool copy_sums_stream(void)
{
	return ways[copy_ownership()].sums_stream;
}

int copy_eager_pair(void)
{
	return ways[copy_ownership()].eager_pair;
}

int copy_eager_crowd(void)
{
	return ways[copy_ownership()].eager_crowd;
}

size_t copy_streaming_from(enum copy_result what)
{
	return (size_t)ways[copy_ownership()].streaming_from[what] << 20;
}

void copy_use_ownership(enum copy_ownership how)
{
	__atomic_store_n(&forced, how, __ATOMIC_RELAXED);
}

/* Its stores are ordered before later ones, so no fence is needed. */
static void move_string(void *dst, const void *src, size_t n)
{
#ifdef __x86_64__
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
#else
	copy_bytes(dst, src, n);
#endif
}

void copy_over(void *dst, const void *src, size_t n)
{
	if (n >= STRING_LEAST && copy_ownership() == COPY_STRINGS)
		move_string(dst, src, n);
	else
		copy_bytes(dst, src, n);
}

void copy_own(void *p, size_t n)
{
	volatile unsigned char *at = p;

	if (copy_ownership() == COPY_ASKS)
		return;
	for (size_t i = 0; i < n; i += 64)
		at[i] = at[i];
}

void copy_and_own(void *dst, void *src, size_t n, bool streaming)
{
	void (*copy)(void *d, const void *s, size_t m) =
		streaming ? copy_streaming : copy_bytes;
	unsigned char *to = dst, *from = src;
	size_t m;

	if (copy_ownership() != COPY_OWNS) {
		copy(dst, src, n);
		return;
	}
	/* Lines are owned while they are still in the nearest cache. */
	for (size_t i = 0; i < n; i += m) {
		m = n - i < COPY_OWN_BYTES ? n - i : COPY_OWN_BYTES;
		copy(to + i, from + i, m);
		copy_own(from + i, m);
	}
}

#define SCALE(tag, elem)                                                               \
	static void scale_##tag(elem *d, const elem *s, uint64_t count, double factor) \
	{                                                                              \
		for (uint64_t i = 0; i < count; i++)                                   \
			d[i] = scaled_##tag(s[i], factor);                             \
	}

SCALE(u8, uint8_t)
SCALE(i8, int8_t)
SCALE(u16, uint16_t)
SCALE(i16, int16_t)
SCALE(i32, int32_t)
SCALE(i64, int64_t)

void copy_scaled(enum ringup_dtype dtype, void *dst, const void *src, uint64_t count,
		 double factor)
{
	switch (dtype) {
	case RINGUP_U8:
		scale_u8(dst, src, count, factor);
		break;
	case RINGUP_I8:
		scale_i8(dst, src, count, factor);
		break;
	case RINGUP_U16:
		scale_u16(dst, src, count, factor);
		break;
	case RINGUP_I16:
		scale_i16(dst, src, count, factor);
		break;
	case RINGUP_I32:
		scale_i32(dst, src, count, factor);
		break;
	case RINGUP_I64:
		scale_i64(dst, src, count, factor);
		break;
	case RINGUP_F16:
	case RINGUP_BF16:
	case RINGUP_F32:
	case RINGUP_F64:
		loops_best()->many[RINGUP_SUM][dtype](&dst, 1, &src, 1, count, factor, 1);
		break;
	case RINGUP_BOOL: /* true stays true, as 1 */
		loops_best()->many[RINGUP_SUM][dtype](&dst, 1, &src, 1, count, 1, 1);
		break;
		break;
	}
}
