/* join.c - a rank that has no more data takes part with nothing until all have joined. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/join.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coll/neutral.h"
#include "coll/reduce.h"
#include "engine/eager.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/submit.h"
#include "ringup.h"

/*
 * While a rank has joined, whoever submits says so to it (ledger_post()); it then
 * submits the same, with what changes nothing: zeros to a sum, the greatest number
 * to a minimum, no rows to an allgather.  So for the agreement and the back end it
 * is a rank like the others.
 *
 * That all have joined is agreed like any operation, so it lies between the same
 * operations on all ranks.  A rank publishes that it has joined when all is complete
 * that it had submitted before; so that lies before it.  What a rank submits after it
 * comes after it on the list, too: a rank that finds itself called looks at the list
 * again before it answers, and does not answer what it will submit by itself.
 */

void join_begin(struct lane *l)
{
	ledger_join(l->ledger, true);
	notify_call(l);
	/* Somebody may have begun before: look at once. */
	__atomic_store_n(&l->calls_seen, ledger_calls(l->ledger) - 1, __ATOMIC_RELAXED);
	__atomic_store_n(&l->joined, true, __ATOMIC_RELEASE);
}

/* Operations of ours that nobody waits for. */
static void release_ghosts(struct lane *l)
{
	struct ringup_op *op, *found;

	do {
		lock_take(&l->lock);
		for (found = NULL, op = l->flying; op && !found; op = op->next)
			if (op->ghost && op_is_done(op))
				found = op;
		lock_give(&l->lock);
		if (found)
			submit_release(found);
	} while (found);
}

/* May a rank that has joined take part in it? */
static bool is_allowed(const struct lane *l, const struct want *w)
{
	return !l->join_sums || w->kind == PLAN_ALLREDUCE || w->kind == PLAN_BARRIER ||
	       w->kind == WANT_BUNDLE;
}

bool join_can(const struct lane *l, const struct want *w)
{
	uint64_t element; /* of the widest type */

	if (!is_allowed(l, w))
		return false;
	return (w->kind != PLAN_ALLREDUCE && w->kind != PLAN_REDUCESCATTER) ||
	       neutral_fill(&element, (enum ringup_dtype)w->dtype, (enum ringup_redop)w->redop,
			    w->pre, w->count > 0);
}

static bool is_from_root(const struct want *w)
{
	return w->kind == PLAN_BROADCAST ||
	       (w->kind == PLAN_ALLTOALL && w->digest == WANT_FROM_ROOT);
}

int join_stand_in(const struct lane *l, const struct want *w, struct request *q, void **own,
		  struct err *e)
{
	size_t size = reduce_dtype_bytes((enum ringup_dtype)w->dtype), n = (size_t)l->team.size;
	uint64_t bytes = want_bytes(w);
	void *room;

	q->want = *w;
	/* Nobody else can give what this rank has to: that is an error for all. */
	if ((is_from_root(w) && w->root == l->team.rank) || !is_allowed(l, w)) {
		want_init(&q->want, WANT_JOIN, RINGUP_U8, 0);
		q->want.redop = !is_allowed(l, w);
	}
	if (bytes > SIZE_MAX / 4)
		return fail(e, RINGUP_ENOMEM, "no memory for what the others reduce");
	room = calloc(1, bytes + (n + 2) * sizeof(uint64_t));
	if (!room)
		return fail(e, RINGUP_ENOMEM, "no memory for what the others reduce");
	*own = room;
	q->counts = room;
	q->splits = w->kind == PLAN_ALLTOALL ? room : NULL;
	q->outp = (void **)((uint64_t *)room + n);
	q->in = q->out = (uint64_t *)room + n + 2;
	/* A join, which is not what the others want, is how they hear that there is none. */
	if ((w->kind == PLAN_ALLREDUCE || w->kind == PLAN_REDUCESCATTER) &&
	    !neutral_fill(q->out, (enum ringup_dtype)w->dtype, (enum ringup_redop)w->redop,
			  w->pre, bytes / size))
		q->want.kind = WANT_JOIN;
	return 0;
}

static int answer(struct lane *l, uint32_t id, struct err *e)
{
	struct request q = { 0 };
	struct ringup_op *op = NULL;
	struct want w;
	char name[NAME_BYTES + 1];
	void *own = NULL;
	enum arrival as;
	int rc;

	q.name_len = ledger_called(l->ledger, id, name, &w);
	q.name = name;
	rc = join_stand_in(l, &w, &q, &own, e);
	if (rc)
		return rc;
	lock_take(&l->lock);
	rc = submit_op(l, &q, own, false, &op, &as, e);
	lock_give(&l->lock);
	if (rc)
		free(own);
	else
		engine_arrived(l, op, as);
	return rc == RINGUP_EBUSY ? 0 : rc;
}

bool join_ready(struct lane *l)
{
	bool is;

	if (!__atomic_load_n(&l->join, __ATOMIC_RELAXED))
		return false;
	lock_take(&l->lock);
	is = submit_join_ready(l);
	lock_give(&l->lock);
	return is;
}

/* Say that we have joined, if all is complete by now that came before. */
static int publish(struct lane *l, struct err *e)
{
	enum arrival as;
	int rc;

	lock_take(&l->lock);
	rc = submit_join(l, &as, e);
	lock_give(&l->lock);
	if (rc > 0)
		engine_arrived(l, NULL, as);
	else if (!rc)
		sched_yield();
	return rc < 0 ? rc : 1;
}

int join_answer(struct lane *l, struct err *e)
{
	uint64_t calls = ledger_calls(l->ledger);
	uint32_t ids[64];
	int i, n, rc = 0, any = 0;

	if (join_ready(l))
		return publish(l, e);
	if (calls == __atomic_load_n(&l->calls_seen, __ATOMIC_RELAXED))
		return 0;
	/* Ours may be complete, and nobody has looked: then the others may have used the name
	 * again, or it was the last before we joined. */
	lane_look(l);
	release_ghosts(l);
	do {
		n = ledger_calling(l->ledger, ids, 64);
		/* Whatever comes after the last join has come after it on the list. */
		if (l->agree->ready(l->agreement))
			return 1;
		for (i = 0; i < n && !rc; i++)
			rc = answer(l, ids[i], e);
		any |= n;
	} while (n == 64 && !rc);
	__atomic_store_n(&l->calls_seen, calls, __ATOMIC_RELAXED);
	return rc < 0 ? rc : any > 0;
}

void join_done(struct lane *l, struct ringup_op *op, const uint64_t *rows)
{
	int r, last = 0;

	for (r = 1; r < l->team.size; r++)
		if (rows[r] >= rows[last])
			last = r;
	if (op->ask.last)
		*op->ask.last = last;
	__atomic_store_n(&l->joined, false, __ATOMIC_RELEASE);
	ledger_join(l->ledger, false);
	/* What is left of ours is complete, but nobody may have looked. */
	eager_scan(l);
	release_ghosts(l);
}
