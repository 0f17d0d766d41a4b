/* execute.c - carries out the operations of a communicator: batches, plans, completion. */
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
#include "engine/provider.h"
#include "engine/submit.h"
#include "engine/tracepoint.h"
#include "ringup.h"
#include "wire/ranks.h"

/* The holder of the baton alone writes; other threads read. */
static void runs_count(struct comm *l, int n)
{
	__atomic_store_n(&l->running, n, __ATOMIC_RELAXED);
}

/* Afterwards no buffer of an operation is touched any more. */
static void runs_abort(struct comm *l)
{
	if (l->running)
		providers_abort(l);
	for (int i = 0; i < l->run_count; i++)
		l->runs[i].by = NULL;
	runs_count(l, 0);
	l->fenced = false;
}

static void ops_fail(struct comm *l, const struct err *why, bool messages)
{
	struct ringup_op *op;

	runs_abort(l);
	lock_take(&l->lock);
	for (op = l->flying; op; op = op->next)
		if ((op->entry || messages) && op_claim(op)) {
			if (op_is_eager(op))
				__atomic_fetch_sub(&l->eager_count, 1, __ATOMIC_RELAXED);
			if (!op->entry)
				p2p_cancel(l->engine->p2p, op);
			op_fail(op, why);
		}
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

/* No rank has a back end for this plan: its operations fail, and the ranks stay in step. */
static struct provider *run_refuse(struct comm *l, struct err *e)
{
	struct run *run = l->run;
	struct provider *by;

	for (int i = 0; i < run->op_count; i++) {
		struct ringup_op *op = run->ops[i];

		op_discard(op);
		op->status = fail(&op->why, RINGUP_ENOBACKEND,
				  "%.200s: no back end of this group carries that out",
				  op->entry->name);
	}
	plan_barrier(l);
	by = provider_for(l, &l->run->plan);
	if (!by)
		fail(e, RINGUP_ENOBACKEND, "no back end carries out a barrier");
	return by;
}

/* Makes a plan of the items from item_at on, in l->run. */
static int run_make(struct comm *l, struct err *e)
{
	const struct item *it = &l->items[l->item_at];
	struct ringup_op *op = comm_op(l, it);
	struct run *run = l->run;
	int at = l->item_at, rc;

	if (!op)
		return fail_not_in_flight(e);
	run->bad = it->bad;
	run->op_count = 0;
	if (!it->bad && op->ask.signature.kind == OP_JOIN && it->rows)
		join_done(l, op, it->rows);
	if (it->bad)
		rc = bundle_dispute(l, op, e);
	else if (op->ask.signature.kind == OP_BUNDLE)
		rc = bundle_plan(l, op, it->rows, e);
	else
		rc = plan_make(l, op, it->rows, 1, e);
	if (rc)
		return rc;
	run->by = provider_for(l, &l->run->plan);
	if (!run->by)
		run->by = run_refuse(l, e);
	if (!run->by)
		return e->code;
	run->plan.serial = run->by->begun++;
	run->plan.slot = (int)(run->plan.serial % (uint64_t)run->by->is->slots);
	run->started = false;
	runs_count(l, l->running + 1);
	l->fenced = at == l->item_at || it->bad || op->ask.signature.kind == OP_JOIN;
	return 0;
}

/* True once no other plan in flight has its slot. */
static bool run_has_slot(const struct comm *l, const struct run *run)
{
	for (int i = 0; i < l->run_count && l->running > 1; i++)
		if (l->runs[i].by == run->by && l->runs[i].started &&
		    l->runs[i].plan.slot == run->plan.slot)
			return false;
	return true;
}

static int run_start(struct comm *l, struct run *run, struct err *e)
{
	if (tracepoint_on(l))
		tracepoint_begin(l, run);
	run->started = true;
	return run->by->is->start(run->by->self, &run->plan, e);
}

/* The plan is done: completes one of its operations.  @why is the reason if the ranks disagree
 * about it. */
static void op_conclude(const struct run *run, struct ringup_op *op, struct err *why)
{
	int rc;

	op->entry->verified = !run->bad;
	if (op->bundle) {
		bundle_conclude(op);
		return;
	}
	if (!op_claim(op))
		return;
	rc = run->bad ? why->code : plan_conclude(op, why);
	if (rc) {
		op_fail(op, why);
	} else {
		op_deliver(op);
		op_complete(op, 0);
	}
}

/* Ends a batch when all its plans are made and no plan in flight needs its items. */
static void batch_end(struct comm *l)
{
	if (l->item_at < l->item_count || l->fenced || (l->running && l->run_count == 1))
		return;
	__atomic_store_n(&l->item_count, 0, __ATOMIC_RELAXED);
	agree_done(l->agree);
}

static void run_done(struct comm *l, struct run *run)
{
	struct err why = { 0 };

	if (tracepoint_on(l))
		tracepoint_end(l, run);
	if (run->bad && run->op_count)
		bundle_verdict(l, run->ops[0], &why);
	for (int i = 0; i < run->op_count; i++)
		op_conclude(run, run->ops[i], &why);
	if (run->by)
		runs_count(l, l->running - 1);
	run->by = NULL;
	/* The plan made last may be one of several for an operation. */
	if (run == l->run)
		l->fenced = false;
	if (l->item_count)
		batch_end(l);
	notify_completed(l->engine);
}

/* Steps the plans in flight: 1 if one is done. */
static int runs_step(struct comm *l, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < l->run_count && !rc; i++) {
		struct run *run = &l->runs[i];

		if (!run->by)
			continue;
		if (!run->started && run_has_slot(l, run))
			rc = run_start(l, run, e);
		if (run->started && !rc)
			rc = run->by->is->step(run->by->self, &run->plan, e);
		if (rc > 0)
			run_done(l, run);
	}
	return rc;
}

/* The run for another plan, beside those in flight; NULL if no plan may be made now. */
static struct run *run_next(struct comm *l)
{
	const struct item *it = &l->items[l->item_at];
	const struct ringup_op *op;

	if (!l->running)
		return l->run;
	if (l->run_count == 1 || l->fenced || (l->run->by && !l->run->started))
		return NULL;
	if (l->item_at == l->item_count && !agree_ready(l->agree))
		return NULL;
	/* Results, disputes and joins come after all that has begun before them. */
	op = l->item_at < l->item_count ? comm_op(l, it) : NULL;
	if (op && (it->bad || it->result || op->ask.signature.kind == OP_JOIN))
		return NULL;
	/* An operation of several plans continues in the run in which it has begun. */
	if (!l->run->by)
		return l->run;
	for (int i = 0; i < l->run_count; i++)
		if (!l->runs[i].by)
			return &l->runs[i];
	return NULL;
}

bool execute_can_begin(struct comm *l)
{
	return l->running ? run_next(l) != NULL : execute_ready(l);
}

/* Completes operations whose results came with the agreement: they need no plan. */
static int batch_take_results(struct comm *l, struct err *e)
{
	struct run *run = l->run;
	const struct item *it;

	run->bad = NULL;
	run->op_count = 0;
	while (l->item_at < l->item_count && (it = &l->items[l->item_at])->result) {
		struct ringup_op *op = comm_op(l, it);

		if (!op)
			return fail_not_in_flight(e);
		copy_bytes(op->ask.out, it->result, op_signature_bytes(&op->ask.signature));
		plan_ends(l, op);
	}
	if (tracepoint_on(l))
		tracepoint_begin(l, run);
	run_done(l, run);
	return 0;
}

bool execute_ready(struct comm *l)
{
	return __atomic_load_n(&l->item_count, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&l->running, __ATOMIC_RELAXED) || agree_ready(l->agree) ||
	       (over_has_left(l, NULL) && !__atomic_load_n(&l->over, __ATOMIC_RELAXED)) ||
	       (__atomic_load_n(&l->joined, __ATOMIC_RELAXED) &&
		(ledger_calls(l->ledger) != __atomic_load_n(&l->calls_seen, __ATOMIC_RELAXED) ||
		 join_ready(l)));
}

/* A rank that left has sent all its data before: incomplete operations never complete. */
static int comm_end(struct comm *l)
{
	struct err why;

	over_comm(l, &why);
	eager_scan(l);
	/* First, so that a concurrent submit_eager() causes another look: see defer_eager(). */
	__atomic_store_n(&l->over, true, __ATOMIC_SEQ_CST);
	ops_fail(l, &why, false);
	p2p_left(l->engine->p2p, l);
	notify_completed(l->engine);
	return 1;
}

int execute_step(struct comm *l, struct err *e)
{
	/* Read first: see comm_end(). */
	bool over = over_has_left(l, NULL) && !__atomic_load_n(&l->over, __ATOMIC_RELAXED);
	int rc;

	if (l->running) {
		rc = runs_step(l, e);
		if (rc || !run_next(l))
			return rc;
	}
	if (l->item_at < l->item_count && l->items[l->item_at].result)
		return batch_take_results(l, e) ? e->code : 1;
	if (l->item_at < l->item_count) {
		l->run = run_next(l);
		rc = run_make(l, e);
		if (!rc && run_has_slot(l, l->run))
			rc = run_start(l, l->run, e);
		if (rc < 0)
			return rc;
		if (l->run_count > 1)
			batch_end(l);
		return 1;
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
	if (l->running)
		return 0;
	rc = __atomic_load_n(&l->joined, __ATOMIC_RELAXED) ? join_answer(l, e) : 0;
	return !rc && over ? comm_end(l) : rc;
}

/* ---- life ---- */

int execute_open(struct comm *l, struct err *e)
{
	size_t size = (size_t)l->topo.size;
	struct run *run;
	int i;

	l->run_count = 1;
	for (i = 0; i < l->provider_count; i++)
		if (l->providers[i].is->slots > l->run_count)
			l->run_count = l->providers[i].is->slots;
	l->run = l->runs = calloc((size_t)l->run_count, sizeof(*l->runs));
	for (i = 0; i < l->run_count && l->runs; i++) {
		run = &l->runs[i];
		run->counts = calloc(size, sizeof(*run->counts));
		run->lack = calloc(size, sizeof(*run->lack));
		if (!run->counts || !run->lack)
			break;
	}
	return l->runs && i == l->run_count
		       ? 0
		       : fail(e, RINGUP_ENOMEM, "no memory for the engine");
}

void execute_close(struct comm *l)
{
	op_free_all(l);
	name_table_free(&l->names);
	for (int i = 0; i < l->run_count && l->runs; i++) {
		free(l->runs[i].counts);
		free(l->runs[i].lack);
		free(l->runs[i].numbers);
		free(l->runs[i].spare);
	}
	free(l->runs);
	free(l->seen);
	heartbeats_close(&l->links);
	memset(l, 0, sizeof(*l));
}
