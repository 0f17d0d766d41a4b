/* node_state.h - the state of the back end `node`: slots in shared memory, and counters. */
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
#include "base/num.h"
#include "coll/copy.h"
#include "wire/segment.h"

/*
 * Every rank has four slots of 64 KiB.  A plan is cut into chunks that fit a
 * slot; chunk g of all that ever ran here uses slot g mod 4.  Two counters per
 * rank, each written by that rank only:
 *
 *	in  > g   the rank's slot holds its contribution to chunk g
 *	out > g   the rank has finished its work on the others' slots for chunk g
 *
 * A slot is written again only when all its readers have finished the chunk that
 * was in it (out > g - 4).  The slots lie at the same place for all plans: with a
 * stride of the plan's own, one plan would overwrite chunks of the last that are being read.
 *
 * The owner fills a cache line again at full speed either because a string move does so, or
 * because the line's last reader takes ownership (see enum copy_ownership).  Where all ranks
 * read a line, a counter tells which rank is the last.
 *
 * node_sum.c and node_move.c have the stages of a chunk, node.c their order, node_begin.c
 * the start of a plan, node_zcopy.c plans without slots, and node_autotune.c the choice
 * between these ways for two ranks.
 */
enum { NODE_RANKS = 4096, NODE_BINS = 40, NODE_ARRIVALS = 2 };

/*
 * A rank's progress, in shared memory, for the others.  Only that rank writes it, except
 * readers.  All fields are accessed by atomics only.
 */
struct node_counters {
	alignas(64) uint64_t in;         /* chunks that this rank has put into its slots  */
	uint64_t offers[SEGMENT_SLOTS];  /* 1 + the chunk for which slot i has an offer      */
	uint64_t arrived[NODE_ARRIVALS]; /* when it came to each of the last large moves */
	alignas(64) uint64_t out;        /* chunks that this rank has finished with       */
	/* Of each of its slots: how many ranks have read a chunk that all ranks read. */
	alignas(64) uint32_t readers[SEGMENT_SLOTS];
	alignas(64) uint64_t orders[NODE_BINS]; /* how two ranks shall move things */
};

_Static_assert(sizeof(struct node_counters) <= SEGMENT_COUNTER_BYTES, "a segment has room");

/* Where a plan is.  It begins with NODE_AUTOTUNE if its path is not known yet, else with
 * NODE_OFFER or NODE_CHUNKS. */
enum node_phase { NODE_AUTOTUNE, NODE_OFFER, NODE_MEET, NODE_LEAVE, NODE_CHUNKS };

/* How two ranks carry out large moves; learned, see node_autotune.c. */
enum node_path {
	NODE_OWN,    /* by slots; the last reader takes ownership of a slot's lines, where that
		      * may pay */
	NODE_CMA,    /* by the kernel, from buffer to buffer; or by slots, if it cannot */
	NODE_READ,   /* by slots, without taking ownership */
	NODE_STREAM, /* by slots, with streaming stores for lengths that have none otherwise,
		      * and without for lengths that have */
	NODE_PATHS,
};

/* A round of node_rounds: each rank sends to the rank @apart places behind it. */
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
	uint64_t filled, combined, taken; /* chunks that have passed each stage     */
	uint64_t chunk_count;             /* elements in a full chunk, or region    */
	size_t bytes;                     /* of an element                          */
	bool streaming;                   /* results by streaming stores            */
	struct pieces_at put, combine, take;
	struct node_round putting, taking;
	struct self_block own;     /* of rounds: the block to this rank itself */
	int reader[SEGMENT_SLOTS]; /* of rounds: the reader of each slot's last chunk */
	/* The counter that step() waits for. */
	int wait_rank;
	bool wait_out;
	uint64_t wait_above;
	bool wide;      /* a broadcast uses the slots of all ranks */
	uint64_t fence; /* the chunk at which wide last changed    */
	enum node_phase phase;
	bool may_share;   /* ranks may offer arenas for this plan        */
	bool ready;       /* all peers' arenas are mapped                */
	uint32_t refused; /* offers in a row that failed                 */
	bool by_cma;      /* the two ranks offer pair_move() for this plan */
	bool cma_works;   /* this rank can access the other's memory      */
	uint32_t missed;  /* times in a row that CMA failed; the same on both */
	/* Private to node_autotune.c. */
	enum node_path path;
	bool learns;    /* this plan is measured                 */
	int bin;        /* its kind and length                   */
	uint64_t timed; /* measured plans so far                 */
	int64_t begun;  /* when this rank came to this one       */
	int refusals;   /* trials of CMA that failed             */
	struct autotune autotune[NODE_BINS];
	uint64_t in_seen[NODE_RANKS], out_seen[NODE_RANKS]; /* counters as last read */
	unsigned char *arena[NODE_RANKS];
	const void *src[NODE_RANKS];
	void *dst[NODE_RANKS];
};

/* The stages of chunk @k, each done at most once; false if not possible yet: then wait_rank,
 * wait_out and wait_above tell the counter that it waits for. */
struct node_stages {
	bool (*put)(struct node *n, uint64_t k);
	bool (*combine)(struct node *n, uint64_t k);
	bool (*take)(struct node *n, uint64_t k);
};

/* The stages of sums, and of moves; node_rounds: large all-to-alls of more than two ranks. */
extern const struct node_stages node_allreduce, node_reducescatter;
extern const struct node_stages node_broadcast, node_allgather, node_alltoall, node_rounds;

/* A stage that a collective does without. */
static inline bool node_nothing(struct node *n, uint64_t k)
{
	(void)n;
	(void)k;
	return true;
}

/* node_elements - of chunk @k, in plans whose vectors have the same length on all ranks. */
static inline uint64_t node_elements(const struct node *n, uint64_t k)
{
	return num_least(n->chunk_count, n->plan->count - k * n->chunk_count);
}

static inline struct node_counters *node_counters(const struct node *n, int rank)
{
	return &n->counters[rank];
}

/* node_passed - has @rank's counter passed @g?  If not, remember it as the one to wait for.  A
 * counter is read only if the value last seen is too low: a read takes the owner's line away.
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

/* node_publish - sets one of this rank's counters, after the work that it counts. */
static inline void node_publish(struct node *n, uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	waitset_notify(&n->seg->waitset, n->topo->rank);
}

static inline bool node_is_pair(const struct node *n)
{
	return n->topo->size == 2;
}

/* node_part - blocks of different length side by side: chunk @k's part of one of @count. */
static inline uint64_t node_part(const struct node *n, uint64_t count, uint64_t k)
{
	uint64_t first = k * n->chunk_count;

	return first < count ? num_least(n->chunk_count, count - first) : 0;
}

/* node_chunk_in, node_chunk_out - chunk @k of a block that starts at element @before.  A buffer
 * without elements may be NULL, so the offset is added to an integer. */
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

/* node_goes - the elements of an all-to-all that @from sends to @to. */
static inline uint64_t node_goes(const struct node *n, int from, int to)
{
	return n->plan->matrix[(size_t)from * (size_t)n->topo->size + (size_t)to];
}

/* node_regions - the regions of a slot: one for every other rank; one for the own rank only if
 * inputs are scaled first. */
static inline int node_regions(const struct node *n)
{
	bool all = collective_is(n->plan->kind, COLLECTIVE_REDUCES) && n->plan->pre != 1;

	return n->topo->size - (all || n->topo->size == 1 ? 0 : 1);
}

/* node_region - where @from puts its block for @to. */
static inline unsigned char *node_region(const struct node *n, int from, int to, uint64_t g)
{
	int i = to > from && node_regions(n) < n->topo->size ? to - 1 : to;

	return segment_slot(n->seg, from, g) + (size_t)i * n->chunk_count * n->bytes;
}

/* node_slots_free - have all ranks finished the chunks that were in the slots of chunk @g? */
bool node_slots_free(struct node *n, uint64_t g);

/* node_places - how many chunks have room at a time. */
uint64_t node_places(const struct node *n);

/* node_all_in, node_all_out - have all others' counters passed @g?  If not, the rank to wait
 * for is preferably one that needs this thread's processor. */
bool node_all_in(struct node *n, uint64_t g);
bool node_all_out(struct node *n, uint64_t g);

/* node_leave_slot - this rank has read the @size bytes that all ranks but the owner read. */
void node_leave_slot(struct node *n, int owner, uint64_t g, size_t size);

/* node_slice - the part of @elements that @rank adds up: whole lines, to share none. */
void node_slice(const struct node *n, uint64_t elements, int rank, uint64_t *first,
		uint64_t *end);

/* node_set_streaming - decide on streaming stores for results.  node_set_wide - may the plan
 * use all ranks' slots?  Both are called when the path is known. node_start_over - begin anew,
 * behind all chunks that any rank can have put by now, and offer nothing. */
void node_set_streaming(struct node *n);
void node_set_wide(struct node *n);
void node_start_over(struct node *n);

/* node_cut_rounds - cuts an all-to-all for node_rounds, if that pays; the same on all ranks.
 */
bool node_cut_rounds(struct node *n);

/* node_may_cma - may the kernel move this plan between two ranks?  The same on both.
 * node_can_cma - is CMA worth a try, after past failures?  The same on both.
 * node_may_share - may ranks offer arenas for this plan?  The same on all ranks.
 * node_can_offer - are this rank's buffers in its arena, and is an offer worth a try?
 * node_has_offered - all ranks are in: has @rank an offer in its slot?  node_any_offers - has
 * any rank? */
bool node_may_cma(const struct node *n);
bool node_can_cma(struct node *n);
bool node_may_share(const struct node *n);
bool node_can_offer(struct node *n);
bool node_has_offered(const struct node *n, int rank);
bool node_any_offers(const struct node *n);

/*
 * node_autotune_begin - this rank has come to a plan that two ranks may move on any path.
 * node_autotune_known - is the path known?  If not, remember the counter to wait for.
 * node_autotune_end   - the plan is done: learn from its time.
 * node_autotune_order - plans of @bin shall take @path from now on; false if they do already,
 * or if the last order is too recent.
 */
void node_autotune_begin(struct node *n);
bool node_autotune_known(struct node *n);
void node_autotune_end(struct node *n);
bool node_autotune_order(struct node *n, int bin, enum node_path path);

enum { NODE_NOT_ALL = 2 };

/* node_return - the mapped memory of other ranks is no longer in use. */
void node_return(struct node *n);

/* node_zcopy_step - as step(), or NODE_NOT_ALL: not all ranks offer; the plan has begun anew.
 */
int node_zcopy_step(struct node *n, struct err *e);

#endif
