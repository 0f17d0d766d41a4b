/* copy.h - copy bytes with our own vector loops. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_COPY_H
#define COLL_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ringup.h"

/* So much is read before this processor owns it. */
enum { COPY_OWN_BYTES = 1024 };

/*
 * copy_bytes - copy @n bytes between buffers that do not overlap.
 *
 * libc's memcpy takes `rep movsb` from 4 KiB on, which is several times slower
 * on some processors when the offsets within a page are close; and some copies
 * here read lines that another core has just written.  Plain vector loads and
 * stores, chosen once for this processor, have no such cliffs.
 */
void copy_bytes(void *dst, const void *src, size_t n);

/* copy_few - the same for at most 16 bytes, by two words that may overlap. */
static inline void copy_few(void *dst, const void *src, size_t n)
{
	unsigned char *d = dst, a[8], b[8];
	const unsigned char *s = src;

	if (n >= 8) {
		memcpy(a, s, 8);
		memcpy(b, s + n - 8, 8);
		memcpy(d, a, 8);
		memcpy(d + n - 8, b, 8);
	} else if (n >= 4) {
		memcpy(a, s, 4);
		memcpy(b, s + n - 4, 4);
		memcpy(d, a, 4);
		memcpy(d + n - 4, b, 4);
	} else if (n) {
		unsigned char middle = s[n / 2], last = s[n - 1];

		d[0] = s[0];
		d[n / 2] = middle;
		d[n - 1] = last;
	}
}

/*
 * copy_streaming - copy_bytes() past the caches, for what is larger than they are: a line
 * that is written whole need not be read first, and what is in the caches stays there.
 *
 * copy_settle - to be called before another thread is told that the copy is there.
 */
void copy_streaming(void *dst, const void *src, size_t n);
void copy_settle(void);

/*
 * Memory that one processor fills again and again and another only reads stays in
 * both their caches, and then each line that is filled has to ask the reader to
 * forget it, one at a time: 2 GB/s between distant processors.  What helps depends
 * on the processor:
 *
 *	COPY_ASKS     nothing: it asks as fast as it brings lines over
 *	COPY_OWNS     the last reader writes to the line, and owns it; it then comes over whole
 *	COPY_STRINGS  whole lines are written by a string move, which fetches none
 */
enum copy_ownership { COPY_ASKS, COPY_OWNS, COPY_STRINGS, COPY_OWNERSHIPS };

/* copy_ownership - which of them is in use. */
enum copy_ownership copy_ownership(void);

/* copy_use_ownership - from now on, for tests; COPY_OWNERSHIPS: what suits this processor. */
void copy_use_ownership(enum copy_ownership how);

/* copy_sums_stream - should the rank that adds up a large sum write it past the caches?  True
 * on Intel's processors, where a line fetched in vain costs more than on AMD's; ranks that take
 * a sum which others have added up always may (docs/WHY.md). */
bool copy_sums_stream(void);

/* Which ranks touch the lines of a result while it is made. */
enum copy_result {
	COPY_SHARED,   /* other ranks, too                                           */
	COPY_ALONE,    /* only the rank whose result it is                           */
	COPY_GATHERED, /* the same, and slots and inputs are smaller than the result */
	COPY_LENT,     /* other ranks, by ringup_alloc(): there are no slots         */
	COPY_RESULTS
};

/* copy_streaming_from - the bytes from which on such results, all ranks' of a host together,
 * are worth writing past the caches, on this processor. */
size_t copy_streaming_from(enum copy_result what);

/*
 * copy_over - copy_bytes() to such memory, and to any other whose lines are likely to be
 * in no cache of this processor: by a string move where COPY_STRINGS.
 */
void copy_over(void *dst, const void *src, size_t n);

/*
 * copy_own - make the cache lines of @n bytes at @p this processor's own,
 * without changing what is in them; nothing where COPY_ASKS.
 *
 * To be called by the last reader, while nobody else reads or writes there; where
 * COPY_STRINGS only for what copy_over() will not fill.
 */
void copy_own(void *p, size_t n);

/* copy_and_own - copy_bytes(), or copy_streaming(), of what copy_over() filled, and where
 * COPY_OWNS copy_own() of it, bit by bit. */
void copy_and_own(void *dst, void *src, size_t n, bool streaming);

/* copy_scaled - dst[i] = src[i] * factor in the arithmetic of @dtype: floating
 * types in their own precision (f16, bf16 by way of f32), integers through double
 * and truncated; a bool stays what it is, as 0 or 1.  @dst may equal @src. */
void copy_scaled(enum ringup_dtype dtype, void *dst, const void *src, uint64_t count,
		 double factor);

#endif
