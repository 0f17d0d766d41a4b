/* engine.c - Horovod's semantics: submit by name, complete once all ranks have submitted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backend/wait.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/futex.h"
#include "base/limits.h"
#include "base/thread.h"
#include "engine/agree.h"
#include "engine/comms.h"
#include "engine/eager.h"
#include "engine/execute.h"
#include "engine/heartbeat.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/op_text.h"
#include "engine/over.h"
#include "engine/p2p.h"
#include "engine/progress.h"
#include "engine/rest.h"
#include "engine/submit.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/quiesce.h"

enum {
	LOOKS = 100,      /* at an eager operation before taking the baton  */
	HAND_OVER = 200,  /* looks before a thread without the baton sleeps */
	POLL_STEPS = 64,  /* steps of engine_poll() at most                 */
	VERDICT_MS = 300, /* how long a lost connection waits for its reason */
	LONE_MS = 20,     /* one wait for the only back end with a plan      */
	VAIN_TURNS = 3,   /* vain waits after which the next ones sleep at once */
};

/* ---- helpers ---- */

static struct progress *my_progress(const struct engine *g)
{
	return &g->progress[g->waitset->me];
}

/* Has an eager operation a callback?  Such an operation completes only when a thread looks. */
static bool engine_has_eager_callbacks(const struct engine *g)
{
	return __atomic_load_n(&g->eager_callbacks, __ATOMIC_SEQ_CST);
}

static bool progress_is_due(struct engine *g)
{
	return !engine_is_dead(g) &&
	       (engine_is_alarmed(g) || p2p_is_ready(g->p2p) || engine_has_eager_callbacks(g) ||
		comms_any(g, execute_ready));
}

static void comms_scan_eager(struct engine *g)
{
	struct comm *c;
	int i, end = comms_enter(g);

	for (i = 0; i < end; i++)
		if ((c = comms_at(g, i)))
			eager_collect(c);
	comms_exit(g, end);
}

/* Do threads sleep until the holder of the baton has completed their operations? */
static bool engine_has_waiters(const struct engine *g)
{
	return __atomic_load_n(&g->waiting, __ATOMIC_SEQ_CST);
}

static bool progress_take(struct engine *g)
{
	uint32_t no = 0;

	if (__atomic_load_n(&g->baton, __ATOMIC_RELAXED) ||
	    !__atomic_compare_exchange_n(&g->baton, &no, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	progress_set_driving(my_progress(g), true);
	return true;
}

/* Work may have arrived while other threads relied on this one: wake
 * a thread that waits for the baton, or else the progress thread. */
static void progress_give(struct engine *g)
{
	progress_set_driving(my_progress(g), false);
	__atomic_store_n(&g->baton, 0, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* A rank that submitted meanwhile has not notified this thread. */
	comms_scan_eager(g);
	if (__atomic_load_n(&g->waiting, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&g->done, 1, __ATOMIC_SEQ_CST);
		futex_wake(&g->done);
	} else if (progress_is_due(g)) {
		progress_notify(g->progress, g->waitset, g->waitset->me);
	}
}

/* ---- failing ---- */

static void comm_fail(struct comm *c, void *why)
{
	execute_fail(c, why);
}

/* The caller holds the baton. */
static void progress_fail_all(struct engine *g)
{
	struct err why;

	over_why(g, &why);
	/* The process that raised the alarm may not reach the other hosts. */
	if (engine_is_alarmed(g) && g->on_alarm)
		g->on_alarm(g->on_alarm_ctx, alarm_culprit(g->alarm), why.code, why.text);
	/* First, so that nothing is submitted to a communicator that has been dealt with. */
	__atomic_store_n(&g->dead, true, __ATOMIC_SEQ_CST);
	/* Other ranks may still access the buffers of zero-copy plans. */
	quiesce_wait(g->waitset);
	comms_visit(g, comm_fail, &why);
	notify_completed(g);
}

/* A step has failed, which ends the job.  If a connection broke, the control plane knows the
 * culprit better than the neighbour does; it needs a moment to say so. */
static void progress_failed(struct engine *g, const struct err *e)
{
	int64_t until = clock_deadline(e->code == RINGUP_EPEER ? VERDICT_MS : 0);
	int culprit = -1, me = g->comms[0]->topo.rank;
	bool own = e->code == RINGUP_ENOMEM || e->code == RINGUP_ESYSTEM;
	struct err why = *e;

	/* All ranks receive the sentence, so it has to name this rank. */
	if ((own || e->code == RINGUP_EABORTED) && g->self)
		fail_in(&why, "rank %d (process %d on %s)", me, g->self->pid, g->self->host);
	if (own)
		culprit = me;
	while (!engine_is_alarmed(g) && clock_ns() < until)
		clock_sleep_ms(1);
	notify_alarm(g, culprit, why.code, why.text);
}

/* ---- driving ---- */

static bool comm_step(struct comm *c)
{
	struct err e = { 0 };
	int rc = execute_step(c, &e);

	if (rc < 0)
		progress_failed(c->engine, &e);
	return rc != 0;
}

/* One step in @c, which may be closed as soon as its operations in flight are complete. */
static bool comm_step_in(struct comm *c)
{
	struct engine *g = c->engine;
	int end = comms_enter(g);
	bool moved = comm_step(c);

	comms_exit(g, end);
	return moved;
}

/* One step in every communicator but @first, which has had its own step. */
static bool comms_step_others(struct engine *g, const struct comm *first)
{
	struct comm *c;
	bool moved = false;
	int i, end = comms_enter(g);

	for (i = 0; i < end; i++)
		if ((c = comms_at(g, i)) && c != first)
			moved |= comm_step(c);
	comms_exit(g, end);
	return moved;
}

struct look {
	struct engine *g;
	struct comm *mine;    /* the operation's */
	struct ringup_op *op; /* or NULL */
	bool running;         /* a communicator has a plan in flight: step it */
};

/* A thread that only waits also receives frames from other hosts; this announces that. */
static void comms_attend(struct engine *g, bool on)
{
	struct comm *c;
	int i, end = comms_enter(g);

	for (i = 0; i < end; i++)
		if ((c = comms_at(g, i)))
			agree_attend(c->agree, on);
	comms_exit(g, end);
}

static void comms_poll(struct engine *g)
{
	struct comm *c;
	int i, end = comms_enter(g);

	for (i = 0; i < end; i++)
		if ((c = comms_at(g, i)))
			agree_poll(c->agree);
	comms_exit(g, end);
}

/* True if the wait for news has to end. */
static bool look_has_news(void *arg)
{
	struct look *look = arg;
	struct engine *g = look->g;
	struct ringup_op *op = look->op;

	comms_poll(g);
	if (engine_is_alarmed(g) || p2p_is_ready(g->p2p) || comms_any(g, execute_can_begin))
		return true;
	if (look->running && comms_step_others(g, NULL))
		return true;
	if (op && op_is_done(op))
		return true;
	if (op && op_is_eager(op) && eager_missing(look->mine, op->id, op->round) < 0)
		return true;
	comms_scan_eager(g);
	if (!op && __atomic_load_n(&g->tending, __ATOMIC_RELAXED))
		return !engine_has_eager_callbacks(g) || engine_has_waiters(g);
	return op && op_is_done(op);
}

static bool engine_has_others(const struct engine *g)
{
	return comms_end(g) > 1;
}

/* Has this rank anything to wait for besides the only group's plan? */
static bool engine_may_do_more(const struct engine *g)
{
	return engine_has_others(g) || p2p_is_used(g->p2p);
}

static int64_t soon(int ms, int64_t deadline_ns)
{
	int64_t turn = clock_deadline(ms);

	return turn < deadline_ns ? turn : deadline_ns;
}

/* Nothing can be done now: waits until something can.  Returns true if it waited in vain for
 * the only back end that has a plan in flight, for LONE_MS. */
static bool progress_rest(struct engine *g, struct comm *mine, struct ringup_op *op,
			  int64_t deadline_ns)
{
	struct look look = { g, mine, op, false };
	struct rest r = { .providers = 0 };
	int64_t turn;

	rest_ask(g, &r);
	/* A tensor that becomes ready during a plan must be known when the plan is done. */
	if (r.again || r.providers)
		comms_poll(g);
	if (r.again)
		return false;
	if (r.providers == 1 && !engine_may_do_more(g)) {
		/* Another communicator may be added meanwhile. */
		turn = soon(LONE_MS, deadline_ns);
		return !wait_news(&r.all, turn) && clock_ns() >= turn;
	}
	if (!r.providers && !op && !engine_has_eager_callbacks(g))
		return false;
	look.running = r.providers > 0;
	r.all.waitset = g->waitset;
	r.all.rank = WAITSET_ANY;
	r.all.ready = look_has_news;
	r.all.self = &look;
	__atomic_store_n(&g->tending, !r.providers && !op, __ATOMIC_SEQ_CST);
	/* A thread in poll(2) receives no frames. */
	if (!r.all.fds)
		comms_attend(g, true);
	wait_news(&r.all, deadline_ns);
	if (!r.all.fds)
		comms_attend(g, false);
	__atomic_store_n(&g->tending, false, __ATOMIC_RELAXED);
	return false;
}

static void comm_set_patience(struct comm *c, void *patient)
{
	__atomic_store_n(&c->waitset->policy.patient, patient != NULL, __ATOMIC_RELAXED);
}

static void engine_be_patient(struct engine *g, bool patient)
{
	__atomic_store_n(&g->waitset->policy.patient, patient, __ATOMIC_RELAXED);
	comms_visit(g, comm_set_patience, patient ? g : NULL);
}

/* With the baton: makes progress until @op is done, until the deadline, or (@op NULL) until
 * there is no work or a waiting thread can take over. */
static void progress_until(struct engine *g, struct comm *mine, struct ringup_op *op,
			   int64_t deadline_ns)
{
	bool patient = __atomic_load_n(&g->waitset->policy.patient, __ATOMIC_RELAXED);
	int vain = 0;

	while (op ? !op_is_done(op) : !engine_has_waiters(g) && progress_is_due(g)) {
		bool moved;

		if (engine_is_dead(g) || engine_is_alarmed(g)) {
			progress_fail_all(g);
			break;
		}
		moved = p2p_step(g->p2p);
		moved |= mine && comm_step_in(mine);
		if (engine_has_others(g) || !mine)
			moved |= comms_step_others(g, mine);
		if (moved)
			continue;
		/* A plan may block for long; eager operations need no plan. */
		comms_scan_eager(g);
		if (op && op_is_done(op))
			break;
		if (!progress_rest(g, mine, op, deadline_ns)) {
			if (vain >= VAIN_TURNS)
				engine_be_patient(g, patient || engine_has_waiters(g));
			vain = 0;
		} else if (++vain >= VAIN_TURNS) {
			engine_be_patient(g, false);
		}
		if (deadline_ns != INT64_MAX && clock_ns() >= deadline_ns)
			break;
	}
	if (vain >= VAIN_TURNS)
		engine_be_patient(g, patient || engine_has_waiters(g));
}

/* The progress thread sleeps unless there is work that no thread waits for.  It waits for peers
 * without spinning, so as not to take a processor from a thread that computes. */
static void *progress_thread(void *arg)
{
	struct engine *g = arg;
	struct progress *p = my_progress(g);
	uint32_t seen;

	for (;;) {
		seen = progress_seen(p);
		if (__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE))
			return NULL;
		/* Another rank may have queued an operation that is eager here. */
		comms_scan_eager(g);
		if (!engine_has_waiters(g) && progress_is_due(g) && progress_take(g)) {
			engine_be_patient(g, false);
			progress_until(g, NULL, NULL, INT64_MAX);
			engine_be_patient(g, true);
			progress_give(g);
			continue;
		}
		progress_sleep(p, seen);
	}
}

static void progress_await(struct engine *g, struct ringup_op *op, int64_t deadline_ns)
{
	uint32_t seen;

	for (int i = 0; i < HAND_OVER; i++) {
		if (op_is_done(op) || !__atomic_load_n(&g->baton, __ATOMIC_RELAXED))
			return;
		waitset_pause();
	}
	__atomic_fetch_add(&g->waiting, 1, __ATOMIC_SEQ_CST);
	/* This thread's processor is free: if the progress thread has the baton, it may spin
	 * instead of sleeping at every chunk. */
	engine_be_patient(g, true);
	seen = __atomic_load_n(&g->done, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* The progress thread gives up the baton for a thread that waits. */
	if (__atomic_load_n(&g->tending, __ATOMIC_SEQ_CST))
		waitset_notify_asleep(g->waitset, g->waitset->me);
	if (!op_is_done(op) && __atomic_load_n(&g->baton, __ATOMIC_RELAXED))
		futex_wait(&g->done, seen, deadline_ns);
	__atomic_fetch_sub(&g->waiting, 1, __ATOMIC_SEQ_CST);
}

/* A thread that gave the baton away to waiting threads left them the rest of the work. */
static void progress_pass_on(struct engine *g)
{
	if (!__atomic_load_n(&g->baton, __ATOMIC_SEQ_CST) && progress_is_due(g))
		progress_notify(g->progress, g->waitset, g->waitset->me);
}

/*
 * Enters the communicator of an operation, which this thread is about to look at or wait for.
 * Once the operation is complete, another thread may remove its group: the communicator then
 * stays until op_exit_comm(), and its operations are moved to the world's, which always stays.
 */
static struct comm *op_enter_comm(struct ringup_op *op)
{
	int end = comms_enter(op->engine);
	struct comm *c = __atomic_load_n(&op->comm, __ATOMIC_SEQ_CST);

	if (c->serial)
		__atomic_fetch_add(&c->inside, 1, __ATOMIC_SEQ_CST);
	comms_exit(op->engine, end);
	return c;
}

static void op_exit_comm(struct comm *c)
{
	if (c->serial)
		__atomic_fetch_sub(&c->inside, 1, __ATOMIC_RELEASE);
}

/* Returns whether @op is complete.  @holding: this thread has the baton already. */
static bool op_wait_in(struct comm *c, struct ringup_op *op, int64_t deadline_ns, bool holding)
{
	struct engine *g = c->engine;
	bool slept = false;

	for (int i = 0; i < LOOKS && !holding && op_is_eager(op) && !eager_try(c, op); i++)
		waitset_pause();
	while (holding || !op_is_done(op)) {
		if (holding || progress_take(g)) {
			progress_until(g, c, op, deadline_ns);
			progress_give(g);
			holding = slept = false;
		} else {
			progress_await(g, op, deadline_ns);
			slept = true;
		}
		if (!op_is_done(op) && deadline_ns != INT64_MAX && clock_ns() >= deadline_ns)
			break;
	}
	if (slept)
		progress_pass_on(g);
	return op_is_done(op);
}

/* How an operation that is done has ended.  One that is queued on a device may have been given
 * up since, together with the job. */
static int op_result(const struct comm *c, const struct ringup_op *op, struct err *e)
{
	if (!op->status)
		return op_hold(c, op, e);
	*e = op->why;
	return op->status;
}

/* @slice: the caller comes back if the deadline is missed, and has none of its own. */
static int op_wait(struct ringup_op *op, int64_t deadline_ns, bool slice, bool holding,
		   struct err *e)
{
	struct callers *callers = &op->engine->callers;
	struct comm *c = op_enter_comm(op);
	struct err why;
	bool is_done;
	int rc;

	callers_begin(callers, op, __atomic_load_n(&op->use, __ATOMIC_RELAXED),
		      slice || deadline_ns == INT64_MAX);
	is_done = op_wait_in(c, op, deadline_ns, holding);
	callers_end(callers, slice && !is_done);
	if (is_done) {
		rc = op_result(c, op, &why);
		if (rc && e)
			*e = why;
		op_release(op);
	} else {
		rc = fail(e, RINGUP_ETIMEDOUT, "the operation is not complete yet");
	}
	op_exit_comm(c);
	return rc;
}

static int not_mine(struct err *e)
{
	return fail(
		e, RINGUP_ESHUTDOWN,
		"a forked child is not a rank of the job; use the process that called init");
}

void engine_result_stream(struct ringup_op *op, void *stream)
{
	/* A thread that completes it for a callback may read this. */
	__atomic_store_n(&op->stream, stream, __ATOMIC_RELEASE);
}

int engine_wait(struct ringup_op *op, int64_t deadline_ns, bool slice, struct err *e)
{
	if (!engine_is_mine(op->engine))
		return not_mine(e);
	return op_wait(op, deadline_ns, slice, false, e);
}

/* Is @op done, or can it be completed without the baton? */
static bool op_is_through(struct ringup_op *op)
{
	struct comm *c;
	bool is;

	if (op_is_done(op) || !op_is_eager(op))
		return op_is_done(op);
	c = op_enter_comm(op);
	is = eager_try(c, op);
	op_exit_comm(c);
	return is;
}

int engine_poll(struct ringup_op *op)
{
	struct engine *g = op->engine;

	if (!engine_is_mine(g) || op_is_through(op))
		return 1;
	if (!progress_take(g))
		return op_is_done(op);
	if (engine_is_alarmed(g) || engine_is_dead(g))
		progress_fail_all(g);
	for (int i = 0; i < POLL_STEPS && !op_is_done(op); i++) {
		bool moved = p2p_step(g->p2p);

		if (!comms_step_others(g, NULL) && !moved)
			break;
	}
	progress_give(g);
	return op_is_done(op);
}

/* The last part of engine_submit(). */
static int op_wait_or_leave(struct ringup_op *op, int64_t deadline_ns, bool holding,
			    struct ringup_op **opp, struct err *e)
{
	int rc = deadline_ns ? op_wait(op, deadline_ns, false, holding, e) : 0;

	if (opp && (!deadline_ns || rc == RINGUP_ETIMEDOUT))
		*opp = op;
	return rc;
}

int engine_deferred(struct ringup_op *op, int64_t deadline_ns, struct ringup_op **opp,
		    struct err *e)
{
	return op_wait_or_leave(op, deadline_ns, progress_take(op->engine), opp, e);
}

int engine_submit(struct comm *c, const struct request *r, int64_t deadline_ns,
		  struct ringup_op **opp, struct err *e)
{
	struct engine *g = c->engine;
	struct ringup_op *op = NULL;
	enum arrival as;
	bool holding;
	int rc;

	if (!engine_is_mine(g))
		return not_mine(e);
	callers_note(&g->callers);
	if (deadline_ns && op_signature_bytes(&r->signature) <= c->eager_bytes) {
		rc = submit_eager(c, r, &op, e);
		if (rc)
			return rc < 0 ? rc : 0;
		if (op)
			return engine_deferred(op, deadline_ns, opp, e);
	}
	op_open_device(c, r);
	/* A thread that will wait makes the progress itself: no thread need be notified. */
	holding = deadline_ns && !eager_may(c, r) && progress_take(g);
	lock_take(&c->lock);
	rc = submit_queued(c, r, NULL, holding && deadline_ns == INT64_MAX, &op, &as, e);
	lock_give(&c->lock);
	if (rc) {
		/* The other ranks wait for an operation that cannot be submitted here. */
		over_blame(g, alarm_culprit(g->alarm), e);
		if (rc == RINGUP_EPEER)
			notify_alarm(g, -1, rc, e->text);
		if (holding)
			progress_give(g);
		return rc;
	}
	/* A join that is not published yet may be published by another thread, even now. */
	submit_notify(c, r->signature.kind == OP_JOIN ? NULL : op, as);
	return op_wait_or_leave(op, deadline_ns, holding, opp, e);
}

int engine_p2p(struct comm *c, const struct p2p_request *q, int64_t deadline_ns,
	       struct ringup_op **opp, struct err *e)
{
	struct engine *g = c->engine;
	struct ringup_op *op = NULL;
	int rc;

	if (!engine_is_mine(g))
		return not_mine(e);
	callers_note(&g->callers);
	lock_take(&c->lock);
	rc = submit_p2p(c, q, &op, e);
	lock_give(&c->lock);
	if (rc)
		return rc;
	rc = p2p_begin(g->p2p, op, e);
	if (rc && op_claim(op)) {
		op_text_fail(op, e);
		op_fail(op, e);
		op_release(op);
		return rc;
	}
	return op_wait_or_leave(op, deadline_ns, false, opp, e);
}

int engine_then(struct ringup_op *op, void (*fn)(void *ctx, int status), void *ctx,
		struct err *e)
{
	struct engine *g = op->engine;
	struct callback *back;
	struct comm *c;
	bool is_taken;
	int rc;

	if (!engine_is_mine(g))
		return not_mine(e);
	back = calloc(1, sizeof(*back));
	if (!back)
		return fail(e, RINGUP_ENOMEM, "no memory for a callback");
	back->fn = fn;
	back->ctx = ctx;
	rc = callbacks_start(&g->callbacks, e);
	if (!rc) {
		c = op_enter_comm(op);
		is_taken = op_then(c, op, back);
		op_exit_comm(c);
		if (!is_taken)
			rc = fail(e, RINGUP_EBUSY, "the operation already has a callback");
	}
	if (rc)
		free(back);
	return rc;
}

static void comm_leave(struct comm *c, void *arg)
{
	(void)arg;
	execute_leave(c);
}

void engine_settle(struct engine *g)
{
	if (engine_is_alarmed(g)) {
		while (!progress_take(g))
			sched_yield();
		if (!engine_is_dead(g))
			progress_fail_all(g);
		progress_give(g);
	} else {
		comms_visit(g, comm_leave, NULL);
	}
	p2p_settle(g->p2p);
	callbacks_stop(&g->callbacks);
}

/* ---- what an operation waits for ---- */

/* Engines that have been started and not stopped. */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine *live;
static struct forks_hook live_hook;

/* A child of fork() has no engine, and perhaps a thread that it does not have held the lock. */
static void live_renew(void *arg)
{
	(void)arg;
	live_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	live = NULL;
}

static void add_live(struct engine *g)
{
	pthread_mutex_lock(&live_lock);
	if (!live_hook.fn) {
		live_hook.fn = live_renew;
		forks_add(&live_hook);
	}
	g->next_live = live;
	live = g;
	pthread_mutex_unlock(&live_lock);
}

static void remove_live(struct engine *g)
{
	struct engine **at = &live;

	pthread_mutex_lock(&live_lock);
	while (*at && *at != g)
		at = &(*at)->next_live;
	if (*at)
		*at = g->next_live;
	pthread_mutex_unlock(&live_lock);
}

void engine_note_late(struct ringup_op *op, struct op_late *late)
{
	struct comm *c = op_enter_comm(op);

	op_note_late(c, op, late);
	late->life = op->engine->callers.serial;
	op_exit_comm(c);
}

/* Enters the communicator of @late, if that is still there: then so are its operations. */
static struct comm *late_enter_comm(struct engine *g, const struct op_late *late)
{
	struct comm *c = NULL, *at;
	int i, end = comms_enter(g);

	for (i = 0; i < end && !c; i++)
		if ((at = comms_at(g, i)) && at->serial == late->serial)
			c = at;
	if (c && c->serial)
		__atomic_fetch_add(&c->inside, 1, __ATOMIC_SEQ_CST);
	comms_exit(g, end);
	return c;
}

void engine_describe(struct engine *g, const struct op_late *late, char *out, size_t len)
{
	struct engine *at;
	struct comm *c;

	/* While live_lock is held, the engine is not stopped.  Another one may have come to its
	 * place since. */
	pthread_mutex_lock(&live_lock);
	for (at = live; at && at != g; at = at->next_live)
		;
	c = at && g->describe && g->callers.serial == late->life ? late_enter_comm(g, late)
								 : NULL;
	if (c) {
		if (__atomic_load_n(&late->op->use, __ATOMIC_RELAXED) == late->use)
			g->describe(g->describe_ctx, c, late, out, len);
		op_exit_comm(c);
	}
	pthread_mutex_unlock(&live_lock);
}

/* ---- life ---- */

int engine_start(struct engine *g, struct err *e)
{
	int rc;

	g->forks = forks_count();
	callbacks_open(&g->callbacks);
	callers_open(&g->callers);
	g->waitset->policy.patient = true;
	rc = thread_start(&g->thread, progress_thread, g);
	if (rc)
		return limits_fail(e, rc, "progress thread");
	g->has_thread = true;
	add_live(g);
	return 0;
}

static void comm_count_flying(struct comm *c, void *n)
{
	*(int *)n += execute_flying(c);
}

int engine_flying(struct engine *g)
{
	int n = 0;

	comms_visit(g, comm_count_flying, &n);
	return n;
}

void engine_stop(struct engine *g)
{
	remove_live(g);
	if (g->has_thread) {
		__atomic_store_n(&g->stop, true, __ATOMIC_RELEASE);
		progress_wake(my_progress(g));
		pthread_join(g->thread, NULL);
	}
	callbacks_stop(&g->callbacks);
	g->has_thread = false;
	free(g->poll);
	g->poll = NULL;
	g->poll_room = 0;
}
