/* ring.h - a wait-free queue of records from one thread to another. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_RING_H
#define TRACE_RING_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/record.h"

/* A power of two: half a megabyte for a thread, allocated page by page as it is written. */
enum { RING_RECORDS = 1 << 14 };

/* All zero is empty.  One producer and one consumer at a time. */
struct ring {
	/* The producer's. */
	alignas(64) uint64_t head; /* records ever put; atomic                  */
	uint64_t seen;             /* the tail, as last read                    */
	uint64_t dropped;          /* for want of room; atomic                  */
	/* The consumer's. */
	alignas(64) uint64_t tail; /* records ever taken; atomic */
	alignas(64) struct trace_record record[RING_RECORDS];
};

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
	q->record[head % RING_RECORDS] = *r;
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
