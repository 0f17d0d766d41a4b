/* eager.c - eager protocol for small operations: rounds of slots, missing ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/eager.h"

#include "coll/copy.h"
#include "engine/agree.h"
#include "engine/comm.h"
#include "engine/eager_slot.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "ringup.h"
#include "wire/share.h"

/*
 * A rank finishes a round only after it has seen all slots of it: so no slot is written again
 * while another rank may still read it.
 *
 * An all-to-all that is too large for its slots still writes its splits there, so that it
 * takes a single plan, the one that moves the rows.
 */
enum {
	LOOKS = 20,           /* of eager_spin(): a rank that runs is not later than that */
	MAPPED_ABOVE = 16384, /* bytes above which a sum is not copied if it need not be  */
};

/* A long sum between buffers that other ranks can map: the back end then copies nothing, which
 * outweighs the cost of the agreement. */
static bool request_is_mappable(const struct request *r)
{
	uint64_t at, bytes = op_signature_bytes(&r->signature);

	return r->signature.kind == PLAN_ALLREDUCE && bytes > MAPPED_ABOVE &&
	       share_find(r->in, bytes, &at) && share_find(r->out, bytes, &at);
}

bool eager_may(const struct comm *c, const struct request *r)
{
	return c->small == SMALL_EAGER && !request_is_mappable(r) &&
	       ledger_holds(ledger_room(c->ledger, &r->signature), eager_slot_share(c, r));
}

bool eager_begin(struct comm *c, uint32_t id, const struct request *r, struct eager_round *t)
{
	t->bytes = eager_slot_share(c, r);
	if (!ledger_fits(c->ledger, id, t->bytes))
		return false;
	t->id = id;
	t->when = 0;
	t->number = ledger_begin(c->ledger, id);
	t->at = ledger_slots(c->ledger, id, t->number);
	return true;
}

/* Looks at the ranks that need this processor (@here), or at all.  It skips this rank's own
 * slot, which is written and may lie in a reader's cache: a look would fetch it back. */
static int round_missing_of(const struct comm *c, const struct eager_slots *at, uint32_t round,
			    bool here)
{
	int missing = -1;

	for (int r = 0; r < c->topo.size; r++) {
		if (r == c->topo.rank || (here && !waitset_is_here(c->waitset, r)))
			continue;
		switch (ledger_look(at, r, round)) {
		case SLOT_CHANGED:
			return -2;
		case SLOT_EMPTY:
			missing = missing < 0 ? r : missing;
			break;
		case SLOT_DATA:
			break;
		}
	}
	return missing;
}

/* If a rank is missing that needs this thread's processor, the other slots do not matter yet;
 * and a slot read too early has its cache line fetched back by its writer.
 */
static int round_missing(const struct comm *c, const struct eager_slots *at, uint32_t round)
{
	int missing = c->waitset->policy.away ? round_missing_of(c, at, round, true) : -1;

	return missing == -1 ? round_missing_of(c, at, round, false) : missing;
}

void eager_decline(const struct comm *c, uint32_t id, uint32_t round, const struct request *r)
{
	struct eager_slots at;

	if (!ledger_fits(c->ledger, id, 0))
		return;
	at = ledger_slots(c->ledger, id, round);
	if (collective_is(r->signature.kind, COLLECTIVE_SPLITS) &&
	    ledger_fits(c->ledger, id, eager_slot_splits_bytes(c)))
		copy_bytes(ledger_data(&at, c->topo.rank), r->splits,
			   eager_slot_splits_bytes(c));
	ledger_put(&at, c->topo.rank, round, SLOT_CHANGED);
}

bool eager_splits(const struct comm *c, const struct ringup_op *op, uint64_t *matrix)
{
	struct eager_slots at;

	if (c->small != SMALL_EAGER ||
	    !ledger_fits(c->ledger, op->id, eager_slot_splits_bytes(c)))
		return false;
	at = ledger_slots(c->ledger, op->id, op->round);
	for (int r = 0; r < c->topo.size; r++, matrix += c->topo.size)
		copy_bytes(matrix, ledger_data(&at, r), eager_slot_splits_bytes(c));
	return true;
}

int eager_missing(const struct comm *c, uint32_t id, uint32_t round)
{
	struct eager_slots at = ledger_slots(c->ledger, id, round);

	return round_missing(c, &at, round);
}

int eager_spin(const struct comm *c, const struct eager_round *t)
{
	uint64_t filled = ledger_filled(t->number);
	int looks = LOOKS, size = c->topo.size, me = c->topo.rank;

	/* Other ranks need this processor: no spin. */
	if (c->waitset->policy.away)
		return round_missing(c, &t->at, t->number);
	for (int r = 0; r < size; r++)
		while (r != me &&
		       __atomic_load_n(ledger_mark(&t->at, r), __ATOMIC_ACQUIRE) != filled) {
			if (ledger_look(&t->at, r, t->number) == SLOT_CHANGED || !looks--)
				return round_missing_of(c, &t->at, t->number, false);
			waitset_pause();
		}
	return -1;
}

/* A rank has declined, so this round is queued.  c->lock is held. */
static void defer_round(struct comm *c, struct ringup_op *op)
{
	if (op_is_done(op) || !op_is_eager(op))
		return;
	__atomic_store_n(&op->eager, false, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&c->eager_count, 1, __ATOMIC_RELAXED);
	if (agree_post(c->agree, op->id, &op->ask.signature, op->ask.rows, false, false) ==
	    ARRIVED_LAST)
		notify_call(c);
}

static bool op_finish(struct comm *c, struct ringup_op *op)
{
	struct eager_slots at;
	int rc;

	if (eager_missing(c, op->id, op->round) != -1 || !op_claim(op))
		return op_is_done(op);
	at = ledger_slots(c->ledger, op->id, op->round);
	rc = eager_slot_finish(c, &at, &op->ask, &op->why);
	__atomic_fetch_sub(&c->eager_count, 1, __ATOMIC_RELAXED);
	op_complete(op, rc);
	return true;
}

bool eager_try(struct comm *c, struct ringup_op *op)
{
	if (eager_missing(c, op->id, op->round) == -2) {
		lock_take(&c->lock);
		defer_round(c, op);
		lock_give(&c->lock);
	}
	return op_finish(c, op);
}

/*
 * round_has_changed - has another rank declined this round?
 *
 * eager_missing() may skip slots.  If any rank has queued this operation, all slots are looked
 * at: the rank that declined notifies once, and no rank notifies again.
 */
static bool round_has_changed(const struct comm *c, const struct ringup_op *op)
{
	int missing = eager_missing(c, op->id, op->round);
	struct eager_slots at;

	if (missing < 0 || !(ledger_arrived(c->ledger, op->id) % (uint64_t)c->topo.size))
		return missing == -2;
	at = ledger_slots(c->ledger, op->id, op->round);
	return round_missing_of(c, &at, op->round, false) == -2;
}

bool eager_look(struct comm *c, struct ringup_op *op)
{
	if (!op_is_eager(op) || op_is_done(op))
		return false;
	if (!round_has_changed(c, op))
		return op_finish(c, op);
	defer_round(c, op);
	return false;
}

/* Has another rank filled its slot, as an eager operation? */
static bool round_any_filled(const struct comm *c, const struct eager_slots *at, uint32_t round)
{
	for (int r = 0; r < c->topo.size; r++)
		if (r != c->topo.rank && ledger_look(at, r, round) == SLOT_DATA)
			return true;
	return false;
}

/* Of a rank that fills its slot and a rank that queues the operation, at least one sees the
 * other: both store, and then load. */
void eager_follow(struct comm *c, struct ringup_op *op)
{
	struct eager_slots at;

	if (c->small != SMALL_EAGER || !ledger_fits(c->ledger, op->id, 0))
		return;
	if (!op_is_eager(op)) {
		at = ledger_slots(c->ledger, op->id, op->round);
		if (round_any_filled(c, &at, op->round))
			notify_call(c);
	} else if (ledger_arrived(c->ledger, op->id) % (uint64_t)c->topo.size) {
		lock_take(&c->lock);
		if (eager_look(c, op))
			notify_completed(c->engine);
		lock_give(&c->lock);
	}
}

bool eager_scan(struct comm *c)
{
	struct ringup_op *op;
	bool any = false;

	lock_take(&c->lock);
	for (op = c->flying; op; op = op->next)
		any |= eager_look(c, op);
	lock_give(&c->lock);
	return any;
}

void eager_collect(struct comm *c)
{
	if (__atomic_load_n(&c->eager_count, __ATOMIC_RELAXED) && eager_scan(c))
		notify_completed(c->engine);
}
