/* engine.c - Horovod's semantics: submit by name, complete when all ranks have. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/forks.h"
#include "base/futex.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "engine/ledger.h"
#include "ringup.h"

enum {
	POOL_STEP = 64,   /* operations allocated at a time                 */
	UNNAMED = 1024,   /* unnamed operations that may be in flight       */
	HAND_OVER = 200,  /* looks before a thread without the baton sleeps */
	POLL_STEPS = 64,  /* what engine_poll() does at most                */
	VERDICT_MS = 300, /* how long a lost connection waits for its reason */
};

/* ---- small things ---- */

static struct seat *my_seat(const struct engine *g)
{
	return &g->row->seats[g->row->me];
}

static bool is_done(const struct ringup_op *op)
{
	return __atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_DONE;
}

static bool is_eager(const struct ringup_op *op)
{
	return __atomic_load_n(&op->eager, __ATOMIC_ACQUIRE);
}

static bool is_alarmed(const struct engine *g)
{
	return __atomic_load_n(&g->alarm->word, __ATOMIC_RELAXED);
}

static bool someone_left(const struct engine *g)
{
	return __atomic_load_n(g->left, __ATOMIC_ACQUIRE);
}

static bool work_left(struct engine *g)
{
	if (__atomic_load_n(&g->dead, __ATOMIC_RELAXED))
		return false;
	return __atomic_load_n(&g->item_count, __ATOMIC_RELAXED) ||
	       g->agree->ready(g->agreement) || is_alarmed(g);
}

static void wake_waiting(struct engine *g)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&g->waiting, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&g->done, 1, __ATOMIC_SEQ_CST);
	futex_wake(&g->done);
}

static bool take_baton(struct engine *g)
{
	uint32_t no = 0;

	if (__atomic_load_n(&g->baton, __ATOMIC_RELAXED) ||
	    !__atomic_compare_exchange_n(&g->baton, &no, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&my_seat(g)->driving, 1, __ATOMIC_RELAXED);
	return true;
}

/* Work may have come while the others believed that we would do it; whoever
 * waits for the baton shall look, and if nobody does, the engine thread. */
static void give_baton(struct engine *g)
{
	__atomic_store_n(&my_seat(g)->driving, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&g->baton, 0, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&g->waiting, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&g->done, 1, __ATOMIC_SEQ_CST);
		futex_wake(&g->done);
	} else if (work_left(g)) {
		seat_kick(g->row, g->row->me);
	}
}

void engine_news(struct engine *g)
{
	seat_ring_one(g->row, g->row->me);
	seat_kick(g->row, g->row->me);
}

void engine_alarm(struct engine *g, int code, const char *why)
{
	int i;

	if (alarm_raise(g->alarm, code, "%s", why) && g->on_alarm)
		g->on_alarm(g->on_alarm_ctx, code, why);
	for (i = 0; i < g->row->count; i++) {
		seat_ring_one(g->row, i);
		seat_kick(g->row, i);
	}
}

/* ---- completing ---- */

/* After this @op may be gone: its waiter owns it. */
static void complete(struct ringup_op *op, int status)
{
	struct engine *g = op->engine;

	op->status = status;
	__atomic_store_n(&op->tensor->op, NULL, __ATOMIC_RELEASE);
	/* From here on the tensor may be forgotten. */
	g->agree->drop(g->agreement, op->id);
	__atomic_store_n(&op->state, OP_DONE, __ATOMIC_RELEASE);
}

static void fail_op(struct ringup_op *op, const struct err *why)
{
	if (op->want.kind == PLAN_ALLGATHER)
		free(op->out);
	op->why = *why;
	complete(op, why->code);
}

/* Only one thread may finish an eager operation. */
static bool claim(struct ringup_op *op)
{
	uint32_t flying = OP_FLYING;

	return __atomic_compare_exchange_n(&op->state, &flying, OP_CLAIMED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Everything in flight fails, and nothing will be carried out any more. */
static void fail_all(struct engine *g, const struct err *why)
{
	struct ringup_op *op;

	pthread_mutex_lock(&g->lock);
	for (op = g->flying; op; op = op->next)
		if (claim(op)) {
			if (is_eager(op))
				__atomic_fetch_sub(&g->eager_count, 1, __ATOMIC_RELAXED);
			fail_op(op, why);
		}
	g->running = false;
	__atomic_store_n(&g->item_count, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&g->dead, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&g->lock);
	wake_waiting(g);
}

static int why_dead(struct engine *g, struct err *e)
{
	if (alarm_get(g->alarm, e))
		return e->code;
	return fail(e, RINGUP_ESHUTDOWN, "rank %d has left the job",
		    (int)__atomic_load_n(g->left, __ATOMIC_ACQUIRE) - 1);
}

/* ---- eager operations ---- */

static void reduce_lines(struct engine *g, uint32_t id, uint32_t round, const struct want *w,
			 void *out)
{
	struct reduce how = { (enum ringup_dtype)w->dtype, (enum ringup_redop)w->redop,
			      (uint32_t)g->team.size, w->post };
	const void *src[4096];
	int r;

	for (r = 0; r < g->team.size; r++)
		src[r] = ledger_line(g->ledger, id, r, round);
	reduce_many(&how, &out, 1, src, g->team.size, w->count);
}

/* The rank whose line is still empty, or -1 if all are there, or -2 if one rank
 * has changed its mind. */
static int missing_line(const struct engine *g, uint32_t id, uint32_t round)
{
	int r, missing = -1;

	for (r = 0; r < g->team.size; r++)
		switch (ledger_look(g->ledger, id, r, round)) {
		case LINE_CHANGED:
			return -2;
		case LINE_EMPTY:
			missing = r;
			break;
		case LINE_DATA:
			break;
		}
	return missing;
}

/* After a last arrival: wake who waits for news, kick who does not. */
static void call_everybody(struct engine *g)
{
	int i;

	seat_ring(g->row, SEAT_ANYBODY);
	for (i = 0; i < g->row->count; i++)
		seat_kick(g->row, i);
}

/* One rank has changed its mind, so this round goes the long way.  With the lock. */
static void make_stream(struct engine *g, struct ringup_op *op)
{
	bool last = false;

	if (is_done(op) || !is_eager(op))
		return;
	__atomic_store_n(&op->eager, false, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&g->eager_count, 1, __ATOMIC_RELAXED);
	/* In shared memory this cannot fail. */
	g->agree->post(g->agreement, op->id, &op->want, op->rows, false, &last, NULL);
	if (last)
		call_everybody(g);
}

/* Finish an eager operation if all ranks' data is there. */
static bool finish_eager(struct engine *g, struct ringup_op *op)
{
	if (missing_line(g, op->id, op->round) != -1 || !claim(op))
		return is_done(op);
	reduce_lines(g, op->id, op->round, &op->want, op->out);
	__atomic_fetch_sub(&g->eager_count, 1, __ATOMIC_RELAXED);
	complete(op, 0);
	return true;
}

static bool try_eager(struct engine *g, struct ringup_op *op)
{
	if (missing_line(g, op->id, op->round) == -2) {
		pthread_mutex_lock(&g->lock);
		make_stream(g, op);
		pthread_mutex_unlock(&g->lock);
	}
	return finish_eager(g, op);
}

/* All that are in flight, for threads that sleep, and for minds changed. */
static void scan_eager(struct engine *g)
{
	struct ringup_op *op;
	bool any = false;

	pthread_mutex_lock(&g->lock);
	for (op = g->flying; op; op = op->next) {
		if (!is_eager(op) || is_done(op))
			continue;
		if (missing_line(g, op->id, op->round) == -2)
			make_stream(g, op);
		else
			any |= finish_eager(g, op);
	}
	pthread_mutex_unlock(&g->lock);
	if (any)
		wake_waiting(g);
}

/* ---- plans ---- */

static bool same_kind(const struct want *a, const struct want *b)
{
	return a->kind == PLAN_ALLREDUCE && b->kind == PLAN_ALLREDUCE && a->dtype == b->dtype &&
	       a->redop == b->redop && a->pre == b->pre && a->post == b->post;
}

/* What every rank gathers, and room for it. */
static int plan_gather(struct engine *g, const struct item *it, struct ringup_op *op,
		       struct err *e)
{
	uint64_t total = 0, bytes;
	int r;

	for (r = 0; r < g->team.size; r++)
		if (__builtin_mul_overflow(it->rows[r], op->want.count, &g->counts[r]) ||
		    __builtin_add_overflow(total, g->counts[r], &total))
			return fail(e, RINGUP_EMISMATCH,
				    "%.200s: the blocks are too large together",
				    op->tensor->name);
	if (__builtin_mul_overflow(total, reduce_dtype_bytes((enum ringup_dtype)op->want.dtype),
				   &bytes) ||
	    bytes > SIZE_MAX / 2)
		return fail(e, RINGUP_EMISMATCH, "%.200s: the blocks are too large together",
			    op->tensor->name);
	op->out = malloc(bytes ? bytes : 1);
	if (!op->out)
		return fail(e, RINGUP_ENOMEM, "%.200s: no memory for %llu gathered bytes",
			    op->tensor->name, (unsigned long long)bytes);
	return 0;
}

static struct ringup_op *op_of(struct engine *g, const struct item *it)
{
	struct tensor *t;

	pthread_mutex_lock(&g->lock);
	t = tensors_by_id(&g->tensors, it->id);
	pthread_mutex_unlock(&g->lock);
	return t ? __atomic_load_n(&t->op, __ATOMIC_ACQUIRE) : NULL;
}

/* Make a plan of the items from item_at on: as many as run as one. */
static int plan_next(struct engine *g, struct err *e)
{
	struct item *it = &g->items[g->item_at];
	struct ringup_op *op = op_of(g, it), *more;
	const struct want *w;
	uint64_t bytes;
	int rc;

	if (!op)
		return fail(e, RINGUP_EPEER,
			    "a batch names a tensor that is not in flight here");
	w = &op->want;
	g->plan = (struct plan){ .kind = (enum plan_kind)w->kind,
				 .dtype = (enum ringup_dtype)w->dtype,
				 .redop = (enum ringup_redop)w->redop,
				 .pre = w->pre,
				 .post = w->post,
				 .root = w->root,
				 .piece = g->pieces,
				 .pieces = 1,
				 .count = w->count };
	g->plan_bad = it->bad;
	g->ops[0] = op;
	g->item_at++;
	if (it->bad) {
		/* Nothing is touched, but all ranks stay in step. */
		g->plan.kind = PLAN_BARRIER;
		g->plan.count = 0;
	} else if (w->kind == PLAN_ALLGATHER) {
		rc = it->rows
			     ? plan_gather(g, it, op, e)
			     : fail(e, RINGUP_EPEER, "%.200s: no row counts", op->tensor->name);
		if (rc)
			return rc;
		g->plan.count = op->rows * w->count;
		g->plan.counts = g->counts;
	}
	g->pieces[0] = (struct piece){ op->in, op->out, g->plan.count };
	bytes = want_bytes(w);
	while (!it->bad && w->kind == PLAN_ALLREDUCE && g->item_at < g->item_count) {
		it = &g->items[g->item_at];
		more = it->bad ? NULL : op_of(g, it);
		if (!more || !same_kind(w, &more->want))
			break;
		bytes += want_bytes(&more->want);
		if (bytes > g->fusion_bytes)
			break;
		g->ops[g->plan.pieces] = more;
		g->pieces[g->plan.pieces++] =
			(struct piece){ more->in, more->out, more->want.count };
		g->plan.count += more->want.count;
		g->item_at++;
	}
	return g->backend->start(g->carrier, &g->plan, e);
}

static void plan_done(struct engine *g)
{
	struct err why;
	int i;

	if (g->plan_bad)
		fail(&why, RINGUP_EMISMATCH, "%s", g->plan_bad);
	for (i = 0; i < g->plan.pieces; i++) {
		struct ringup_op *op = g->ops[i];

		op->tensor->verified = !g->plan_bad;
		if (!claim(op))
			continue;
		if (op->want.kind == PLAN_ALLGATHER && !g->plan_bad) {
			*op->outp = op->out;
			memcpy(op->counts, g->items[g->item_at - 1].rows,
			       (size_t)g->team.size * sizeof(*op->counts));
		}
		if (g->plan_bad)
			fail_op(op, &why);
		else
			complete(op, 0);
	}
	g->running = false;
	if (g->item_at == g->item_count) {
		__atomic_store_n(&g->item_count, 0, __ATOMIC_RELAXED);
		g->agree->done(g->agreement);
	}
	wake_waiting(g);
}

/* A connection broke.  Who is to blame, the control plane knows better than the
 * neighbour does; it needs a moment to say so. */
static void plan_failed(struct engine *g, const struct err *e)
{
	int64_t until = clock_deadline(e->code == RINGUP_EPEER ? VERDICT_MS : 0);

	while (!is_alarmed(g) && clock_ns() < until)
		clock_sleep_ms(1);
	engine_alarm(g, e->code, e->text);
}

/* One step, with the baton: false if there is nothing to do now. */
static bool step(struct engine *g)
{
	struct err e = { 0 };
	int rc;

	if (g->running) {
		rc = g->backend->step(g->carrier, &e);
		if (rc == 0)
			return false;
		if (rc < 0)
			plan_failed(g, &e);
		else
			plan_done(g);
		return true;
	}
	if (g->item_at < g->item_count) {
		rc = plan_next(g, &e);
		if (rc < 0)
			plan_failed(g, &e);
		g->running = rc == 0;
		return true;
	}
	rc = g->agree->ready(g->agreement)
		     ? g->agree->next(g->agreement, g->fusion_bytes, g->items)
		     : 0;
	g->item_at = 0;
	__atomic_store_n(&g->item_count, rc, __ATOMIC_RELAXED);
	return rc > 0;
}

/* ---- driving ---- */

struct look {
	struct engine *g;
	struct ringup_op *op; /* or NULL */
};

/* Is there a reason to stop waiting for news? */
static bool has_news(void *arg)
{
	struct look *l = arg;
	struct engine *g = l->g;
	uint32_t eager = __atomic_load_n(&g->eager_count, __ATOMIC_RELAXED);

	if (is_alarmed(g) || g->agree->ready(g->agreement) || someone_left(g))
		return true;
	if (!l->op)
		return false;
	if (is_done(l->op))
		return true;
	if (is_eager(l->op)) {
		if (missing_line(g, l->op->id, l->op->round) < 0)
			return true;
		eager--;
	}
	if (eager)
		scan_eager(g);
	return is_done(l->op);
}

/* With the baton: go on until @op is done, the deadline, or (op NULL) until
 * there is no work. */
static void drive(struct engine *g, struct ringup_op *op, int64_t deadline_ns)
{
	struct look look = { g, op };
	struct err why;

	while (op ? !is_done(op) : work_left(g)) {
		if (g->dead || is_alarmed(g)) {
			why_dead(g, &why);
			fail_all(g, &why);
			return;
		}
		if (step(g))
			continue;
		if (g->running) {
			g->backend->block(g->carrier, deadline_ns);
		} else if (op) {
			/* Asked first: whoever leaves has sent all it had before. */
			bool left = someone_left(g);

			if (__atomic_load_n(&g->eager_count, __ATOMIC_RELAXED))
				scan_eager(g);
			if (is_done(op))
				return;
			if (left && !g->agree->ready(g->agreement)) {
				why_dead(g, &why);
				fail_all(g, &why);
				return;
			}
			seat_wait(g->row, SEAT_ANYBODY, has_news, &look, deadline_ns);
		}
		if (deadline_ns != INT64_MAX && clock_ns() >= deadline_ns)
			return;
	}
}

/* The engine thread: asleep unless there is work that nobody waits for. */
static void *carry(void *arg)
{
	struct engine *g = arg;
	struct seat *s = my_seat(g);
	uint32_t seen;

	for (;;) {
		seen = __atomic_load_n(&s->kick, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE))
			return NULL;
		if (work_left(g) && take_baton(g)) {
			g->row->patient = false;
			drive(g, NULL, INT64_MAX);
			g->row->patient = true;
			give_baton(g);
			continue;
		}
		__atomic_store_n(&s->engine_asleep, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&s->kick, __ATOMIC_SEQ_CST) == seen)
			futex_wait(&s->kick, seen, INT64_MAX);
		__atomic_store_n(&s->engine_asleep, 0, __ATOMIC_SEQ_CST);
	}
}

static void sleep_for_baton(struct engine *g, struct ringup_op *op, int64_t deadline_ns)
{
	uint32_t seen;
	int i;

	for (i = 0; i < HAND_OVER; i++) {
		if (is_done(op) || !__atomic_load_n(&g->baton, __ATOMIC_RELAXED))
			return;
		seat_pause();
	}
	__atomic_fetch_add(&g->waiting, 1, __ATOMIC_SEQ_CST);
	seen = __atomic_load_n(&g->done, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!is_done(op) && __atomic_load_n(&g->baton, __ATOMIC_RELAXED))
		futex_wait(&g->done, seen, deadline_ns);
	__atomic_fetch_sub(&g->waiting, 1, __ATOMIC_SEQ_CST);
}

static void put_back(struct engine *g, struct ringup_op *op)
{
	pthread_mutex_lock(&g->lock);
	if (op->prev)
		op->prev->next = op->next;
	else
		g->flying = op->next;
	if (op->next)
		op->next->prev = op->prev;
	op->next = g->pool;
	g->pool = op;
	pthread_mutex_unlock(&g->lock);
}

/* @holding: this thread has the baton already. */
static int wait_for(struct ringup_op *op, int64_t deadline_ns, bool holding, struct err *e)
{
	struct engine *g = op->engine;
	int i, rc;

	for (i = 0; i < seat_pauses(g->row) && !holding && is_eager(op) && !try_eager(g, op);
	     i++)
		seat_pause();
	while (holding || !is_done(op)) {
		if (holding || take_baton(g)) {
			drive(g, op, deadline_ns);
			give_baton(g);
			holding = false;
		} else {
			sleep_for_baton(g, op, deadline_ns);
		}
		if (!is_done(op) && deadline_ns != INT64_MAX && clock_ns() >= deadline_ns)
			return fail(e, RINGUP_ETIMEDOUT, "the operation is not complete yet");
	}
	rc = op->status;
	if (rc && e)
		*e = op->why;
	put_back(g, op);
	return rc;
}

bool engine_is_mine(const struct engine *g)
{
	return g->forks == forks_count();
}

static int not_mine(struct err *e)
{
	return fail(
		e, RINGUP_ESHUTDOWN,
		"a child of fork() is no rank of the job; ask the process that called init");
}

int engine_wait(struct ringup_op *op, int64_t deadline_ns, struct err *e)
{
	if (!engine_is_mine(op->engine))
		return not_mine(e);
	return wait_for(op, deadline_ns, false, e);
}

int engine_poll(struct ringup_op *op)
{
	struct engine *g = op->engine;
	struct err why;
	bool left = someone_left(g);
	int i;

	if (is_done(op) || !engine_is_mine(g) || (is_eager(op) && try_eager(g, op)))
		return 1;
	if (!take_baton(g))
		return is_done(op);
	if (is_alarmed(g) || g->dead ||
	    (left && !g->running && !g->agree->ready(g->agreement))) {
		why_dead(g, &why);
		fail_all(g, &why);
	}
	for (i = 0; i < POLL_STEPS && !is_done(op) && step(g); i++)
		;
	give_baton(g);
	return is_done(op);
}

/* ---- submitting ---- */

static struct ringup_op *op_new(struct engine *g)
{
	struct ringup_op *op = g->pool;
	int i;

	if (!op) {
		op = calloc(POOL_STEP, sizeof(*op));
		for (i = 0; op && i < POOL_STEP; i++) {
			op[i].next = i + 1 < POOL_STEP ? &op[i + 1] : NULL;
			op[i].engine = g;
		}
		if (!op)
			return NULL;
		op->block_next = g->blocks;
		g->blocks = op;
	}
	g->pool = op->next;
	return op;
}

static bool may_be_eager(const struct engine *g, const struct want *w)
{
	return g->ledger && w->kind == PLAN_ALLREDUCE && want_bytes(w) <= g->eager_bytes;
}

static void scaled_copy(const struct want *w, void *dst, const void *src)
{
	if (w->pre != 1)
		copy_scaled((enum ringup_dtype)w->dtype, dst, src, w->count, w->pre);
	else
		copy_bytes(dst, src, want_bytes(w));
}

/* Publish the operation, with the lock held. */
static int post(struct engine *g, struct ringup_op *op, bool changed, bool *last, struct err *e)
{
	struct tensor *t = op->tensor;

	if (g->ledger) {
		op->round = ledger_begin(g->ledger, t->id);
		if (!changed && t->verified && may_be_eager(g, &op->want) &&
		    ledger_fits(g->ledger, t->id, want_bytes(&op->want))) {
			__atomic_store_n(&op->eager, true, __ATOMIC_RELEASE);
			scaled_copy(&op->want,
				    ledger_line(g->ledger, t->id, g->team.rank, op->round),
				    op->in);
			__atomic_fetch_add(&g->eager_count, 1, __ATOMIC_RELAXED);
			ledger_put(g->ledger, t->id, op->round, LINE_DATA);
			return 0;
		}
		if (changed && ledger_fits(g->ledger, t->id, 0))
			ledger_put(g->ledger, t->id, op->round, LINE_CHANGED);
	}
	return g->agree->post(g->agreement, t->id, &op->want, op->rows, changed, last, e);
}

static struct tensor *tensor_for(struct engine *g, const struct request *r, struct err *e)
{
	char order[24];
	const char *name = r->name;
	struct tensor *t;

	if (!name) {
		/* No name of a caller's begins with a NUL. */
		name = order;
		snprintf(order + 1, sizeof(order) - 1, "#%u", (unsigned)(g->unnamed % UNNAMED));
		order[0] = 0;
	}
	t = tensors_get(&g->tensors, name, r->name ? strlen(name) : strlen(order + 1) + 1);
	if (!t) {
		fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
		return NULL;
	}
	return t;
}

/* Hold the tensor's number; give it one if it has none any more, or not yet. */
static int hold(struct engine *g, struct tensor *t, const struct want *w, struct err *e)
{
	uint32_t id;
	int rc;

	if (t->id != UINT32_MAX && g->agree->hold(g->agreement, t->id, t->age))
		return 0;
	rc = g->agree->find(g->agreement, t->name, t->len, w, &id, &t->age, e);
	if (rc)
		return rc;
	t->known = false;
	if (!tensors_number(&g->tensors, t, id))
		return 0;
	g->agree->drop(g->agreement, id);
	return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
}

/* Into the list of those in flight; tensor, id and round are set. */
static void fill_op(struct engine *g, struct ringup_op *op, const struct request *r)
{
	__atomic_store_n(&op->state, OP_FLYING, __ATOMIC_RELAXED);
	__atomic_store_n(&op->eager, false, __ATOMIC_RELAXED);
	op->status = 0;
	op->since_ns = 0;
	op->want = r->want;
	op->in = r->in;
	op->out = r->out;
	op->outp = r->outp;
	op->rows = r->rows;
	op->counts = r->counts;
	op->prev = NULL;
	op->next = g->flying;
	if (g->flying)
		g->flying->prev = op;
	g->flying = op;
}

static int submit(struct engine *g, const struct request *r, struct ringup_op **opp, bool *last,
		  struct err *e)
{
	struct tensor *t;
	struct ringup_op *op;
	bool changed;
	int rc;

	if (is_alarmed(g) || someone_left(g) || g->dead)
		return why_dead(g, e);
	t = tensor_for(g, r, e);
	if (!t)
		return e->code;
	if (__atomic_load_n(&t->op, __ATOMIC_ACQUIRE))
		return r->name ? fail(e, RINGUP_EBUSY,
				      "%.200s: an operation of that name is already in flight",
				      r->name)
			       : fail(e, RINGUP_EBUSY,
				      "more than %d unnamed operations in flight", UNNAMED);
	op = op_new(g);
	if (!op)
		return fail(e, RINGUP_ENOMEM, "no memory for another operation");
	rc = hold(g, t, &r->want, e);
	if (rc) {
		op->next = g->pool;
		g->pool = op;
		return rc;
	}
	changed = !t->known || !want_equal(&t->want, &r->want);
	op->tensor = t;
	op->id = t->id;
	fill_op(g, op, r);
	if (changed)
		t->verified = false;
	t->want = r->want;
	t->known = true;
	g->unnamed += !r->name;
	/* Before it is published: another thread may carry it out at once. */
	__atomic_store_n(&t->op, op, __ATOMIC_RELEASE);
	*opp = op;
	rc = post(g, op, changed, last, e);
	if (rc) {
		__atomic_store_n(&t->op, NULL, __ATOMIC_RELEASE);
		g->agree->drop(g->agreement, t->id);
		g->flying = op->next;
		if (op->next)
			op->next->prev = NULL;
		op->next = g->pool;
		g->pool = op;
	}
	return rc;
}

/* ---- the short way of a blocking eager operation ---- */

/* Submit without an entry among those in flight, if all is as it was the last
 * time; NULL if it is not, and then nothing has happened. */
static struct ringup_op *begin_short(struct engine *g, const struct request *r)
{
	struct ringup_op *op = NULL;
	struct tensor *t;

	pthread_mutex_lock(&g->lock);
	if (!is_alarmed(g) && !someone_left(g) && !g->dead)
		op = __atomic_load_n(&g->spare, __ATOMIC_ACQUIRE);
	t = op ? tensor_for(g, r, NULL) : NULL;
	if (!t || __atomic_load_n(&t->op, __ATOMIC_ACQUIRE) || !t->verified ||
	    !want_equal(&t->want, &r->want) || !g->agree->hold(g->agreement, t->id, t->age)) {
		pthread_mutex_unlock(&g->lock);
		return NULL;
	}
	if (!ledger_fits(g->ledger, t->id, want_bytes(&r->want))) {
		g->agree->drop(g->agreement, t->id);
		pthread_mutex_unlock(&g->lock);
		return NULL;
	}
	__atomic_store_n(&g->spare, NULL, __ATOMIC_RELAXED);
	op->tensor = t;
	op->id = t->id;
	op->round = ledger_begin(g->ledger, t->id);
	g->unnamed += !r->name;
	scaled_copy(&r->want, ledger_line(g->ledger, t->id, g->team.rank, op->round), r->in);
	ledger_put(g->ledger, t->id, op->round, LINE_DATA);
	__atomic_store_n(&t->op, op, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&g->lock);
	seat_ring(g->row, g->row->me);
	return op;
}

/* The others are late: make it an operation in flight like any other. */
static void go_the_long_way(struct engine *g, const struct request *r, struct ringup_op *op)
{
	pthread_mutex_lock(&g->lock);
	fill_op(g, op, r);
	__atomic_store_n(&op->eager, true, __ATOMIC_RELEASE);
	__atomic_fetch_add(&g->eager_count, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&g->spare, op_new(g), __ATOMIC_RELEASE);
	pthread_mutex_unlock(&g->lock);
}

/* Returns 1 if it is done; 0 if *@opp is to be waited for, or NULL if nothing has
 * happened. */
static int submit_short(struct engine *g, const struct request *r, struct ringup_op **opp)
{
	struct ringup_op *op = begin_short(g, r);
	int i, missing = 0;

	*opp = op;
	if (!op)
		return 0;
	for (i = 0; i < seat_pauses(g->row) && missing >= 0; i++) {
		missing = missing_line(g, op->id, op->round);
		if (missing >= 0)
			seat_pause();
	}
	if (missing != -1) {
		go_the_long_way(g, r, op);
		return 0;
	}
	reduce_lines(g, op->id, op->round, &r->want, r->out);
	__atomic_store_n(&op->tensor->op, NULL, __ATOMIC_RELEASE);
	g->agree->drop(g->agreement, op->id);
	__atomic_store_n(&g->spare, op, __ATOMIC_RELEASE);
	return 1;
}

int engine_submit(struct engine *g, const struct request *r, struct ringup_op **opp,
		  struct err *e)
{
	struct ringup_op *op = NULL;
	bool last = false, holding;
	int rc;

	if (!engine_is_mine(g))
		return not_mine(e);
	if (!opp && may_be_eager(g, &r->want)) {
		if (submit_short(g, r, &op))
			return 0;
		if (op)
			return wait_for(op, INT64_MAX, take_baton(g), e);
	}
	/* A thread that will wait drives anyway: nobody need be kicked for it. */
	holding = !opp && !may_be_eager(g, &r->want) && take_baton(g);
	pthread_mutex_lock(&g->lock);
	rc = submit(g, r, &op, &last, e);
	pthread_mutex_unlock(&g->lock);
	if (rc) {
		if (holding)
			give_baton(g);
		return rc;
	}
	if (last)
		call_everybody(g);
	else if (g->ledger)
		seat_ring(g->row, g->row->me);
	if (!opp)
		return wait_for(op, INT64_MAX, holding, e);
	*opp = op;
	return 0;
}

/* ---- life ---- */

int engine_start(struct engine *g, struct err *e)
{
	sigset_t all, old;
	int rc;

	g->counts = calloc((size_t)g->team.size, sizeof(*g->counts));
	if (!g->counts)
		return fail(e, RINGUP_ENOMEM, "no memory for the engine");
	pthread_mutex_init(&g->lock, NULL);
	g->forks = forks_count();
	g->spare = op_new(g);
	g->row->patient = true;
	/* The process's signals are not for our threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&g->thread, NULL, carry, g);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return fail(e, RINGUP_ESYSTEM, "engine thread: %s", strerror(rc));
	g->has_thread = true;
	return 0;
}

int engine_flying(struct engine *g)
{
	struct ringup_op *op;
	int n = 0;

	pthread_mutex_lock(&g->lock);
	for (op = g->flying; op; op = op->next)
		n += !is_done(op);
	pthread_mutex_unlock(&g->lock);
	return n;
}

void engine_stop(struct engine *g)
{
	struct ringup_op *block;

	if (g->has_thread) {
		__atomic_store_n(&g->stop, true, __ATOMIC_RELEASE);
		__atomic_fetch_add(&my_seat(g)->kick, 1, __ATOMIC_SEQ_CST);
		futex_wake(&my_seat(g)->kick);
		pthread_join(g->thread, NULL);
		pthread_mutex_destroy(&g->lock);
	}
	while ((block = g->blocks)) {
		g->blocks = block->block_next;
		free(block);
	}
	tensors_free(&g->tensors);
	free(g->counts);
	memset(g, 0, sizeof(*g));
}
