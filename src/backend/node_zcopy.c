/* node_zcopy.c - zero-copy plans of the back end `node`, from buffer to buffer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/node_state.h"

#include "backend/pair.h"
#include "coll/reduce.h"
#include "wire/cma.h"
#include "wire/quiesce.h"
#include "wire/share.h"

/*
 * Allreduce between buffers that all ranks can map (see share.h) copies nothing:
 * each rank combines its slice of all inputs in place, and writes the result
 * to all outputs.  A rank with such buffers puts an offer, with their places, into
 * its slot instead of chunk 0.  All ranks see the same offers, so all decide
 * alike.  If a rank has not offered, the plan begins anew behind the four chunks
 * that may have been put by then, without offers.
 *
 * Where the kernel's copies pay, two ranks carry out large moves from buffer to buffer (see
 * pair.h).  Both always make such an offer, and say in it whether they can; so they refuse
 * alike, too.
 */

/* Offers pay from SHARE_LEAST bytes on; a rank whose offers are in vain makes fewer. */
enum { SHARE_LEAST = 16384, SHARE_BLOCK = 65536, REFUSED_OFTEN = 3, REFUSED_TRIES = 64 };

/* An offer in a rank's slot: where its buffers are. */
struct offer {
	union {
		struct share_arena arena;
		struct cma process;
	};
	uint64_t ready;   /* this rank has mapped all arenas, or CMA works towards the other */
	uint64_t claimed; /* of a broadcast of two ranks, see pair.h: rank 0's is used */
	struct {
		uint64_t in, out; /* offsets into the arena; or addresses */
	} piece[];
};

enum { OFFER_PIECES = (SEGMENT_SLOT_BYTES - sizeof(struct offer)) / 16 };

static struct offer *offer_of(const struct node *n, int rank)
{
	return (struct offer *)(void *)segment_slot(n->seg, rank, n->base);
}

/* Are all this rank's buffers in its arena, and is an offer worth a try? */
bool node_can_offer(struct node *n)
{
	const struct plan *p = n->plan;
	uint64_t at;

	for (int i = 0; i < p->pieces; i++) {
		size_t size = p->piece[i].count * n->bytes;

		if (size && (!share_find(p->piece[i].in, size, &at) ||
			     !share_find(p->piece[i].out, size, &at)))
			return false;
	}
	return n->refused < REFUSED_OFTEN || n->refused++ % REFUSED_TRIES == 0;
}

static void offer_arena(const struct node *n, struct offer *o)
{
	const struct plan *p = n->plan;

	share_self(&o->arena);
	o->ready = n->ready;
	for (int i = 0; i < p->pieces; i++) {
		o->piece[i].in = o->piece[i].out = 0;
		share_find(p->piece[i].in, 0, &o->piece[i].in);
		share_find(p->piece[i].out, 0, &o->piece[i].out);
	}
}

static void offer_cma(const struct node *n, struct offer *o)
{
	const struct piece *p = n->plan->piece;

	o->ready = cma_self(&o->process) && n->cma_works &&
		   pair_can(n->plan, n->bytes, n->topo->rank);
	o->claimed = 0;
	o->piece[0].in = (uint64_t)(uintptr_t)p->in;
	o->piece[0].out = (uint64_t)(uintptr_t)p->out;
}

static bool make_offer(struct node *n)
{
	int me = n->topo->rank;

	if (!node_slots_free(n, n->base))
		return false;
	(n->by_cma ? offer_cma : offer_arena)(n, offer_of(n, me));
	node_counters(n, me)->offers[n->base % SEGMENT_SLOTS] = n->base + 1;
	node_publish(n, &node_counters(n, me)->in, n->base + 1);
	return true;
}

static void map_arenas(struct node *n)
{
	n->ready = true;
	for (int r = 0; r < n->topo->size; r++) {
		if (!n->arena[r])
			n->arena[r] = share_map(&offer_of(n, r)->arena);
		n->ready &= n->arena[r] != NULL;
	}
}

void node_return(struct node *n)
{
	for (int r = 0; r < NODE_RANKS; r++) {
		share_unmap(n->arena[r]);
		n->arena[r] = NULL;
	}
}

/* All ranks are in, and see the same: does each offer, and has each mapped all arenas? */
static bool all_offer(struct node *n)
{
	bool all = true, ready = true;

	for (int r = 0; r < n->topo->size && all; r++)
		all = node_has_offered(n, r);
	for (int r = 0; r < n->topo->size && all; r++)
		ready &= offer_of(n, r)->ready == 1;
	if (all && !ready)
		map_arenas(n);
	n->refused = all && n->ready ? 0 : n->refused + 1;
	return all && ready;
}

/* Both ranks are in: does CMA work both ways?  If this is not known yet, it is tried. */
static bool both_cma(struct node *n)
{
	bool ready = offer_of(n, 0)->ready == 1 && offer_of(n, 1)->ready == 1;

	if (!n->cma_works)
		n->cma_works = cma_try(&offer_of(n, 1 - n->topo->rank)->process);
	n->missed = ready ? 0 : n->missed + 1;
	return ready;
}

/* Combines this rank's slice of all inputs into all outputs; false if the job has
 * been aborted: then the others' buffers are theirs again. */
static bool combine_shared(struct node *n)
{
	const struct plan *p = n->plan;
	struct reduce how = { p->dtype, p->redop, (uint32_t)n->topo->size, p->post };
	struct pieces_at c = { 0 };
	uint64_t first, end, m;
	int size = n->topo->size, near = n->streaming ? 1 : size, r, d;

	node_slice(n, p->count, n->topo->rank, &first, &end);
	pieces_skip(p, &c, first);
	for (; first < end; first += m) {
		if (!quiesce_enter(&n->seg->waitset, n->topo->abort, &n->seg->head->left))
			return false;
		m = pieces_run(p, &c, num_least(end - first, SHARE_BLOCK / n->bytes));
		for (d = 1, r = 0; r < size; r++) {
			const struct offer *o = offer_of(n, r);

			n->src[r] = n->arena[r] + o->piece[c.piece].in + c.at * n->bytes;
			n->dst[r == n->topo->rank ? 0 : d++] =
				n->arena[r] + o->piece[c.piece].out + c.at * n->bytes;
		}
		reduce_streaming(&how, n->dst, size, near, n->src, size, m);
		quiesce_leave(&n->seg->waitset);
		pieces_skip(p, &c, m);
	}
	if (n->streaming)
		copy_settle();
	return true;
}

/* As pair_move(); after 0 the plan waits for the other rank's counter until the alarm. */
static int move_pair(struct node *n, struct err *e)
{
	int you = 1 - n->topo->rank, rc;
	const struct offer *o = offer_of(n, you);
	struct pair_other other = { o->process.pid, o->piece[0].in, o->piece[0].out,
				    &offer_of(n, 0)->claimed };

	rc = pair_move(n->plan, n->topo, &other, n->streaming, e);
	if (!rc)
		node_passed(n, you, true, n->base);
	return rc;
}

/* One step without slots, if all offer: as step(), or NODE_NOT_ALL. */
int node_zcopy_step(struct node *n, struct err *e)
{
	int rc;

	if (n->phase == NODE_OFFER) {
		if (!make_offer(n))
			return 0;
		n->phase = NODE_MEET;
	}
	if (n->phase == NODE_MEET) {
		if (!node_all_in(n, n->base))
			return 0;
		if (!(n->by_cma ? both_cma : all_offer)(n)) {
			node_start_over(n);
			return NODE_NOT_ALL;
		}
		rc = n->by_cma ? move_pair(n, e) : combine_shared(n);
		if (rc <= 0)
			return rc;
		node_publish(n, &node_counters(n, n->topo->rank)->out, n->base + 1);
		n->phase = NODE_LEAVE;
	}
	if (!node_all_out(n, n->base))
		return 0;
	n->base++;
	return 1;
}

bool node_may_cma(const struct node *n)
{
	return n->topo->single_copy && node_is_pair(n) && pair_pays(n->plan, n->bytes);
}

bool node_can_cma(struct node *n)
{
	return n->missed < REFUSED_OFTEN || n->missed++ % REFUSED_TRIES == 0;
}

bool node_may_share(const struct node *n)
{
	const struct plan *p = n->plan;

	return n->stages == &node_allreduce && n->topo->size > 1 && p->pre == 1 &&
	       p->count * n->bytes >= SHARE_LEAST && p->pieces <= OFFER_PIECES;
}
