/* p2p_ring.c - byte rings in shared memory, one from each rank of a host to every other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/p2p_ring.h"

#include <stdalign.h>
#include <string.h>

#include "base/num.h"

/* All rings of a host together have about AREA bytes, each between LEAST and MOST. */
enum { RING_LEAST = 1 << 10, RING_MOST = 64 << 10, RING_AREA = 64 << 20, PAGE = 4096 };

struct p2p_mailbox {
	alignas(64) uint32_t news; /* atomic */
	struct cma process;        /* written once, before the ranks have met */
};

/* Positions in the stream since the start.  Each has one writer; all are atomic. */
struct p2p_counters {
	alignas(64) uint64_t written;
	alignas(64) uint64_t read;
	uint32_t wanted; /* the writer waits for room */
};

static size_t ring_bytes(int ranks)
{
	size_t bytes = RING_MOST, rings = (size_t)ranks * (size_t)ranks;

	while (bytes > RING_LEAST && bytes * rings > RING_AREA)
		bytes /= 2;
	return bytes;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t mailbox_bytes(int ranks)
{
	return whole_pages((size_t)ranks * sizeof(struct p2p_mailbox));
}

static size_t counter_bytes(int ranks)
{
	return whole_pages((size_t)ranks * (size_t)ranks * sizeof(struct p2p_counters));
}

size_t p2p_rings_bytes(int ranks)
{
	return mailbox_bytes(ranks) + counter_bytes(ranks) +
	       (size_t)ranks * (size_t)ranks * ring_bytes(ranks);
}

void p2p_rings_open(struct p2p_rings *r, void *area, int ranks, int me, const struct cma *self)
{
	unsigned char *at = area;

	*r = (struct p2p_rings){ .ranks = ranks, .me = me, .ring_bytes = ring_bytes(ranks) };
	r->mailbox = area;
	r->counters = (struct p2p_counters *)(void *)(at + mailbox_bytes(ranks));
	r->bytes = at + mailbox_bytes(ranks) + counter_bytes(ranks);
	r->mailbox[me].process = *self;
}

void p2p_rings_process(const struct p2p_rings *r, int rank, struct cma *out)
{
	*out = r->mailbox[rank].process;
}

uint32_t p2p_rings_news(const struct p2p_rings *r)
{
	return __atomic_load_n(&r->mailbox[r->me].news, __ATOMIC_ACQUIRE);
}

void p2p_rings_notify(const struct p2p_rings *r, int rank)
{
	__atomic_fetch_add(&r->mailbox[rank].news, 1, __ATOMIC_SEQ_CST);
}

static size_t ring_index(const struct p2p_rings *r, int from, int to)
{
	return (size_t)from * (size_t)r->ranks + (size_t)to;
}

/* Copies between @data and the ring at stream position @at, around its end. */
static void ring_copy_in(const struct p2p_rings *r, size_t ring, uint64_t at, const void *data,
			 size_t size)
{
	unsigned char *base = r->bytes + ring * r->ring_bytes;
	size_t begin = (size_t)at & (r->ring_bytes - 1), first;

	first = num_least(size, r->ring_bytes - begin);
	memcpy(base + begin, data, first);
	if (size > first)
		memcpy(base, (const unsigned char *)data + first, size - first);
}

static void ring_copy_out(const struct p2p_rings *r, size_t ring, uint64_t at, void *data,
			  size_t size)
{
	const unsigned char *base = r->bytes + ring * r->ring_bytes;
	size_t begin = (size_t)at & (r->ring_bytes - 1), first;

	first = num_least(size, r->ring_bytes - begin);
	memcpy(data, base + begin, first);
	if (size > first)
		memcpy((unsigned char *)data + first, base, size - first);
}

bool p2p_ring_is_empty(const struct p2p_rings *r, int from)
{
	const struct p2p_counters *c = &r->counters[ring_index(r, from, r->me)];

	return __atomic_load_n(&c->written, __ATOMIC_ACQUIRE) == c->read;
}

static size_t ring_room(const struct p2p_rings *r, const struct p2p_counters *c)
{
	uint64_t used = c->written - __atomic_load_n(&c->read, __ATOMIC_ACQUIRE);

	return used < r->ring_bytes ? r->ring_bytes - (size_t)used : 0;
}

size_t p2p_ring_write(const struct p2p_rings *r, int to, const void *data, size_t size)
{
	size_t ring = ring_index(r, r->me, to), n;
	struct p2p_counters *c = &r->counters[ring];

	n = num_least(size, ring_room(r, c));
	if (n < size) {
		/* The reader stores its position, then looks at the flag; this rank sets the
		 * flag, then looks at the position: at least one of them sees the other. */
		__atomic_store_n(&c->wanted, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		n = num_least(size, ring_room(r, c));
	}
	ring_copy_in(r, ring, c->written, data, n);
	__atomic_store_n(&c->written, c->written + n, __ATOMIC_RELEASE);
	return n;
}

size_t p2p_ring_read(const struct p2p_rings *r, int from, void *data, size_t size,
		     bool *wantedp)
{
	size_t ring = ring_index(r, from, r->me), n;
	struct p2p_counters *c = &r->counters[ring];
	uint64_t there = __atomic_load_n(&c->written, __ATOMIC_ACQUIRE) - c->read;

	n = num_least(size, (size_t)(there < r->ring_bytes ? there : r->ring_bytes));
	if (!n)
		return 0;
	if (data)
		ring_copy_out(r, ring, c->read, data, n);
	__atomic_store_n(&c->read, c->read + n, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->wanted, __ATOMIC_RELAXED)) {
		__atomic_store_n(&c->wanted, 0, __ATOMIC_RELAXED);
		*wantedp = true;
	}
	return n;
}
