/* node_slots.c - which slots are filled, and which readers have finished with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/node_state.h"

void node_leave_slot(struct node *n, int owner, uint64_t g, size_t size)
{
	uint32_t *readers = &node_counters(n, owner)->readers[g % SEGMENT_SLOTS];

	if (node_is_pair(n) || copy_ownership() != COPY_OWNS)
		return;
	if ((int)__atomic_add_fetch(readers, 1, __ATOMIC_ACQ_REL) < n->topo->size - 1)
		return;
	__atomic_store_n(readers, 0, __ATOMIC_RELAXED);
	copy_own(segment_slot(n->seg, owner, g), size);
}

uint64_t node_places(const struct node *n)
{
	return SEGMENT_SLOTS * (uint64_t)(n->wide ? n->topo->size : 1);
}

bool node_slots_free(struct node *n, uint64_t g)
{
	uint64_t done = g < node_places(n) ? 0 : g - node_places(n) + 1;

	done = done > n->fence ? done : n->fence;
	for (int r = 0; done && r < n->topo->size; r++)
		if (!node_passed(n, r, true, done - 1))
			return false;
	return true;
}

static bool all_passed(struct node *n, bool out, uint64_t g)
{
	bool all = true;

	for (int r = 0; r < n->topo->size; r++) {
		if (r == n->topo->rank || node_passed(n, r, out, g))
			continue;
		all = false;
		if (waitset_is_here(&n->seg->waitset, r))
			return false;
	}
	return all;
}

bool node_all_in(struct node *n, uint64_t g)
{
	return all_passed(n, false, g);
}

bool node_all_out(struct node *n, uint64_t g)
{
	return all_passed(n, true, g);
}

/* All ranks are in: has @rank an offer in its slot? */
bool node_has_offered(const struct node *n, int rank)
{
	return node_counters(n, rank)->offers[n->base % SEGMENT_SLOTS] == n->base + 1;
}

bool node_any_offers(const struct node *n)
{
	bool any = false;

	for (int r = 0; r < n->topo->size; r++)
		any |= node_has_offered(n, r);
	return any;
}
