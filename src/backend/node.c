/* node.c - the back end for ranks that share memory: the order of a chunk's stages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/node_state.h"

#include <string.h>

#include "backend/wait.h"
#include "base/err.h"
#include "coll/reduce.h"

/*
 * Stages of neighbouring chunks overlap: put chunk k, combine chunk k-1, take
 * chunk k-2, or as the others allow.  Nothing here blocks.
 */
enum { LEAST_CHUNK = 8192 };

/* A barrier is an empty chunk that all ranks have to reach. */
static bool barrier_put(struct node *n, uint64_t k)
{
	node_publish(n, &node_counters(n, n->topo->rank)->in, n->base + k + 1);
	return true;
}

static bool barrier_combine(struct node *n, uint64_t k)
{
	if (!node_all_in(n, n->base + k))
		return false;
	node_publish(n, &node_counters(n, n->topo->rank)->out, n->base + k + 1);
	return true;
}

static const struct node_stages node_barrier = { barrier_put, barrier_combine, node_nothing };

static const struct node_stages *const stages[] = {
#define X(kind, word, activity, traits) &node_##word,
	COLLECTIVES(X)
#undef X
};

static int node_open(void *self, const struct topo *t, struct err *e)
{
	struct node *n = self;

	if (!t->segment || t->segment->ranks != t->size)
		return fail(e, RINGUP_ENOBACKEND,
			    "the ranks are on %d hosts and share no memory", t->hosts);
	if (t->size > NODE_RANKS)
		return fail(e, RINGUP_ENOBACKEND, "node supports at most %d ranks, not %d",
			    NODE_RANKS, t->size);
	n->topo = t;
	n->seg = t->segment;
	n->counters = n->seg->counters;
	return 0;
}

static bool node_can(const void *self, const struct plan *p)
{
	(void)self;
	(void)p;
	return true;
}

static uint64_t longest(const uint64_t *counts, size_t n)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n; i++)
		most = counts[i] > most ? counts[i] : most;
	return most;
}

/* Elements of a region: whole lines, as long as there are lines for all. */
static uint64_t region_count(const struct node *n)
{
	size_t room = SEGMENT_SLOT_BYTES / (size_t)node_regions(n);

	return (room < 64 ? room : room / 64 * 64) / n->bytes;
}

static uint64_t broadcast_chunk(const struct node *n)
{
	uint64_t chunk = n->plan->count * n->bytes / 8 / 64 * 64;

	return chunk < LEAST_CHUNK ? LEAST_CHUNK : num_least(chunk, SEGMENT_SLOT_BYTES);
}

static uint64_t longest_block(const struct plan *p, size_t size)
{
	if (collective_is(p->kind, COLLECTIVE_SPLITS))
		return longest(p->matrix, size * size);
	return collective_is(p->kind, COLLECTIVE_ROWS) ? longest(p->counts, size) : p->count;
}

/* How a plan is cut, and carried out; the same on all ranks. */
static void cut(struct node *n)
{
	const struct plan *p = n->plan;
	uint64_t most = longest_block(p, (size_t)n->topo->size);

	/* A plan without elements runs as a barrier. */
	n->stages = most ? stages[p->kind] : &node_barrier;
	n->chunk_count = SEGMENT_SLOT_BYTES / n->bytes;
	/* Readers of a broadcast start a chunk later than the root: short ones start soon. */
	if (p->kind == PLAN_BROADCAST)
		n->chunk_count = broadcast_chunk(n) / n->bytes;
	else if (collective_is(p->kind, COLLECTIVE_PARTS))
		n->chunk_count = region_count(n);
	n->chunks = most ? (most - 1) / n->chunk_count + 1 : 1;
	if (p->kind == PLAN_ALLTOALL && node_cut_rounds(n))
		n->stages = &node_rounds;
	if (most)
		node_set_wide(n);
}

/* Begins a plan whose path is known. */
static void node_begin_plan(struct node *n)
{
	n->by_cma = n->path == NODE_CMA && (n->learns || node_can_cma(n));
	cut(n);
	n->may_share = node_may_share(n);
	n->phase = n->by_cma || (n->may_share && node_can_offer(n)) ? NODE_OFFER : NODE_CHUNKS;
	node_set_streaming(n);
	n->filled = n->combined = n->taken = 0;
	memset(&n->put, 0, sizeof(n->put));
	memset(&n->combine, 0, sizeof(n->combine));
	memset(&n->take, 0, sizeof(n->take));
}

static int node_start(void *self, const struct plan *p, struct err *e)
{
	struct node *n = self;
	bool may;

	(void)e;
	n->plan = p;
	n->bytes = reduce_dtype_bytes(p->dtype);
	may = node_may_cma(n);
	n->path = may ? NODE_CMA : NODE_OWN;
	n->learns = may && n->topo->single_copy == SINGLE_COPY_LEARNED;
	if (n->learns) {
		node_autotune_begin(n);
		n->phase = NODE_AUTOTUNE;
	} else {
		node_begin_plan(n);
	}
	return 0;
}

static bool try_put(struct node *n, uint64_t end)
{
	if (n->filled >= num_least(n->chunks, end) || !n->stages->put(n, n->filled))
		return false;
	n->filled++;
	return true;
}

static bool try_combine(struct node *n)
{
	if (n->combined == n->filled || !n->stages->combine(n, n->combined))
		return false;
	n->combined++;
	return true;
}

static bool try_take(struct node *n)
{
	if (n->taken == n->combined || !n->stages->take(n, n->taken))
		return false;
	n->taken++;
	return true;
}

/*
 * The next stage of some chunk, false if none can be carried out.  Stages one chunk apart
 * are best while the others keep pace.  If they do not, the next chunks are put as far
 * as slots are free: so ranks that share a processor switch less often.
 * Combining comes last, so that its counter is the one remembered to wait for.
 */
static bool go_on(struct node *n)
{
	bool drained = n->combined == n->chunks;
	uint64_t room = n->taken + node_places(n); /* take a slot's chunk first */

	if (try_put(n, num_least(n->combined + 2, room)) || (!drained && try_combine(n)))
		return true;
	if ((drained || n->taken + 1 < n->combined) && try_take(n))
		return true;
	return try_put(n, room) || try_take(n) || try_combine(n);
}

static int step(struct node *n, struct err *e)
{
	if (n->phase == NODE_AUTOTUNE) {
		if (!node_autotune_known(n))
			return 0;
		node_begin_plan(n);
	}
	if (n->phase != NODE_CHUNKS) {
		int rc = node_zcopy_step(n, e);

		if (rc != NODE_NOT_ALL)
			return rc;
	}
	while (n->taken < n->chunks)
		if (!go_on(n))
			return 0;
	n->base += n->chunks;
	if (n->streaming)
		copy_settle();
	return 1;
}

static int node_step(void *self, const struct plan *p, struct err *e)
{
	struct node *n = self;
	int rc = step(n, e);

	(void)p;
	if (rc == 1 && n->learns)
		node_autotune_end(n);
	return rc;
}

static bool may_go_on(void *self)
{
	struct node *n = self;

	return node_passed(n, n->wait_rank, n->wait_out, n->wait_above) ||
	       __atomic_load_n(n->topo->abort, __ATOMIC_RELAXED);
}

static bool node_wait(void *self, struct wait_on *w)
{
	struct node *n = self;

	w->waitset = &n->seg->waitset;
	w->rank = n->wait_rank;
	w->ready = may_go_on;
	w->self = n;
	return true;
}

/* Only step() touches buffers, and close() gives mapped memory back. */
static void node_abort(void *self)
{
	(void)self;
}

static void node_close(void *self)
{
	node_return(self);
}

const struct backend backend_node = {
	.name = "node",
	.summary = "ranks of one host: shared memory, in place",
	.size = sizeof(struct node),
	.memory = MEMORY_OF_HOST,
	.slots = 1,
	.open = node_open,
	.can = node_can,
	.start = node_start,
	.step = node_step,
	.wait = node_wait,
	.abort = node_abort,
	.close = node_close,
};
