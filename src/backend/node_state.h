/* node_state.h - the slots of ranks that share memory, and how far a plan has come in them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_NODE_STATE_H
#define BACKEND_NODE_STATE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/autotune.h"
#include "backend/backend.h"
#include "backend/pieces.h"
#include "backend/self_block.h"
#include "coll/copy.h"
#include "wire/segment.h"

/*
 * Every rank has four slots of 64 KiB.  A plan is cut into chunks that fit a
 * slot; chunk g of all that ever ran here uses slot g mod 4.  Two counters per
 * rank, each written by that rank only:
 *
 *	in  > g   my slot holds what I contribute to chunk g
 *	out > g   I have done my work on the others' slots for chunk g
 *
 * A slot is written again only when all who read it are through with the chunk that
 * was in it (out > g - 4).  The slots lie at the same place whatever the plan:
 * a stride that depended on it would overwrite what is still being read.
 *
 * Its owner fills a line again at full speed either because a string move does so, or
 * because the last rank that reads it takes ownership (see enum copy_ownership).  Of what all
 * ranks read, a counter tells which rank that is.
 *
 * node_sum.c and node_move.c know what is done with a chunk, node.c in which order,
 * node_begin.c how a plan begins, node_lend.c what goes without slots, and
 * node_autotune.c which of these two ranks take.
 */
enum { NODE_RANKS = 4096, NODE_BINS = 40, NODE_ARRIVALS = 2 };

/*
 * What a rank tells the others, in shared memory, one for each rank.  Only that rank writes it,
 * but for readers.  All fields are accessed by atomics only.
 */
struct node_counters {
	alignas(64) uint64_t in;         /* chunks that this rank has put into its slots  */
	uint64_t offers[SEGMENT_SLOTS];  /* in slot i there is no data, but offer number ... */
	uint64_t arrived[NODE_ARRIVALS]; /* when it came to one of the last large moves */
	alignas(64) uint64_t out;        /* chunks that this rank has finished with       */
	/* Of each of its slots: ranks that have read what all of them read. */
	alignas(64) uint32_t readers[SEGMENT_SLOTS];
	alignas(64) uint64_t orders[NODE_BINS]; /* how two ranks shall move things */
};

_Static_assert(sizeof(struct node_counters) <= SEGMENT_COUNTER_BYTES, "a segment has room");

/* Where a plan is: it begins with NODE_AUTOTUNE if it has to be seen which one it goes, else
 * with NODE_OFFER or NODE_CHUNKS. */
enum node_phase { NODE_AUTOTUNE, NODE_OFFER, NODE_MEET, NODE_LEAVE, NODE_CHUNKS };

/* How two ranks move what is large and only moved: learned, see node_autotune.c. */
enum node_path {
	NODE_OWN,    /* by slots, whose last reader takes ownership of their lines, where that
		      * may pay */
	NODE_CMA,    /* by the kernel, from buffer to buffer; or by slots, if it cannot */
	NODE_READ,   /* by slots that are only read */
	NODE_STREAM, /* by slots; with streaming stores where the length is against them, and
		      * without where it is for them */
	NODE_PATHS,
};

/* A round of node_rounds: each rank sends to the one that is @apart places behind it. */
struct node_round {
	int apart;
	uint64_t first, chunks; /* its first chunk, and how many it has */
};

struct node {
	const struct topo *topo;
	struct segment *seg;
	struct node_counters *counters; /* of all ranks, in the segment */
	const struct plan *plan;
	const struct node_stages *stages; /* as it is carried out                   */
	uint64_t base;                    /* chunks that all earlier plans took     */
	uint64_t chunks;                  /* of this plan                           */
	uint64_t filled, combined, taken; /* so many of them                        */
	uint64_t chunk_count;             /* elements in a full chunk, or region    */
	size_t bytes;                     /* of an element                          */
	bool streaming;                   /* results go past the caches             */
	struct pieces_at put, combine, take;
	struct node_round putting, taking;
	struct self_block own;     /* of rounds: what a rank sends to itself */
	int reader[SEGMENT_SLOTS]; /* of rounds: who reads what this rank last put there */
	/* What step() could not go on without. */
	int wait_rank;
	bool wait_out;
	uint64_t wait_above;
	bool wide;      /* as broadcasts use the slots            */
	uint64_t fence; /* the chunk at which that began or ended */
	enum node_phase phase;
	bool may_share;   /* the plan is one that arenas are offered for */
	bool ready;       /* all peers' arenas are mapped                */
	uint32_t refused; /* offers in a row that came to nothing        */
	bool reaches;     /* the plan is one that two ranks move by pair_move() */
	bool reached;     /* this rank can reach the other's memory      */
	uint32_t missed;  /* times in a row that it came to nothing, of both alike */
	/* What node_autotune.c knows. */
	enum node_path path;
	bool learns;    /* this plan is one that it measures     */
	int bin;        /* of which kind and length it is        */
	uint64_t timed; /* how many there have been              */
	int64_t begun;  /* when this rank came to this one       */
	int refusals;   /* trials of the kernel that came to nothing */
	struct autotune autotune[NODE_BINS];
	uint64_t in_seen[NODE_RANKS], out_seen[NODE_RANKS]; /* their counters, at least */
	unsigned char *arena[NODE_RANKS];
	const void *src[NODE_RANKS];
	void *dst[NODE_RANKS];
};

/* What is done with chunk @k, each at most once; false if that is not possible yet: then what
 * it waits for is in wait_rank, wait_out and wait_above. */
struct node_stages {
	bool (*put)(struct node *n, uint64_t k);
	bool (*combine)(struct node *n, uint64_t k);
	bool (*take)(struct node *n, uint64_t k);
};

/* Of sums, and of what is only moved; node_rounds: large all-to-alls of more than two ranks. */
extern const struct node_stages node_allreduce, node_reducescatter;
extern const struct node_stages node_broadcast, node_allgather, node_alltoall, node_rounds;

/* A stage that a collective does without. */
static inline bool node_nothing(struct node *n, uint64_t k)
{
	(void)n;
	(void)k;
	return true;
}

static inline uint64_t node_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* node_elements - in chunk @k of vectors that all ranks have in whole. */
static inline uint64_t node_elements(const struct node *n, uint64_t k)
{
	return node_least(n->chunk_count, n->plan->count - k * n->chunk_count);
}

static inline struct node_counters *node_counters(const struct node *n, int rank)
{
	return &n->counters[rank];
}

/* node_passed - has @rank's counter passed @g?  If not, remember that we wait for it.  While
 * what has been seen will do, nobody asks again: its owner would have to fetch the line back.
 */
static inline bool node_passed(struct node *n, int rank, bool out, uint64_t g)
{
	const uint64_t *word = out ? &node_counters(n, rank)->out : &node_counters(n, rank)->in;
	uint64_t *seen = out ? &n->out_seen[rank] : &n->in_seen[rank];

	if (*seen <= g)
		*seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	if (*seen > g)
		return true;
	n->wait_rank = rank;
	n->wait_out = out;
	n->wait_above = g;
	return false;
}

/* node_publish - sets one of this rank's counters, after what it stands for. */
static inline void node_publish(struct node *n, uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	waitset_notify(&n->seg->waitset, n->topo->rank);
}

static inline bool node_is_pair(const struct node *n)
{
	return n->topo->size == 2;
}

/* node_part - blocks of different length side by side: what chunk @k has of one of @count. */
static inline uint64_t node_part(const struct node *n, uint64_t count, uint64_t k)
{
	uint64_t first = k * n->chunk_count;

	return first < count ? node_least(n->chunk_count, count - first) : 0;
}

/* node_chunk_in, node_chunk_out - chunk @k of a block that starts at element @before.  A buffer
 * without elements may be NULL, to which nothing may be added but as a number. */
static inline const unsigned char *node_chunk_in(const struct node *n, uint64_t before,
						 uint64_t k)
{
	return (const unsigned char *)((uintptr_t)n->plan->piece->in +
				       (before + k * n->chunk_count) * n->bytes);
}

static inline unsigned char *node_chunk_out(const struct node *n, uint64_t before, uint64_t k)
{
	return (unsigned char *)((uintptr_t)n->plan->piece->out +
				 (before + k * n->chunk_count) * n->bytes);
}

/* node_goes - the elements of an all-to-all. */
static inline uint64_t node_goes(const struct node *n, int from, int to)
{
	return n->plan->matrix[(size_t)from * (size_t)n->topo->size + (size_t)to];
}

/* node_regions - of a slot: one for every rank but this one, which needs one only for what it
 * scales first. */
static inline int node_regions(const struct node *n)
{
	bool all = n->plan->kind == PLAN_REDUCESCATTER && n->plan->pre != 1;

	return n->topo->size - (all || n->topo->size == 1 ? 0 : 1);
}

/* node_region - where @from puts what goes to @to. */
static inline unsigned char *node_region(const struct node *n, int from, int to, uint64_t g)
{
	int i = to > from && node_regions(n) < n->topo->size ? to - 1 : to;

	return segment_slot(n->seg, from, g) + (size_t)i * n->chunk_count * n->bytes;
}

/* node_slots_free - are all ranks through with the chunks that were where chunk @g will be? */
bool node_slots_free(struct node *n, uint64_t g);

/* node_places - how many chunks have room at a time. */
uint64_t node_places(const struct node *n);

/* node_all_in, node_all_out - have all others' counters passed @g?  If not, whom to wait for is
 * one who waits for our processor, if there is such a one. */
bool node_all_in(struct node *n, uint64_t g);
bool node_all_out(struct node *n, uint64_t g);

/* node_leave_slot - one of all ranks but the one that filled it has read @size bytes of it. */
void node_leave_slot(struct node *n, int owner, uint64_t g, size_t size);

/* node_slice - which of @elements @rank adds up: whole lines, so that two never share one. */
void node_slice(const struct node *n, uint64_t elements, int rank, uint64_t *first,
		uint64_t *end);

/* node_set_streaming - whether results go past the caches.  node_set_wide - how broadcasts use
 * the slots.  Both when it is known how the plan is carried out. node_start_over - begin anew,
 * behind what anybody can have put by now, and offer nothing. */
void node_set_streaming(struct node *n);
void node_set_wide(struct node *n);
void node_start_over(struct node *n);

/* node_cut_rounds - cuts an all-to-all for node_rounds, if that pays; all ranks say the same.
 */
bool node_cut_rounds(struct node *n);

/* node_may_reach - is this plan one that the kernel may move, between two ranks?
 * node_can_reach - and is that worth a try?  All ranks say the same of these two.
 * node_may_share - is the plan one that arenas are offered for?  So do they of this.
 * node_can_offer - is everything that this rank brings in its arena, and worth a try?
 * node_has_offered - all ranks are in: has @rank an offer in its slot?  node_any_offers - has
 * any? */
bool node_may_reach(const struct node *n);
bool node_can_reach(struct node *n);
bool node_may_share(const struct node *n);
bool node_can_offer(struct node *n);
bool node_has_offered(const struct node *n, int rank);
bool node_any_offers(const struct node *n);

/*
 * node_autotune_begin - this rank has come to a plan that two ranks may move either way.
 * node_autotune_known - is it known which?  If not, what that waits for is remembered.
 * node_autotune_end   - it is done: learn from it.
 * node_autotune_order - what is of this kind and length shall go that way from now on; false if
 * it does already, or that cannot be said yet.
 */
void node_autotune_begin(struct node *n);
bool node_autotune_known(struct node *n);
void node_autotune_end(struct node *n);
bool node_autotune_order(struct node *n, int bin, enum node_path path);

enum { NODE_NOT_ALL = 2 };

/* node_return - the mapped memory of other ranks is no longer in use. */
void node_return(struct node *n);

/* node_lend_step - as step(), or NODE_NOT_ALL: not all offer, and the plan has begun anew. */
int node_lend_step(struct node *n, struct err *e);

#endif
