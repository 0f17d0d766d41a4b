/* tcp_state.h - the state of the back end `tcp`: counters, chunks in flight, slots. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_TCP_STATE_H
#define BACKEND_TCP_STATE_H

#include <poll.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/cut.h"
#include "backend/mail.h"
#include "coll/sweep.h"
#include "wire/grid.h"
#include "wire/segment.h"
#include "wire/wake_fd.h"

/*
 * A plan is cut into chunks.  Each chunk has an owner on every host, the local
 * ranks with a rail in turn: chunk k belongs to local rank k mod rails.  Three
 * counters per rank, each written by that rank only; chunk g of all that ever
 * ran here uses slot g mod slots, and
 *
 *	in   > g   the rank has put its contribution to chunk g where the owner reads it
 *	out  > g   the rank owns chunk g and has finished it: its slot has the result
 *	took > g   the rank has the result of chunk g, and needs its slots no more
 *
 * Sums: every rank puts its share into its own slot; the owner adds them up in
 * rank order, does the steps of the chunk (see sweep.h) with the owners of the
 * other hosts, and leaves the result in its own slot, from where the others take
 * it.  Where nothing is added up, every rank puts right into the owner's slot.
 * The host's own slice is reduced only when the remote contributions have arrived,
 * so each input is read once; the sums go to the owner's own buffer, too.  A rank
 * that is alone on its host sends from its buffers and receives into them.
 *
 * A slot is written again when all ranks here have taken the chunk that was in
 * it.  Several chunks are in flight at once, so that puts, sums, messages and
 * takes overlap; a message that comes before there is room for it stays in its
 * socket.  That cannot deadlock: a rank that sends for chunk g has room for g itself,
 * so all its messages of chunk g - slots are before it in the stream, and the
 * oldest chunk of all can always be completed.
 *
 * Partial sums of f16 and bf16 are f32, also on their way, and rounded once.
 */
enum {
	TCP_IN_FLIGHT = 8, /* chunks of a rank at a time */
	TCP_LOCAL = 4096,  /* ranks of a host                      */
	TCP_ROUNDS = 2 * GRID_DIMS + 2,
};

/* A rank's progress, in shared memory, for the others of its host; see above.  Accessed by
 * atomics only. */
struct tcp_counters {
	alignas(64) uint64_t in;
	alignas(64) uint64_t out;
	alignas(64) uint64_t took;
};

_Static_assert(sizeof(struct tcp_counters) <= SEGMENT_COUNTER_BYTES, "a segment has room");

/* Elements of a chunk. */
struct range {
	uint64_t first, end;
};

/* A chunk that this rank owns. */
struct in_flight {
	bool open, gathered, done;
	uint64_t chunk;
	const unsigned char *in; /* its elements in this rank's own buffers, if no */
	unsigned char *out;      /* slot is needed, or NULL                        */
	struct range late;       /* elements to be gathered in round 1 only           */
	struct range placed;     /* sums that are in this rank's own buffer already   */
	int round, sending, due[TCP_ROUNDS];
	int steps;
	struct step *step;
	uint64_t *stage_at; /* of each step that brings contributions: bytes into stage */
	bool *come;         /* of each step: its message has begun to arrive */
	struct mail_out *mail;
	unsigned char *partial; /* sums: in the slot, or f32 in memory of its own */
	unsigned char *result;  /* the slot                                      */
	unsigned char *stage, *wide;
};

struct tcp {
	const struct topo *topo;
	struct grid grid;
	struct cut cut;
	struct mail mail;
	struct waitset *waitset;               /* where this rank sleeps */
	struct tcp_counters *counters, *alone; /* of this host's ranks; memory of its own */
	unsigned char *slots, *own_slots;
	size_t area, slot_bytes;
	uint64_t slot_count;
	int here, me, rails;
	bool owns; /* this rank has a rail */
	struct wake_fd wake_fd;
	struct pollfd *poll;
	int last_sum; /* the last round in which this host adds up */

	const struct plan *plan;
	bool whole, active;
	bool streaming; /* results by streaming stores  */
	uint64_t base;  /* chunks of all plans before */
	uint64_t next_put, next_take;
	uint64_t next_open, next_out; /* of the chunks that this rank owns */
	uint64_t free_seen;
	struct in_flight in_flight[TCP_IN_FLIGHT];
	void *bounce; /* a copy of the input, where it overlaps the output */
	size_t bounce_bytes;
	struct plan bounced;
	struct piece bounced_piece;
	uint64_t seen;      /* the others' counters, when last looked at */
	int64_t idle_since; /* 0: not idle */
	bool long_away;     /* the last yield took long                */
	int skips;          /* waits to come that do not yield        */
};

/* tcp_adds - is the plan a sum? */
static inline bool tcp_adds(const struct tcp *h)
{
	return collective_is(h->plan->kind, COLLECTIVE_REDUCES) ||
	       h->plan->kind == PLAN_BARRIER;
}

/* tcp_above - has a counter passed @g? */
static inline bool tcp_above(const uint64_t *word, uint64_t g)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) > g;
}

/* tcp_publish - sets one of this rank's counters, after the work that it counts. */
static inline void tcp_publish(struct tcp *h, uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	if (h->here > 1)
		waitset_notify(h->waitset, h->me);
}

/* tcp_slot - where local rank @local has chunk @k. */
static inline unsigned char *tcp_slot(const struct tcp *h, int local, uint64_t k)
{
	return h->slots + (size_t)local * h->area +
	       (size_t)((h->base + k) % h->slot_count) * h->slot_bytes;
}

/* tcp_owner - which local rank owns chunk @k. */
static inline int tcp_owner(const struct tcp *h, uint64_t k)
{
	return (int)(k % (uint64_t)h->rails);
}

/* tcp_wire_bytes - of an element in a message of summands. */
static inline uint64_t tcp_wire_bytes(const struct tcp *h)
{
	return h->cut.wide ? sizeof(float) : h->cut.bytes;
}

/* tcp_sums - this host's partial sums in this round. */
static inline const unsigned char *tcp_sums(const struct in_flight *f, int round)
{
	return f->in && round == 1 ? f->in : f->partial;
}

/* tcp_slots_free - have all ranks here taken the chunk that was in chunk @k's slot? */
bool tcp_slots_free(struct tcp *h, uint64_t k);

/* tcp_open_next - begin with the next chunk that this rank owns.  tcp_advance - go on with
 * one.  tcp_deliver - publish the oldest to the ranks of this host, if it is done.  Each
 * returns whether anything happened. */
bool tcp_open_next(struct tcp *h);
bool tcp_advance(struct tcp *h, struct in_flight *f);
bool tcp_deliver(struct tcp *h);

/* tcp_place - mail's place(): check a message, and find where it goes. */
int tcp_place(void *ctx, int host, const struct mail_head *m, struct mail_in *in,
	      struct err *e);

/* tcp_gather - add up elements [first, end) of a chunk from the ranks of this host.
 * tcp_combine - at the end of a round: add up the hosts' summands, in the order of hosts. */
void tcp_gather(struct tcp *h, struct in_flight *f, uint64_t first, uint64_t end);
void tcp_combine(struct tcp *h, struct in_flight *f);

#endif
