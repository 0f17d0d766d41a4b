/* op.c - one operation of a rank, from its start to its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/op.h"

#include <stdlib.h>

#include "base/err.h"
#include "coll/reduce.h"
#include "engine/engine_state.h"
#include "engine/lane.h"
#include "engine/notify.h"
#include "engine/tracepoint.h"

bool op_claim(struct ringup_op *op)
{
	uint32_t flying = OP_FLYING;

	return __atomic_compare_exchange_n(&op->state, &flying, OP_CLAIMED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* In the place of the callback of an operation that is complete without one. */
static struct callback completed;

static void set_why(struct callback *c, const struct ringup_op *op)
{
	if (op->status)
		c->why = op->why;
	else
		fail_none(&c->why);
	c->why.code = op->status;
}

bool op_then(struct ringup_op *op, struct callback *c)
{
	struct engine *g = op->engine;
	struct callback *was = NULL;
	bool tended = op_is_eager(op);

	/* Before the operation can complete with it, after which @c is gone. */
	c->tended = tended;
	if (tended)
		__atomic_fetch_add(&g->tended, 1, __ATOMIC_SEQ_CST);
	if (__atomic_compare_exchange_n(&op->callback, &was, c, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		/* Nobody may be waiting: the progress thread shall. */
		if (tended)
			notify_news(g);
		return true;
	}
	if (tended)
		__atomic_fetch_sub(&g->tended, 1, __ATOMIC_SEQ_CST);
	if (was != &completed ||
	    !__atomic_compare_exchange_n(&op->callback, &was, c, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	set_why(c, op);
	callbacks_push(&g->callbacks, c);
	return true;
}

void op_complete(struct ringup_op *op, int status)
{
	struct lane *l = op->lane;
	struct engine *g = op->engine;
	struct callback *c = NULL;

	op->status = status;
	if (op->tensor) {
		if (tracepoint_on(l))
			tracepoint_complete(op, status);
		__atomic_store_n(&op->tensor->op, NULL, __ATOMIC_RELEASE);
		/* From here on the tensor may be forgotten. */
		l->agree->drop(l->agreement, op->id);
	}
	if (!__atomic_compare_exchange_n(&op->callback, &c, &completed, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		set_why(c, op);
	__atomic_store_n(&op->state, OP_DONE, __ATOMIC_RELEASE);
	if (c) {
		if (c->tended)
			__atomic_fetch_sub(&g->tended, 1, __ATOMIC_SEQ_CST);
		callbacks_push(&g->callbacks, c);
	}
	/* A join may have waited for it.  Who asks for one sees us done, or we see him. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&l->join, __ATOMIC_RELAXED))
		notify_news(l->engine);
}

/* Would a result of @bytes there overwrite what this rank brings before it has been read?  Not
 * if that lies where it goes, @before bytes behind the beginning. */
static bool is_in_the_way(const struct request *r, uint64_t bytes, uint64_t before)
{
	size_t element = reduce_dtype_bytes((enum ringup_dtype)r->want.dtype);
	uintptr_t in = (uintptr_t)r->in, to = (uintptr_t)r->into;
	uint64_t own = r->rows * r->want.count * element;

	return own && in != to + before && in < to + bytes && to < in + own;
}

void *op_room(const struct request *r, uint64_t bytes, uint64_t before)
{
	bool fits = r->into && bytes <= r->into_bytes && !is_in_the_way(r, bytes, before);

	return fits ? r->into : malloc(bytes ? bytes : 1);
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

void op_deliver(struct ringup_op *op)
{
	const struct want *w = &op->ask.want;
	struct ringup_op *m;

	for (m = op->members; m; m = m->next)
		op_deliver(m);
	if (w->kind != PLAN_ALLGATHER && w->kind != PLAN_ALLTOALL)
		return;
	/* Nobody wants what a rank receives that has joined, or is not the root of a gather. */
	if (op->ghost || !op->ask.outp)
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
	free(op->own);
	op->own = NULL;
}
