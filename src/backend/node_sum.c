/* node_sum.c - sums over ranks that share memory: allreduce and reduce-scatter, in slots. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/node_state.h"

#include "coll/reduce.h"

/*
 * Allreduce, in place: each rank owns a slice of the chunk.  It adds up its
 * slice in rank order, its own part from its own buffer and the others' from
 * their slots, and writes the sum to its buffer and back INTO their slots; then
 * every rank copies the foreign slices out of its own slot.  So each cache line
 * crosses twice, and a rank invalidates only lines that it has just read.
 *
 * Reduce-scatter: a slot is divided into regions, one for each receiver, which adds
 * up its regions of all slots.  A rank's own part uses no slot, unless it is scaled.
 * So each line crosses once.
 */

void node_slice(const struct node *n, uint64_t elements, int rank, uint64_t *first,
		uint64_t *end)
{
	uint64_t line = 64 / n->bytes;
	uint64_t lines = (elements + line - 1) / line;
	uint64_t ranks = (uint64_t)n->topo->size;

	*first = num_least(lines * (uint64_t)rank / ranks * line, elements);
	*end = num_least(lines * (uint64_t)(rank + 1) / ranks * line, elements);
}

static bool allreduce_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = node_elements(n, k), first = m, end = m;
	int me = n->topo->rank;
	unsigned char *slot = segment_slot(n->seg, me, g);

	if (!node_slots_free(n, g))
		return false;
	/* A rank adds up its own slice from its buffer, unless inputs are scaled first. */
	if (n->plan->pre == 1)
		node_slice(n, m, me, &first, &end);
	pieces_put(n->plan, &n->put, slot, first);
	pieces_skip(n->plan, &n->put, end - first);
	pieces_put(n->plan, &n->put, slot + end * n->bytes, m - end);
	node_publish(n, &node_counters(n, me)->in, g + 1);
	return true;
}

static void combine_range(struct node *n, uint64_t g, uint64_t first, uint64_t end)
{
	const struct plan *p = n->plan;
	struct reduce how = { p->dtype, p->redop, (uint32_t)n->topo->size, p->post };
	int me = n->topo->rank, size = n->topo->size, d, near;
	struct pieces_at c = n->combine;
	uint64_t m;

	pieces_skip(p, &c, first);
	for (; first < end; first += m) {
		unsigned char *out;

		m = pieces_run(p, &c, end - first);
		out = (unsigned char *)p->piece[c.piece].out + c.at * n->bytes;
		d = 0;
		for (int r = 0; r < size; r++) {
			unsigned char *theirs = segment_slot(n->seg, r, g) + first * n->bytes;

			n->src[r] = theirs;
			if (r != me)
				n->dst[d++] = theirs;
			else if (p->pre == 1)
				n->src[r] = (const unsigned char *)p->piece[c.piece].in +
					    c.at * n->bytes;
		}
		near = d +
		       !(pieces_are_streamed(p, c.piece, n->streaming) && copy_sums_stream());
		n->dst[d++] = out;
		reduce_streaming(&how, n->dst, d, near, n->src, size, m);
		pieces_skip(p, &c, m);
	}
}

static bool allreduce_combine(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = node_elements(n, k), first, end;
	int me = n->topo->rank;

	node_slice(n, m, me, &first, &end);
	if ((first < end || (k == 0 && n->may_share)) && !node_all_in(n, g))
		return false;
	if (k == 0 && n->may_share && node_any_offers(n)) {
		node_start_over(n);
		return false;
	}
	if (first < end)
		combine_range(n, g, first, end);
	pieces_skip(n->plan, &n->combine, m);
	node_publish(n, &node_counters(n, me)->out, g + 1);
	return true;
}

static bool allreduce_take(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = node_elements(n, k), first, end;
	unsigned char *slot = segment_slot(n->seg, n->topo->rank, g);

	for (int r = 0; r < n->topo->size; r++) {
		node_slice(n, m, r, &first, &end);
		if (r != n->topo->rank && first < end && !node_passed(n, r, true, g))
			return false;
	}
	node_slice(n, m, n->topo->rank, &first, &end);
	pieces_take(n->plan, &n->take, slot, first, n->streaming);
	pieces_skip(n->plan, &n->take, end - first);
	pieces_take(n->plan, &n->take, slot + end * n->bytes, m - end, n->streaming);
	return true;
}

static bool scatter_put(struct node *n, uint64_t k)
{
	const struct plan *p = n->plan;
	uint64_t g = n->base + k, before = 0, m;
	int me = n->topo->rank;

	if (!node_slots_free(n, g))
		return false;
	for (int r = 0; r < n->topo->size; before += p->counts[r++]) {
		m = node_part(n, p->counts[r], k);
		if (m && p->pre != 1)
			copy_scaled(p->dtype, node_region(n, me, r, g),
				    node_chunk_in(n, before, k), m, p->pre);
		else if (m && r != me)
			copy_over(node_region(n, me, r, g), node_chunk_in(n, before, k),
				  m * n->bytes);
	}
	node_publish(n, &node_counters(n, me)->in, g + 1);
	return true;
}

/* Adds up all ranks' regions for this rank, which is their only reader. */
static void combine_regions(struct node *n, uint64_t g, const unsigned char *in,
			    unsigned char *out, uint64_t count)
{
	const struct plan *p = n->plan;
	struct reduce how = { p->dtype, p->redop, (uint32_t)n->topo->size, p->post };
	uint64_t few = COPY_OWN_BYTES / n->bytes, m;
	/* Scaled inputs are not written by copy_over(), so taking ownership pays. */
	bool owns = p->pre != 1 || copy_ownership() == COPY_OWNS;
	int me = n->topo->rank;

	for (uint64_t first = 0; first < count; first += m) {
		m = num_least(count - first, few);
		for (int r = 0; r < n->topo->size; r++)
			n->src[r] = node_region(n, r, me, g) + first * n->bytes;
		if (p->pre == 1)
			n->src[me] = in + first * n->bytes;
		n->dst[0] = out + first * n->bytes;
		reduce_many(&how, n->dst, 1, n->src, n->topo->size, m);
		for (int r = 0; owns && r < n->topo->size; r++)
			if (r != me)
				copy_own(node_region(n, r, me, g) + first * n->bytes,
					 m * n->bytes);
	}
}

static bool scatter_combine(struct node *n, uint64_t k)
{
	const struct plan *p = n->plan;
	int me = n->topo->rank;
	uint64_t g = n->base + k, before = 0, m = node_part(n, p->counts[me], k);

	if (m && !node_all_in(n, g))
		return false;
	if (m) {
		for (int r = 0; r < me; r++)
			before += p->counts[r];
		combine_regions(n, g, node_chunk_in(n, before, k), node_chunk_out(n, 0, k), m);
	}
	node_publish(n, &node_counters(n, me)->out, g + 1);
	return true;
}

const struct node_stages node_allreduce = { allreduce_put, allreduce_combine, allreduce_take };
const struct node_stages node_reducescatter = { scatter_put, scatter_combine, node_nothing };
