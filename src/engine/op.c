/* op.c - an operation of a rank: its pool, members, completion and callback. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/engine_state.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op_text.h"
#include "engine/provider.h"
#include "engine/tracepoint.h"

enum { POOL_STEP = 64 }; /* operations allocated at a time */

bool op_has_begun(const struct comm *c, const struct ringup_op *op, int rank)
{
	int local = c->topo.local_of ? c->topo.local_of[rank] : rank;

	/* A join is held before it is published. */
	return rank == c->topo.rank || !c->ledger || ledger_is_busy(c->ledger, op->id, local) ||
	       ledger_has_begun(c->ledger, op->id, op->round, local);
}

void op_note_late(const struct comm *c, struct ringup_op *op, struct op_late *late)
{
	memset(late->missing, 0, ((size_t)c->topo.size + 63) / 64 * sizeof(*late->missing));
	for (int r = 0; r < c->topo.size && op->entry; r++)
		if (comm_is_here(c, r) && !op_has_begun(c, op, r))
			late->missing[r / 64] |= UINT64_C(1) << r % 64;
	/* What is complete may have come here from a group that is gone, with its name. */
	late->op = op_is_done(op) ? NULL : op;
	late->serial = c->serial;
	late->use = __atomic_load_n(&op->use, __ATOMIC_RELAXED);
}

/* Where the result of @r goes: NULL if nothing does. */
static const void *result_at(const struct request *r, int rank)
{
	const struct op_signature *s = &r->signature;

	if (r->into && r->into_bytes)
		return r->into;
	/* Ranks that are not the root reduce into memory of the engine's own. */
	if (s->kind == PLAN_ALLREDUCE && s->digest == OP_TO_ROOT && s->root != rank)
		return NULL;
	/* Its digest is the number of rows, of which the first ranks have one more. */
	if (s->kind == PLAN_REDUCESCATTER && s->digest <= (uint64_t)rank)
		return NULL;
	return s->count ? r->out : NULL;
}

/* Where @r has data of this rank, or NULL. */
static const void *data_at(const struct request *r, int rank)
{
	const struct op_signature *s = &r->signature;
	uint64_t in = collective_is(s->kind, COLLECTIVE_GROWS) ? r->rows : s->count;

	/* Its splits have the rows. */
	if (s->kind == PLAN_ALLTOALL)
		return r->in;

	/* A broadcast reads its root's data only; a gather's own may be empty. */
	return in && (!collective_is(s->kind, COLLECTIVE_ROOT) || s->root == rank) ? r->in
										   : NULL;
}

void op_open_device(struct comm *c, const struct request *r)
{
	const struct request *q = r->members ? r->members : r;
	const struct backend_device *d;
	const void *at = data_at(q, c->topo.rank);
	void *self, *ready = NULL;
	struct err e;

	if (q->signature.memory != RINGUP_CUDA || !q->stream ||
	    __atomic_load_n(&c->device_open, __ATOMIC_RELAXED))
		return;
	d = provider_device(c, &self);
	at = at ? at : result_at(q, c->topo.rank);
	/* op_mark() fails in the same way, and says so. */
	if (!d || d->mark(self, at, q->stream, &ready, &e) || !ready)
		return;
	d->unmark(self, ready);
	__atomic_store_n(&c->device_open, true, __ATOMIC_RELAXED);
}

int op_mark(struct ringup_op *op, struct err *e)
{
	const struct request *r = &op->ask;
	const struct op_signature *s = &r->signature;
	const struct backend_device *d;
	const void *at = data_at(r, op->comm->topo.rank);
	const void *to = result_at(r, op->comm->topo.rank);
	void *self;
	int rc;

	if (s->memory != RINGUP_CUDA || s->kind == OP_BUNDLE || op->proxy)
		return 0;
	d = provider_device(op->comm, &self);
	if (!d)
		return 0;
	rc = d->mark(self, at ? at : to, r->stream, &op->ready, e);
	if (!rc && at && to && to != at)
		rc = d->mark(self, to, NULL, &(void *){ NULL }, e);
	return rc;
}

static void op_unmark(struct ringup_op *op)
{
	const struct backend_device *d;
	struct ringup_op *m;
	void *self;

	for (m = op->members; m; m = m->next)
		op_unmark(m);
	if (!op->ready)
		return;
	d = provider_device(op->comm, &self);
	if (d)
		d->unmark(self, op->ready);
	op->ready = NULL;
}

/* The result of @op, or of its bundle, has been given up on the device. */
static int fail_given_up(const struct ringup_op *op, struct err *e)
{
	if (engine_is_alarmed(op->engine))
		alarm_get(op->engine->alarm, e);
	op_text_fail(op->bundle ? op->bundle : op, e);
	return e->code;
}

static int hold_one(const struct comm *c, const struct ringup_op *op, void *other,
		    struct err *e)
{
	void *stream = other ? other : op->ask.stream, *self;
	uint64_t flight = __atomic_load_n(&op->flight, __ATOMIC_ACQUIRE);
	const struct backend_device *d;

	if (flight == OP_LOST_FLIGHT) {
		*e = op->why;
		return e->code;
	}
	if (flight == OP_NO_FLIGHT || !stream)
		return 0;
	/* @c is the communicator that the flight belongs to, since op_hand_over() ends all. */
	d = provider_device(c, &self);
	return d && d->hold(self, flight, stream, e) ? fail_given_up(op, e) : 0;
}

/* The stream @other, or, if that is NULL, those of the request and of its members. */
static int hold_all(const struct comm *c, const struct ringup_op *op, void *other,
		    struct err *e)
{
	const struct ringup_op *m;
	int rc = hold_one(c, op, other, e);

	for (m = op->members; m && !rc; m = m->next)
		rc = hold_one(c, m, other, e);
	return rc;
}

int op_hold(const struct comm *c, const struct ringup_op *op, struct err *e)
{
	return hold_all(c, op, __atomic_load_n(&op->stream, __ATOMIC_ACQUIRE), e);
}

/* A callback may use the result on the request's stream, whatever stream the thread that waits
 * chooses meanwhile, or on one chosen before. */
static int hold_for_callback(const struct comm *c, const struct ringup_op *op, struct err *e)
{
	void *other = __atomic_load_n(&op->stream, __ATOMIC_ACQUIRE);
	int rc = hold_all(c, op, NULL, e);

	return rc || !other ? rc : hold_all(c, op, other, e);
}

bool op_claim(struct ringup_op *op)
{
	uint32_t flying = OP_FLYING;

	return __atomic_compare_exchange_n(&op->state, &flying, OP_CLAIMED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Marks, in place of a callback, an operation that is complete without one. */
static struct callback completed;

static void set_why(struct callback *c, const struct ringup_op *op)
{
	if (op->status)
		c->why = op->why;
	else
		fail_none(&c->why);
	c->why.code = op->status;
}

bool op_then(const struct comm *c, struct ringup_op *op, struct callback *back)
{
	struct engine *g = op->engine;
	struct callback *was = NULL;
	bool is_eager = op_is_eager(op);

	/* Before the operation can complete with it, after which @back is gone. */
	back->is_eager = is_eager;
	if (is_eager)
		__atomic_fetch_add(&g->eager_callbacks, 1, __ATOMIC_SEQ_CST);
	if (__atomic_compare_exchange_n(&op->callback, &was, back, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		/* Perhaps no thread waits for it: then the progress thread has to. */
		if (is_eager)
			notify_news(g);
		return true;
	}
	if (is_eager)
		__atomic_fetch_sub(&g->eager_callbacks, 1, __ATOMIC_SEQ_CST);
	if (was != &completed ||
	    !__atomic_compare_exchange_n(&op->callback, &was, back, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	set_why(back, op);
	if (!op->status)
		(void)hold_for_callback(c, op, &back->why);
	callbacks_push(&g->callbacks, back);
	return true;
}

void op_complete(struct ringup_op *op, int status)
{
	struct comm *c = op->comm;
	struct engine *g = op->engine;
	struct callback *done = NULL;

	op->status = status;
	op_unmark(op);
	if (tracepoint_on(c))
		tracepoint_complete(op, status);
	if (op->entry) {
		__atomic_store_n(&op->entry->op, NULL, __ATOMIC_RELEASE);
		/* From here on the tensor may be forgotten. */
		ledger_drop(c->ledger, op->id);
	}
	if (!__atomic_compare_exchange_n(&op->callback, &done, &completed, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (!status)
			op->status = hold_for_callback(c, op, &op->why);
		set_why(done, op);
		callbacks_expect(&g->callbacks);
	}
	__atomic_store_n(&op->state, OP_DONE, __ATOMIC_RELEASE);
	if (done) {
		if (done->is_eager)
			__atomic_fetch_sub(&g->eager_callbacks, 1, __ATOMIC_SEQ_CST);
		callbacks_push(&g->callbacks, done);
		callbacks_pushed(&g->callbacks);
	}
	/* A join may have waited for it: its thread sees OP_DONE, or this one sees the join. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->join, __ATOMIC_RELAXED))
		notify_news(g);
}

/* Would a result in into overwrite this rank's data before they are read?  Not if they lie at
 * their place in the result, @before bytes from its start. */
static bool is_in_the_way(const struct request *r, uint64_t bytes, uint64_t before)
{
	size_t element = reduce_dtype_bytes((enum ringup_dtype)r->signature.dtype);
	uintptr_t in = (uintptr_t)r->in, to = (uintptr_t)r->into;
	uint64_t own = r->rows * r->signature.count * element;

	return own && in != to + before && in < to + bytes && to < in + own;
}

void *op_room(const struct request *r, bool may_own, uint64_t bytes, uint64_t before)
{
	bool fits = r->into && bytes <= r->into_bytes && !is_in_the_way(r, bytes, before);

	return fits ? r->into : may_own ? malloc(bytes ? bytes : 1) : NULL;
}

void op_discard(struct ringup_op *op)
{
	struct ringup_op *m;

	for (m = op->members; m; m = m->next)
		op_discard(m);
	if (op->result != op->ask.into)
		free(op->result);
	op->result = NULL;
}

void op_fail(struct ringup_op *op, const struct err *why)
{
	op_discard(op);
	op->why = *why;
	op_complete(op, why->code);
}

void op_fail_in(struct ringup_op *op, const struct err *why)
{
	struct err e = *why;

	op_text_fail(op, &e);
	op_fail(op, &e);
}

void op_deliver(struct ringup_op *op)
{
	const struct op_signature *s = &op->ask.signature;
	struct ringup_op *m;

	for (m = op->members; m; m = m->next)
		op_deliver(m);
	if (!collective_is(s->kind, COLLECTIVE_GROWS))
		return;
	/* The result is not wanted on a joined rank, nor outside the root of a gather. */
	if (op->far)
		*op->ask.outp = op->far->into;
	if (op->far || op->proxy || !op->ask.outp)
		op_discard(op);
	else
		*op->ask.outp = op->result;
	op->result = NULL;
}

void op_empty(struct ringup_op *op)
{
	struct ringup_op *m;

	for (m = op->members; m; m = m->next)
		op_empty(m);
	op_discard(op);
	op_unmark(op);
	free(op->own);
	op->own = NULL;
	if (op->far)
		free(op->far->near);
	free(op->far);
	op->far = NULL;
}

/* ---- the pool ---- */

struct ringup_op *op_new(struct comm *c)
{
	struct ringup_op *op = c->pool;

	if (!op) {
		op = calloc(POOL_STEP, sizeof(*op));
		for (int i = 0; op && i < POOL_STEP; i++) {
			op[i].next = i + 1 < POOL_STEP ? &op[i + 1] : NULL;
			op[i].comm = c;
			op[i].engine = c->engine;
		}
		if (!op)
			return NULL;
		op->block_next = c->blocks;
		c->blocks = op;
	}
	c->pool = op->next;
	return op;
}

static void pool_put(struct comm *c, struct ringup_op *op)
{
	op->next = c->pool;
	c->pool = op;
}

void op_free(struct comm *c, struct ringup_op *op)
{
	struct ringup_op *m;

	__atomic_fetch_add(&op->use, 1, __ATOMIC_RELAXED);
	op_empty(op);
	while ((m = op->members)) {
		op->members = m->next;
		pool_put(c, m);
	}
	pool_put(c, op);
}

/* Locks the communicator of @op, which another thread may change meanwhile. */
static struct comm *op_lock_comm(struct ringup_op *op)
{
	struct comm *c;

	for (;;) {
		c = __atomic_load_n(&op->comm, __ATOMIC_ACQUIRE);
		lock_take(&c->lock);
		if (c == __atomic_load_n(&op->comm, __ATOMIC_ACQUIRE))
			return c;
		lock_give(&c->lock);
	}
}

void op_release(struct ringup_op *op)
{
	struct comm *c = op_lock_comm(op);

	if (op->prev)
		op->prev->next = op->next;
	else
		c->flying = op->next;
	if (op->next)
		op->next->prev = op->prev;
	op_free(c, op);
	lock_give(&c->lock);
}

int op_no_memory(struct err *e)
{
	return fail(e, RINGUP_ENOMEM, "no memory for another operation");
}

/* Sets @op to a new request, in no list. */
static void op_set(struct ringup_op *op, const struct request *r, void *proxy)
{
	__atomic_store_n(&op->state, OP_FLYING, __ATOMIC_RELAXED);
	__atomic_store_n(&op->eager, false, __ATOMIC_RELAXED);
	op->proxy = proxy;
	op->own = proxy;
	op->status = 0;
	op->since_ns = 0;
	op->ask = *r;
	op->result = NULL;
	op->asked = op->mixed = false;
	op->far = NULL;
	op->ready = NULL;
	__atomic_store_n(&op->flight, OP_NO_FLIGHT, __ATOMIC_RELAXED);
	__atomic_store_n(&op->stream, NULL, __ATOMIC_RELAXED);
	op->members = NULL;
	op->bundle = NULL;
	__atomic_store_n(&op->callback, NULL, __ATOMIC_RELAXED);
}

int op_add_member(struct comm *c, struct ringup_op *op, const struct request *r, void *proxy,
		  struct err *e)
{
	struct ringup_op *m = op_new(c);

	if (!m)
		return op_no_memory(e);
	op_set(m, r, proxy);
	m->entry = op->entry;
	m->bundle = op;
	m->next = op->members;
	op->members = m;
	return op_mark(m, e);
}

/* Puts @op into the list of those in flight; entry, id and round are set. */
void op_enter(struct comm *c, struct ringup_op *op, const struct request *r, void *proxy)
{
	op_set(op, r, proxy);
	op->prev = NULL;
	op->next = c->flying;
	if (c->flying)
		c->flying->prev = op;
	c->flying = op;
}

void op_take_back(struct comm *c, struct ringup_op *op)
{
	__atomic_store_n(&op->entry->op, NULL, __ATOMIC_RELEASE);
	ledger_drop(c->ledger, op->id);
	c->flying = op->next;
	if (op->next)
		op->next->prev = NULL;
	op_free(c, op);
}

/* What @op has queued on a device has run (@there), or never will.  The error for whoever waits
 * for it is written now, because the name of @op goes with its group. */
static void op_end_flight(struct ringup_op *op, bool there)
{
	bool lost = !there && !op->status;

	if (__atomic_load_n(&op->flight, __ATOMIC_RELAXED) == OP_NO_FLIGHT)
		return;
	if (lost) {
		fail(&op->why, RINGUP_EABORTED,
		     "the GPU had not finished it when its group was removed");
		(void)fail_given_up(op, &op->why);
	}
	__atomic_store_n(&op->flight, lost ? OP_LOST_FLIGHT : OP_NO_FLIGHT, __ATOMIC_RELEASE);
}

/* @there: all that they have queued on a device has run. */
static void op_give_all(struct ringup_op *list, struct comm *to, bool there)
{
	for (; list; list = list->next) {
		op_give_all(list->members, to, there);
		op_end_flight(list, there);
		__atomic_store_n(&list->comm, to, __ATOMIC_SEQ_CST);
	}
}

void op_hand_over(struct comm *from, struct comm *to)
{
	struct ringup_op *op, **end;
	const struct backend_device *d;
	bool there;
	void *self;

	d = provider_device(from, &self);
	there = !d || d->settle(self);
	/* Other threads may look at operations in flight, or release them. */
	lock_take(&from->lock);
	if (!from->flying)
		goto out;
	lock_take(&to->lock);
	op_give_all(from->flying, to, there);
	for (op = from->flying; op->next; op = op->next)
		;
	op->next = to->flying;
	if (to->flying)
		to->flying->prev = op;
	to->flying = from->flying;
	op_give_all(from->pool, to, true);
	for (end = &from->pool; *end; end = &(*end)->next)
		;
	*end = to->pool;
	to->pool = from->pool;
	for (end = &from->blocks; *end; end = &(*end)->block_next)
		;
	*end = to->blocks;
	to->blocks = from->blocks;
	lock_give(&to->lock);
	from->flying = from->pool = from->blocks = NULL;
out:
	lock_give(&from->lock);
}

void op_free_all(struct comm *c)
{
	struct ringup_op *block, *op;

	for (op = c->flying; op; op = op->next)
		op_empty(op);
	while ((block = c->blocks)) {
		c->blocks = block->block_next;
		free(block);
	}
}
