/* agree.c - negotiation: which tensors are ready on all ranks, and in which order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/agree.h"

#include "engine/host_queue.h"
#include "engine/ledger.h"
#include "engine/tree.h"

enum arrival agree_post(struct agree *a, uint32_t id, const struct op_signature *s,
			uint64_t rows, bool changed, bool awaits)
{
	enum arrival as = ledger_post(a->ledger, id, s, rows, changed, awaits);

	if (as == ARRIVED_EARLY)
		return as;
	if (a->host_queue) {
		/* This rank is the last of its host; the leader finds the last host. */
		host_queue_arrived(a->host_queue, id);
		return ARRIVED_EARLY;
	}
	ledger_order(a->ledger, id, as == ARRIVED_AWAITED);
	return as;
}

bool agree_ready(const struct agree *a)
{
	return ledger_ready(a->ledger) || (a->tree && tree_is_behind(a->tree));
}

void agree_tell(struct agree *a)
{
	if (a->tree && tree_is_behind(a->tree))
		tree_turn(a->tree);
}

int agree_next(struct agree *a, uint64_t cap, struct item *items)
{
	agree_tell(a);
	return a->host_queue ? host_queue_next(a->host_queue, items)
			     : ledger_next(a->ledger, cap, items);
}

void agree_done(struct agree *a)
{
	ledger_done(a->ledger);
	if (a->tree)
		tree_done(a->tree);
}

void agree_attend(struct agree *a, bool on)
{
	if (a->tree)
		tree_attend(a->tree, on);
}

void agree_poll(struct agree *a)
{
	if (a->tree)
		tree_poll(a->tree);
}

uint64_t agree_join_number(struct agree *a, uint64_t batches)
{
	return a->host_queue ? batches : ledger_join_number(a->ledger);
}
