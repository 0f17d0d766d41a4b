/* copy.h - memory copies with vector loops: cached, streaming, or owning lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_COPY_H
#define COLL_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ringup.h"

/* Bytes that are copied before this processor takes ownership of their lines. */
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
 * copy_streaming - copy_bytes() with streaming stores (past the caches), for copies larger than
 * the caches: a line that is written whole need not be read first, and cached lines stay.
 *
 * copy_settle - a store fence; to be called before the copy is published to another thread.
 */
void copy_streaming(void *dst, const void *src, size_t n);
void copy_settle(void);

/*
 * Memory that one processor fills again and again and another only reads stays in
 * both caches, and then each store to a line has to invalidate the reader's copy,
 * one line at a time: 2 GB/s between distant processors.  The remedy depends on
 * the processor:
 *
 *	COPY_ASKS     none is needed: it invalidates as fast as it fetches lines
 *	COPY_OWNS     the last reader writes to the line and owns it; one fetch moves it
 *	COPY_STRINGS  whole lines are written by a string move, which fetches none
 */
enum copy_ownership { COPY_ASKS, COPY_OWNS, COPY_STRINGS, COPY_OWNERSHIPS };

/* copy_ownership - which of them is in use. */
enum copy_ownership copy_ownership(void);

/* copy_use_ownership - from now on, for tests; COPY_OWNERSHIPS: as suits this processor. */
void copy_use_ownership(enum copy_ownership how);

/* copy_sums_stream - should the reducing rank use streaming stores for a large sum?  True on
 * Intel's processors, where a needless fetch of a line costs more than on AMD's; other ranks
 * always may (docs/WHY.md). */
bool copy_sums_stream(void);

/* copy_eager_pair - how many times the usual limit an eager operation of two ranks may have,
 * each with a processor; more where string moves fill the slots. copy_eager_crowd - the same of
 * fewer processors than ranks, times the number of ranks. */
int copy_eager_pair(void);
int copy_eager_crowd(void);

/* Which ranks touch the lines of a result while it is made. */
enum copy_result {
	COPY_SHARED,   /* also other ranks than the receiver                         */
	COPY_ALONE,    /* only the receiver                                          */
	COPY_GATHERED, /* the same, and slots and inputs are smaller than the result */
	COPY_ZCOPY,    /* other ranks, by ringup_alloc(): there are no slots         */
	COPY_RESULTS
};

/* copy_streaming_from - the bytes of such results, all ranks' of a host together, from which on
 * streaming stores pay on this processor. */
size_t copy_streaming_from(enum copy_result what);

/*
 * copy_over - copy_bytes() to memory that another processor reads, or whose lines are likely
 * to be in no cache of this processor: by a string move where COPY_STRINGS.
 */
void copy_over(void *dst, const void *src, size_t n);

/*
 * copy_own - take ownership of the cache lines of @n bytes at @p, without
 * changing their contents; nothing where COPY_ASKS.
 *
 * The last reader calls it, while no other thread reads or writes there; where
 * COPY_STRINGS only for memory that copy_over() will not fill.
 */
void copy_own(void *p, size_t n);

/* copy_and_own - copy_bytes(), or copy_streaming(), from memory that copy_over() filled, and
 * where COPY_OWNS copy_own() of the source, bit by bit. */
void copy_and_own(void *dst, void *src, size_t n, bool streaming);

/* copy_scaled - dst[i] = src[i] * factor in the arithmetic of @dtype: floating
 * types in their own precision (f16, bf16 by way of f32), integers through double
 * and truncated; a bool keeps its value, as 0 or 1.  @dst may equal @src. */
void copy_scaled(enum ringup_dtype dtype, void *dst, const void *src, uint64_t count,
		 double factor);

#endif
