/* execute.c - carry out what a group of ranks has agreed: batches, plans, completion. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/execute.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coll/copy.h"
#include "engine/agree.h"
#include "engine/bundle.h"
#include "engine/eager.h"
#include "engine/engine_state.h"
#include "engine/join.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/over.h"
#include "engine/p2p.h"
#include "engine/plan.h"
#include "engine/submit.h"
#include "engine/tracepoint.h"
#include "ringup.h"
#include "wire/ranks.h"

static void ops_fail(struct comm *l, const struct err *why, bool messages)
{
	struct ringup_op *op;

	lock_take(&l->lock);
	for (op = l->flying; op; op = op->next)
		if ((op->tensor || messages) && op_claim(op)) {
			if (op_is_eager(op))
				__atomic_fetch_sub(&l->eager_count, 1, __ATOMIC_RELAXED);
			if (!op->tensor)
				p2p_cancel(l->engine->p2p, op);
			op_fail(op, why);
		}
	l->running = false;
	__atomic_store_n(&l->join, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&l->item_count, 0, __ATOMIC_RELAXED);
	lock_give(&l->lock);
}

void execute_fail(struct comm *l, const struct err *why)
{
	ops_fail(l, why, true);
}

int execute_flying(struct comm *l)
{
	struct ringup_op *op;
	int n = 0;

	eager_collect(l);
	lock_take(&l->lock);
	for (op = l->flying; op; op = op->next)
		n += !op_is_done(op);
	n += submit_any_eager(l);
	lock_give(&l->lock);
	return n;
}

/* ---- plans ---- */

static int fail_not_in_flight(struct err *e)
{
	return fail(e, RINGUP_EPEER, "a batch names a tensor that is not in flight here");
}

/* Make a plan of the items from item_at on. */
static int plan_next(struct comm *l, struct err *e)
{
	const struct item *it = &l->items[l->item_at];
	struct ringup_op *op = comm_op(l, it);
	int rc;

	if (!op)
		return fail_not_in_flight(e);
	l->plan_bad = it->bad;
	l->op_count = 0;
	if (!it->bad && op->ask.want.kind == WANT_JOIN && it->rows)
		join_done(l, op, it->rows);
	if (it->bad)
		rc = bundle_dispute(l, op, e);
	else if (op->ask.want.kind == WANT_BUNDLE)
		rc = bundle_plan(l, op, it->rows, e);
	else
		rc = plan_make(l, op, it->rows, 1, e);
	if (!rc && tracepoint_on(l))
		tracepoint_begin(l, false);
	return rc ? rc : l->backend->start(l->carrier, &l->plan, e);
}

/* The plan is done: what is left to do for one of its operations.  @why is the reason if the
 * ranks disagree. */
static void op_conclude(struct comm *l, struct ringup_op *op, struct err *why)
{
	int rc;

	op->tensor->verified = !l->plan_bad;
	if (op->bundle) {
		bundle_conclude(op);
		return;
	}
	if (!op_claim(op))
		return;
	rc = l->plan_bad ? why->code : plan_conclude(op, why);
	if (rc) {
		op_fail(op, why);
	} else {
		op_deliver(op);
		op_complete(op, 0);
	}
}

static void plan_done(struct comm *l)
{
	struct err why = { 0 };
	int i;

	if (tracepoint_on(l))
		tracepoint_end(l);
	if (l->plan_bad && l->op_count)
		bundle_verdict(l, l->ops[0], &why);
	for (i = 0; i < l->op_count; i++)
		op_conclude(l, l->ops[i], &why);
	l->running = false;
	if (l->item_at == l->item_count) {
		__atomic_store_n(&l->item_count, 0, __ATOMIC_RELAXED);
		agree_done(l->agree);
	}
	notify_completed(l->engine);
}

/* What has come with the agreement: nothing is left to be carried out. */
static int batch_take_results(struct comm *l, struct err *e)
{
	const struct item *it;

	l->plan_bad = NULL;
	l->op_count = 0;
	while (l->item_at < l->item_count && (it = &l->items[l->item_at])->result) {
		struct ringup_op *op = comm_op(l, it);

		if (!op)
			return fail_not_in_flight(e);
		copy_bytes(op->ask.out, it->result, want_bytes(&op->ask.want));
		plan_ends(l, op);
	}
	if (tracepoint_on(l))
		tracepoint_begin(l, true);
	plan_done(l);
	return 0;
}

bool execute_ready(struct comm *l)
{
	return __atomic_load_n(&l->item_count, __ATOMIC_RELAXED) || agree_ready(l->agree) ||
	       (over_has_left(l, NULL) && !__atomic_load_n(&l->over, __ATOMIC_RELAXED)) ||
	       (__atomic_load_n(&l->joined, __ATOMIC_RELAXED) &&
		(ledger_calls(l->ledger) != __atomic_load_n(&l->calls_seen, __ATOMIC_RELAXED) ||
		 join_ready(l)));
}

/* Whoever left has sent all that it had before: what is not complete now never will be. */
static int comm_end(struct comm *l)
{
	struct err why;

	over_comm(l, &why);
	eager_scan(l);
	/* First, so that what comes meanwhile by submit_eager() makes us look again. */
	__atomic_store_n(&l->over, true, __ATOMIC_SEQ_CST);
	ops_fail(l, &why, false);
	p2p_left(l->engine->p2p, l);
	notify_completed(l->engine);
	return 1;
}

int execute_step(struct comm *l, struct err *e)
{
	/* Asked first, see comm_end(). */
	bool over = over_has_left(l, NULL) && !__atomic_load_n(&l->over, __ATOMIC_RELAXED);
	int rc;

	if (l->running) {
		rc = l->backend->step(l->carrier, e);
		if (rc > 0)
			plan_done(l);
		return rc;
	}
	if (l->item_at < l->item_count && l->items[l->item_at].result)
		return batch_take_results(l, e) ? e->code : 1;
	if (l->item_at < l->item_count) {
		rc = plan_next(l, e);
		l->running = rc == 0;
		return rc < 0 ? rc : 1;
	}
	if (agree_ready(l->agree)) {
		rc = agree_next(l->agree, l->fusion_bytes, l->items);
		l->item_at = 0;
		if (rc > 0 && tracepoint_on(l))
			tracepoint_ready(l, rc);
		__atomic_fetch_add(&l->batches, rc > 0, __ATOMIC_RELAXED);
		__atomic_store_n(&l->item_count, rc, __ATOMIC_RELAXED);
		return rc > 0;
	}
	rc = __atomic_load_n(&l->joined, __ATOMIC_RELAXED) ? join_answer(l, e) : 0;
	return !rc && over ? comm_end(l) : rc;
}

/* ---- life ---- */

int execute_open(struct comm *l, struct err *e)
{
	l->counts = calloc((size_t)l->topo.size, sizeof(*l->counts));
	l->lack = calloc((size_t)l->topo.size, sizeof(*l->lack));
	if (!l->counts || !l->lack)
		return fail(e, RINGUP_ENOMEM, "no memory for the engine");
	return 0;
}

void execute_close(struct comm *l)
{
	op_free_all(l);
	tensors_free(&l->tensors);
	free(l->counts);
	free(l->lack);
	free(l->numbers);
	free(l->seen);
	heartbeats_close(&l->links);
	memset(l, 0, sizeof(*l));
}
