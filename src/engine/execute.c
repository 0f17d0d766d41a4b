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
#include "engine/stage.h"
#include "engine/submit.h"
#include "engine/tracepoint.h"
#include "engine/turns.h"
#include "ringup.h"
#include "wire/quiesce.h"
#include "wire/ranks.h"

/* The holder of the baton alone writes; other threads read. */
static void runs_count(struct comm *c, int n)
{
	__atomic_store_n(&c->running, n, __ATOMIC_RELAXED);
}

/* Afterwards no buffer of an operation is touched any more. */
static void runs_abort(struct comm *c)
{
	/* On a device what has been queued goes on after its operation is complete. */
	if (c->running || over_has_failed(c->engine, NULL) || (c->left && over_is_aborted(c)))
		providers_abort(c, !c->running);
	turns_done(c);
	for (int i = 0; i < c->run_count; i++) {
		stage_abort(&c->runs[i]);
		c->runs[i].provider = NULL;
	}
	runs_count(c, 0);
	c->fenced = false;
}

/* With the claim. */
static void message_fail(struct comm *c, struct ringup_op *op, const struct err *why)
{
	p2p_cancel(c->engine->p2p, op);
	op_fail_in(op, why);
}

static void ops_fail(struct comm *c, const struct err *why, bool messages)
{
	struct ringup_op *op;

	runs_abort(c);
	lock_take(&c->lock);
	for (op = c->flying; op; op = op->next)
		if ((op->entry || messages) && op_claim(op)) {
			if (op_is_eager(op))
				__atomic_fetch_sub(&c->eager_count, 1, __ATOMIC_RELAXED);
			if (!op->entry)
				p2p_cancel(c->engine->p2p, op);
			op_fail_in(op, why);
		}
	__atomic_store_n(&c->join, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&c->item_count, 0, __ATOMIC_RELAXED);
	lock_give(&c->lock);
}

void execute_fail(struct comm *c, const struct err *why)
{
	ops_fail(c, why, true);
}

int execute_flying(struct comm *c)
{
	struct ringup_op *op;
	int n = 0;

	eager_collect(c);
	lock_take(&c->lock);
	for (op = c->flying; op; op = op->next)
		n += op->entry && !op_is_done(op);
	n += submit_any_eager(c);
	lock_give(&c->lock);
	return n;
}

int execute_messages(struct comm *c)
{
	struct ringup_op *op;
	int n = 0;

	lock_take(&c->lock);
	for (op = c->flying; op; op = op->next)
		n += !op->entry && !op_is_done(op);
	lock_give(&c->lock);
	return n;
}

void execute_leave(struct comm *c)
{
	struct ringup_op *op;
	struct err why;

	fail(&why, RINGUP_ESHUTDOWN, "this rank has left the job");
	lock_take(&c->lock);
	for (op = c->flying; op; op = op->next)
		if (!op->entry && op_claim(op))
			message_fail(c, op, &why);
	lock_give(&c->lock);
}

/* ---- plans ---- */

static int fail_not_in_flight(struct err *e)
{
	return fail(e, RINGUP_EPEER, "a batch names a tensor that is not in flight here");
}

/* No rank has a back end for this plan: its operations fail, and the ranks stay in step. */
static struct provider *run_refuse(struct comm *c, struct err *e)
{
	struct run *run = c->run;
	struct provider *provider;

	for (int i = 0; i < run->op_count; i++) {
		struct ringup_op *op = run->ops[i];

		op_discard(op);
		op->status = fail(&op->why, RINGUP_ENOBACKEND,
				  "%.200s: no back end of this group supports this operation",
				  op->entry->name);
	}
	plan_barrier(c);
	provider = provider_for(c, &c->run->plan);
	if (!provider)
		fail(e, RINGUP_ENOBACKEND, "no back end supports a barrier");
	return provider;
}

/* Groups may be added after this point: all ranks of the world run this plan. */
static void turns_if_groups(struct comm *c, const struct ringup_op *op)
{
	if (!c->serial && !c->turns.wanted && op->entry && !strcmp(op->entry->name, NAME_GROUP))
		c->turns.wanted = true;
}

/* Makes a plan of the items from item_at on, in c->run. */
static int run_make(struct comm *c, struct err *e)
{
	const struct item *it = &c->items[c->item_at];
	struct ringup_op *op = comm_op(c, it);
	struct run *run = c->run;
	bool mixed = it->mixed && stage_can(c);
	int at = c->item_at, rc = 0;

	if (!op)
		return fail_not_in_flight(e);
	turns_if_groups(c, op);
	run->bad = mixed ? NULL : it->bad;
	run->op_count = 0;
	run->staged = NULL;
	if (mixed || (!it->bad && stage_wants(op)))
		rc = stage_begin(c, op, e);
	if (rc < 0)
		return rc;
	if (rc) {
		runs_count(c, c->running + 1);
		c->fenced = true;
		return 0;
	}
	if (!run->bad && op->ask.signature.kind == OP_JOIN && it->rows)
		join_done(c, op, it->rows);
	if (run->bad)
		rc = bundle_dispute(c, op, e);
	else if (op->ask.signature.kind == OP_BUNDLE)
		rc = bundle_plan(c, op, it->rows, e);
	else
		rc = plan_make(c, op, it->rows, 1, e);
	if (rc)
		return rc;
	run->provider = provider_for(c, &c->run->plan);
	if (!run->provider)
		run->provider = run_refuse(c, e);
	if (!run->provider)
		return e->code;
	run->plan.serial = run->provider->begun++;
	run->plan.slot = (int)(run->plan.serial % (uint64_t)run->provider->backend->slots);
	run->started = false;
	runs_count(c, c->running + 1);
	c->fenced = at == c->item_at || it->bad || op->ask.signature.kind == OP_JOIN;
	return 0;
}

/* True once no other plan in flight has its slot. */
static bool run_has_slot(const struct comm *c, const struct run *run)
{
	for (int i = 0; i < c->run_count && c->running > 1; i++)
		if (c->runs[i].provider == run->provider && c->runs[i].started &&
		    c->runs[i].plan.slot == run->plan.slot)
			return false;
	return true;
}

static int run_start(struct comm *c, struct run *run, struct err *e)
{
	if (c->turns.wanted && run->provider->backend->ordered) {
		int rc = turns_take(c, e);

		if (rc <= 0)
			return rc;
	}
	if (tracepoint_on(c))
		tracepoint_begin(c, run);
	run->started = true;
	return run->provider->backend->start(run->provider->self, &run->plan, e);
}

/* The plan is done: completes one of its operations.  @why is the reason if the ranks disagree
 * about it. */
static void op_conclude(const struct run *run, struct ringup_op *op, struct err *why)
{
	int rc;

	op->entry->verified = !run->bad && !op->mixed;
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
static void batch_end(struct comm *c)
{
	if (c->item_at < c->item_count || c->fenced || (c->running && c->run_count == 1))
		return;
	__atomic_store_n(&c->item_count, 0, __ATOMIC_RELAXED);
	agree_done(c->agree);
}

/* On a device the plan is queued: what uses its results has to wait for it there. */
static void note_flight(const struct run *run)
{
	const struct provider *v = run->provider;
	uint64_t flight;

	if (!v || !v->backend->device || run->staged)
		return;
	flight = v->backend->device->flight(v->self);
	for (int i = 0; i < run->op_count; i++)
		__atomic_store_n(&run->ops[i]->flight, flight, __ATOMIC_RELAXED);
}

static void run_done(struct comm *c, struct run *run)
{
	struct err why = { 0 };

	if (tracepoint_on(c) && !run->staged)
		tracepoint_end(c, run);
	if (run->provider && run->provider->backend->ordered && !run->staged)
		turns_done(c);
	if (stage_end(c, run))
		return;
	if (run->bad && run->op_count)
		bundle_verdict(c, run->ops[0], &why);
	note_flight(run);
	for (int i = 0; i < run->op_count; i++)
		op_conclude(run, run->ops[i], &why);
	if (run->provider)
		runs_count(c, c->running - 1);
	run->provider = NULL;
	run->staged = NULL;
	/* The plan made last may be one of several for an operation. */
	if (run == c->run)
		c->fenced = false;
	if (c->item_count)
		batch_end(c);
	notify_completed(c->engine);
}

/* Steps the plans in flight: 1 if one is done, or has come nearer to its turn, for then what
 * this rank waits for changes, in other groups, too. */
static int runs_step(struct comm *c, struct err *e)
{
	enum turns_state turn = c->turns.state;
	int rc = 0;

	for (int i = 0; i < c->run_count && !rc; i++) {
		struct run *run = &c->runs[i];

		if (!run->provider)
			continue;
		if (!run->started && run_has_slot(c, run))
			rc = run_start(c, run, e);
		if (run->staged)
			rc = stage_step(c, run, e);
		else if (run->started && !rc)
			rc = run->provider->backend->step(run->provider->self, &run->plan, e);
		if (run->provider->backend->device)
			notify_device(c->engine);
		if (rc > 0)
			run_done(c, run);
	}
	return rc ? rc : c->turns.state != turn;
}

/* The run for another plan, beside those in flight; NULL if no plan may be made now. */
static struct run *run_next(struct comm *c)
{
	const struct item *it = &c->items[c->item_at];
	const struct ringup_op *op;

	if (!c->running)
		return c->run;
	if (c->run_count == 1 || c->fenced || (c->run->provider && !c->run->started))
		return NULL;
	if (c->item_at == c->item_count && !agree_ready(c->agree))
		return NULL;
	/* Results, disputes and joins come after all that has begun before them. */
	op = c->item_at < c->item_count ? comm_op(c, it) : NULL;
	if (op && (it->bad || it->result || op->ask.signature.kind == OP_JOIN))
		return NULL;
	/* An operation of several plans continues in the run in which it has begun. */
	if (!c->run->provider)
		return c->run;
	for (int i = 0; i < c->run_count; i++)
		if (!c->runs[i].provider)
			return &c->runs[i];
	return NULL;
}

bool execute_can_begin(struct comm *c)
{
	if (over_is_aborted(c))
		return execute_ready(c);
	return c->running ? run_next(c) != NULL : execute_ready(c);
}

/* Completes operations whose results came with the agreement: they need no plan. */
static int batch_take_results(struct comm *c, struct err *e)
{
	struct run *run = c->run;
	const struct item *it;

	run->bad = NULL;
	run->op_count = 0;
	while (c->item_at < c->item_count && (it = &c->items[c->item_at])->result) {
		struct ringup_op *op = comm_op(c, it);

		if (!op)
			return fail_not_in_flight(e);
		copy_bytes(op->ask.out, it->result, op_signature_bytes(&op->ask.signature));
		plan_ends(c, op);
	}
	if (tracepoint_on(c))
		tracepoint_begin(c, run);
	run_done(c, run);
	return 0;
}

bool execute_ready(struct comm *c)
{
	if (over_is_aborted(c))
		return !__atomic_load_n(&c->over, __ATOMIC_RELAXED);
	return __atomic_load_n(&c->item_count, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&c->running, __ATOMIC_RELAXED) || agree_ready(c->agree) ||
	       (over_has_left(c, NULL) && !__atomic_load_n(&c->over, __ATOMIC_RELAXED)) ||
	       (__atomic_load_n(&c->joined, __ATOMIC_RELAXED) &&
		(ledger_calls(c->ledger) != __atomic_load_n(&c->calls_seen, __ATOMIC_RELAXED) ||
		 join_ready(c)));
}

/* A rank that left has sent all its data before: incomplete operations never complete. */
static int comm_end(struct comm *c)
{
	bool aborted = over_is_aborted(c);
	struct err why;

	over_comm(c, &why);
	eager_scan(c);
	/* First, so that a concurrent submit_eager() causes another look: see defer_eager(). */
	__atomic_store_n(&c->over, true, __ATOMIC_SEQ_CST);
	if (aborted) {
		/* Other ranks may still access the buffers of zero-copy plans. */
		quiesce_wait(c->waitset);
		agree_tell(c->agree);
	}
	ops_fail(c, &why, aborted);
	p2p_left(c->engine->p2p, c);
	notify_completed(c->engine);
	return 1;
}

int execute_step(struct comm *c, struct err *e)
{
	/* Read first: see comm_end(). */
	bool over = over_has_left(c, NULL) && !__atomic_load_n(&c->over, __ATOMIC_RELAXED);
	int rc;

	if (over_is_aborted(c))
		return over ? comm_end(c) : 0;
	if (c->running) {
		rc = runs_step(c, e);
		if (rc || !run_next(c))
			return rc;
	}
	if (c->item_at < c->item_count && c->items[c->item_at].result)
		return batch_take_results(c, e) ? e->code : 1;
	if (c->item_at < c->item_count) {
		c->run = run_next(c);
		rc = run_make(c, e);
		if (!rc && !c->run->started && run_has_slot(c, c->run))
			rc = run_start(c, c->run, e);
		if (rc < 0)
			return rc;
		if (c->run_count > 1)
			batch_end(c);
		return 1;
	}
	if (agree_ready(c->agree)) {
		rc = agree_next(c->agree, c->fusion_bytes, c->items);
		c->item_at = 0;
		if (rc > 0 && tracepoint_on(c))
			tracepoint_ready(c, rc);
		__atomic_fetch_add(&c->batches, rc > 0, __ATOMIC_RELAXED);
		__atomic_store_n(&c->item_count, rc, __ATOMIC_RELAXED);
		return rc > 0;
	}
	if (c->running)
		return 0;
	rc = __atomic_load_n(&c->joined, __ATOMIC_RELAXED) ? join_answer(c, e) : 0;
	return !rc && over ? comm_end(c) : rc;
}

/* ---- life ---- */

int execute_open(struct comm *c, struct err *e)
{
	size_t size = (size_t)c->topo.size;
	struct run *run;
	int i;

	c->run_count = 1;
	for (i = 0; i < c->provider_count; i++)
		if (c->providers[i].backend->slots > c->run_count)
			c->run_count = c->providers[i].backend->slots;
	c->run = c->runs = calloc((size_t)c->run_count, sizeof(*c->runs));
	for (i = 0; i < c->run_count && c->runs; i++) {
		run = &c->runs[i];
		run->counts = calloc(size, sizeof(*run->counts));
		run->no_room = calloc(size, sizeof(*run->no_room));
		if (!run->counts || !run->no_room)
			break;
	}
	return c->runs && i == c->run_count
		       ? turns_open(c, c->serial != 0, e)
		       : fail(e, RINGUP_ENOMEM, "no memory for the engine");
}

void execute_close(struct comm *c)
{
	op_free_all(c);
	name_table_free(&c->names);
	for (int i = 0; i < c->run_count && c->runs; i++) {
		free(c->runs[i].counts);
		free(c->runs[i].no_room);
		free(c->runs[i].numbers);
		free(c->runs[i].spare);
	}
	free(c->runs);
	turns_close(c);
	free(c->seen);
	free(c->counted);
	heartbeats_close(&c->links);
	memset(c, 0, sizeof(*c));
}
