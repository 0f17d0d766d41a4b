/* node_autotune.c - autotuning of data movement between two ranks: one path for both. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/node_state.h"

#include "backend/pair.h"
#include "base/clock.h"

/*
 * For each kind and length one rank, the judge, measures (see autotune.h) and orders the path
 * of both: the rank that reads a broadcast, else rank 0.  An order is one word of shared
 * memory: the new path, the chunk from which on it holds, and the path before.  That chunk is
 * so far ahead that a rank which gets there has seen a counter of the judge's that was
 * published after the word.  A word is replaced only when both ranks are past the chunk from
 * which on it holds.
 *
 * A call begins when the later rank comes.  So each publishes its time of arrival.
 */
enum {
	AHEAD = 2 * SEGMENT_SLOTS, /* chunks that a rank may be before the other one, at most */
	SHORTEST = 15, /* binary digits of the bytes of the first length, less one */
	LENGTHS = NODE_BINS / 4,
	LARGE = 4 << 20, /* bytes from which on caches may be too small */
	PATH_BITS = 2,
	REFUSALS = 3, /* by the kernel, which may log each of them */
	TAG_BITS = 4, /* of the time of arrival: the call it belongs to */
};

_Static_assert(NODE_PATHS <= 1 << PATH_BITS, "a path fits its bits");

struct order {
	uint64_t from; /* the chunk */
	int path, before;
};

static uint64_t pack(struct order o)
{
	return (o.from << PATH_BITS | (unsigned)o.before) << PATH_BITS | (unsigned)o.path;
}

/* The last order of @judge for @bin; without one, NODE_OWN from the first chunk on. */
static struct order order_of(const struct node *n, int judge, int bin)
{
	uint64_t word =
		__atomic_load_n(&node_counters(n, judge)->orders[bin], __ATOMIC_RELAXED);
	int mask = (1 << PATH_BITS) - 1;

	return (struct order){ word >> 2 * PATH_BITS, (int)word & mask,
			       (int)(word >> PATH_BITS) & mask };
}

static int kind_of(const struct plan *p)
{
	switch (p->kind) {
	case PLAN_ALLGATHER:
		return 0;
	case PLAN_ALLTOALL:
		return 1;
	case PLAN_BROADCAST:
	/* pair.h does not move these. */
	case PLAN_ALLREDUCE:
	case PLAN_REDUCESCATTER:
	case PLAN_BARRIER:
		break;
	}
	return 2 + p->root;
}

static int length_of(uint64_t bytes)
{
	int digits = 63 - __builtin_clzll(bytes | 1);

	if (digits < SHORTEST)
		return 0;
	return digits - SHORTEST < LENGTHS ? digits - SHORTEST : LENGTHS - 1;
}

static int judge_of(const struct plan *p)
{
	return p->kind == PLAN_BROADCAST ? 1 - p->root : 0;
}

static uint64_t *arrival_of(const struct node *n, int rank)
{
	return &node_counters(n, rank)->arrived[n->timed % NODE_ARRIVALS];
}

static uint64_t tag_of(const struct node *n)
{
	return n->timed & ((1 << TAG_BITS) - 1);
}

void node_autotune_begin(struct node *n)
{
	n->bin = kind_of(n->plan) * LENGTHS + length_of(pair_bytes(n->plan, n->bytes));
	n->timed++;
	n->begun = clock_ns();
	__atomic_store_n(arrival_of(n, n->topo->rank),
			 (uint64_t)n->begun << TAG_BITS | tag_of(n), __ATOMIC_RELAXED);
}

bool node_autotune_known(struct node *n)
{
	int judge = judge_of(n->plan);
	struct order o;

	if (n->base >= AHEAD && !node_passed(n, judge, true, n->base - AHEAD))
		return false;
	o = order_of(n, judge, n->bin);
	n->path = (enum node_path)(n->base < o.from ? o.before : o.path);
	return true;
}

bool node_autotune_order(struct node *n, int bin, enum node_path path)
{
	int me = n->topo->rank;
	struct order o = order_of(n, me, bin);

	if (o.path == (int)path || n->base < o.from + AHEAD)
		return false;
	o = (struct order){ n->base + AHEAD, (int)path, o.path };
	__atomic_store_n(&node_counters(n, me)->orders[bin], pack(o), __ATOMIC_RELAXED);
	return true;
}

/* The paths that differ for this plan, as bits. */
static unsigned paths_of(const struct node *n)
{
	unsigned paths = 1 << NODE_OWN;

	if (n->refusals < REFUSALS)
		paths |= 1 << NODE_CMA;
	if (copy_ownership() == COPY_OWNS)
		paths |= 1 << NODE_READ;
	if (pair_bytes(n->plan, n->bytes) >= LARGE)
		paths |= 1 << NODE_STREAM;
	return paths;
}

void node_autotune_end(struct node *n)
{
	int me = n->topo->rank;
	uint64_t other = __atomic_load_n(arrival_of(n, 1 - me), __ATOMIC_RELAXED);
	int64_t came = (int64_t)(other >> TAG_BITS);
	struct autotune *t = &n->autotune[n->bin];
	int path, asked;

	if (judge_of(n->plan) != me || (other & ((1 << TAG_BITS) - 1)) != tag_of(n))
		return;
	came = came > n->begun ? came : n->begun;
	if (n->path == NODE_CMA && !n->by_cma) {
		asked = t->asks;
		path = autotune_refused(t, n->path);
		n->refusals += asked == NODE_CMA && path != NODE_CMA;
	} else {
		path = autotune_add(t, paths_of(n), n->path, clock_ns() - came);
	}
	node_autotune_order(n, n->bin, (enum node_path)path);
}
