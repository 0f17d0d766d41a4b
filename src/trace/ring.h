/* ring.h - a wait-free queue of records from one thread to another. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_RING_H
#define TRACE_RING_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trace/record.h"

/* A power of two: half a megabyte for a thread, allocated page by page as it is written. */
enum { RING_RECORDS = 1 << 14 };

/* All zero is empty.  One producer and one consumer at a time. */
struct ring {
	/* The producer's. */
	alignas(64) uint64_t head; /* records ever put; atomic                  */
	uint64_t seen;             /* the tail, as last read                    */
	uint64_t dropped;          /* records for which there was no room; atomic */
	/* The consumer's. */
	alignas(64) uint64_t tail; /* records ever taken; atomic */
	alignas(64) struct trace_record record[RING_RECORDS];
};

/* A record is copied in pieces that are atomic, since ring_copy() may read it meanwhile. */
static inline void ring_set(struct trace_record *to, const struct trace_record *r)
{
	uint64_t word[sizeof(*r) / sizeof(uint64_t)], *at = (uint64_t *)to;

	memcpy(word, r, sizeof(word));
	for (size_t i = 0; i < sizeof(word) / sizeof(word[0]); i++)
		__atomic_store_n(&at[i], word[i], __ATOMIC_RELAXED);
}

/* ring_overwrite - copy @r to the end, over the oldest; for a ring from which no consumer
 * takes. */
static inline void ring_overwrite(struct ring *q, const struct trace_record *r)
{
	uint64_t head = q->head;

	/* A reader that sees a part of this record sees also that the last one is whole. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	ring_set(&q->record[head % RING_RECORDS], r);
	__atomic_store_n(&q->head, head + 1, __ATOMIC_RELEASE);
}

/* ring_copy - copy the latest records, RING_RECORDS at most, to @out; returns how many.  Any
 * thread, also while records are put. */
static inline size_t ring_copy(const struct ring *q, struct trace_record *out)
{
	uint64_t end = __atomic_load_n(&q->head, __ATOMIC_ACQUIRE), at, first, word[4];
	uint64_t from = end < RING_RECORDS ? 0 : end - RING_RECORDS;
	const uint64_t *p;

	for (at = from; at < end; at++) {
		p = (const uint64_t *)&q->record[at % RING_RECORDS];
		for (size_t i = 0; i < 4; i++)
			word[i] = __atomic_load_n(&p[i], __ATOMIC_RELAXED);
		memcpy(&out[at - from], word, sizeof(word));
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	/* Records that were overwritten meanwhile, and the one being written, are torn. */
	first = __atomic_load_n(&q->head, __ATOMIC_RELAXED) + 1;
	first = first < RING_RECORDS ? 0 : first - RING_RECORDS;
	if (first <= from)
		return (size_t)(end - from);
	if (first >= end)
		return 0;
	memmove(out, out + (first - from), (size_t)(end - first) * sizeof(*out));
	return (size_t)(end - first);
}

/* ring_put - copy @r to the end; false if there is no room, which is counted.  Never blocks. */
static inline bool ring_put(struct ring *q, const struct trace_record *r)
{
	uint64_t head = q->head;

	if (head - q->seen >= RING_RECORDS) {
		q->seen = __atomic_load_n(&q->tail, __ATOMIC_ACQUIRE);
		if (head - q->seen >= RING_RECORDS) {
			__atomic_store_n(&q->dropped, q->dropped + 1, __ATOMIC_RELAXED);
			return false;
		}
	}
	ring_set(&q->record[head % RING_RECORDS], r);
	__atomic_store_n(&q->head, head + 1, __ATOMIC_RELEASE);
	return true;
}

/* ring_is_half_full - for the producer, after ring_put(): is it time to wake the consumer? True
 * once while the ring fills up. */
static inline bool ring_is_half_full(struct ring *q)
{
	if (q->head % (RING_RECORDS / 2))
		return false;
	return q->head - __atomic_load_n(&q->tail, __ATOMIC_RELAXED) >= RING_RECORDS / 2;
}

/* ring_first - the consumer's next record, or NULL; @at is how many records it has read so far.
 * ring_take - give the room of all records before @at back to the producer. */
static inline const struct trace_record *ring_first(const struct ring *q, uint64_t at)
{
	if (at == __atomic_load_n(&q->head, __ATOMIC_ACQUIRE))
		return NULL;
	return &q->record[at % RING_RECORDS];
}

static inline void ring_take(struct ring *q, uint64_t at)
{
	__atomic_store_n(&q->tail, at, __ATOMIC_RELEASE);
}

/* ring_dropped - how many records have been dropped so far.  Any thread. */
static inline uint64_t ring_dropped(const struct ring *q)
{
	return __atomic_load_n(&q->dropped, __ATOMIC_RELAXED);
}

#endif
