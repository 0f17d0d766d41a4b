/* submit.c - turns a caller's request into an operation in flight. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/submit.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/agree.h"
#include "engine/comm.h"
#include "engine/eager.h"
#include "engine/eager_slot.h"
#include "engine/inline.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/over.h"
#include "engine/p2p.h"
#include "engine/tracepoint.h"
#include "ringup.h"
#include "wire/waitset.h"

/* A back end reduces on all ranks; a rank that is not the root drops the result. */
static int op_make_scratch(struct ringup_op *op, struct err *e)
{
	uint64_t sum = op_signature_bytes(&op->ask.signature);

	op->own = malloc(sum ? sum : 1);
	op->ask.out = op->own;
	return op->own ? 0 : op_no_memory(e);
}

/* Copies the lists that the caller may change as soon as the call returns. */
static int op_copy_lists(struct comm *l, struct ringup_op *op, struct err *e)
{
	struct request *q = &op->ask;
	size_t bytes = (size_t)l->topo.size * sizeof(*q->splits);
	int rc = 0;

	for (uint32_t i = q->members ? q->signature.members : 0; i > 0 && !rc; i--)
		rc = op_add_member(l, op, &q->members[i - 1], NULL, e);
	q->members = NULL;
	q->copies = op->members;
	if (!rc && q->signature.kind == PLAN_ALLREDUCE && q->signature.digest == OP_TO_ROOT &&
	    !q->out)
		return op_make_scratch(op, e);
	if (rc || !q->splits || op->proxy)
		return rc;
	op->own = malloc(bytes);
	if (!op->own)
		return op_no_memory(e);
	memcpy(op->own, q->splits, bytes);
	q->splits = op->own;
	return 0;
}

/* Fills this rank's slot, for a small operation with the signature of the last time. */
static bool op_post_eager(struct comm *l, struct ringup_op *op)
{
	struct eager_round round;

	if (!op->entry->verified || op->proxy || !eager_may(l, &op->ask) ||
	    !eager_begin(l, op->id, &op->ask, &round))
		return false;
	op->round = round.number;
	eager_slot_write(l, &round, &op->ask);
	__atomic_store_n(&op->eager, true, __ATOMIC_RELEASE);
	__atomic_fetch_add(&l->eager_count, 1, __ATOMIC_RELAXED);
	eager_slot_fetch(l, &round, &op->ask.signature);
	return true;
}

/* Publishes the operation; l->lock is held. */
static enum arrival op_post(struct comm *l, struct ringup_op *op, bool changed, bool awaits)
{
	const struct request *r = &op->ask;

	if (!changed && op_post_eager(l, op))
		return ARRIVED_EARLY;
	op->round = ledger_begin(l->ledger, op->id);
	if (l->small == SMALL_EAGER)
		eager_decline(l, op->id, op->round, r);
	else if (l->small == SMALL_INLINE && !changed && op->entry->verified && !op->proxy)
		inline_put(l->ledger, op->id, &r->signature, r->in);
	return agree_post(l->agree, op->id, &r->signature, r->rows, changed || op->proxy,
			  awaits);
}

static struct name_entry *entry_for(struct comm *l, const struct request *r, struct err *e)
{
	const char *name = r->name;
	size_t len = r->name_len;
	struct name_entry *t = name && !len ? name_table_again(&l->names, name) : NULL;

	if (t)
		return t;
	if (name && !len) {
		len = strlen(name);
		if (!len || len > NAME_BYTES) {
			fail(e, RINGUP_EINVAL, "a name has 1 to %d bytes, not %zu", NAME_BYTES,
			     len);
			return NULL;
		}
	}
	t = name ? name_table_get(&l->names, name, len)
		 : name_table_unnamed(&l->names, l->unnamed);
	if (!t)
		fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
	return t;
}

/* Holds the entry's id; finds one if the entry has none, or its id now has another name. */
static int entry_hold(struct comm *l, struct name_entry *t, const struct op_signature *w,
		      struct err *e)
{
	uint32_t id;
	int rc;

	if (t->id != UINT32_MAX && ledger_hold(l->ledger, t->id, t->age))
		return 0;
	rc = ledger_find(l->ledger, t->name, t->len, w, &id, &t->age, e);
	if (rc)
		return rc;
	t->known = false;
	if (!name_table_number(&l->names, t, id))
		return 0;
	ledger_drop(l->ledger, id);
	return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
}

/* Stands in a name entry for an operation that only its calling thread knows. */
static struct ringup_op alone;

bool submit_any_eager(const struct comm *l)
{
	for (int i = 0; i < COMM_KEPT; i++)
		if (l->kept[i] && __atomic_load_n(&l->kept[i]->op, __ATOMIC_ACQUIRE) == &alone)
			return true;
	return false;
}

bool submit_join_ready(const struct comm *l)
{
	const struct ringup_op *op;

	for (op = l->flying; op; op = op->next)
		if (op != l->join && !op->proxy && !op_is_done(op))
			return false;
	return l->join != NULL;
}

bool submit_join(struct comm *l, enum arrival *as)
{
	struct ringup_op *op = l->join;

	if (!submit_join_ready(l) || submit_any_eager(l))
		return false;
	__atomic_store_n(&l->join, NULL, __ATOMIC_RELAXED);
	op->ask.rows =
		agree_join_number(l->agree, __atomic_load_n(&l->batches, __ATOMIC_RELAXED));
	*as = op_post(l, op, true, false);
	return true;
}

static void join_take_part(struct comm *l)
{
	ledger_join(l->ledger, true);
	notify_call(l);
	/* Another rank may have begun before: look at once. */
	__atomic_store_n(&l->calls_seen, ledger_calls(l->ledger) - 1, __ATOMIC_RELAXED);
	__atomic_store_n(&l->joined, true, __ATOMIC_RELEASE);
}

/* From now on this rank takes part, with nothing, in the operations of other ranks. */
static void join_start(struct comm *l, struct ringup_op *op, enum arrival *as)
{
	__atomic_store_n(&l->join, op, __ATOMIC_RELAXED);
	/* See op_complete(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	join_take_part(l);
	submit_join(l, as);
}

/* True without an operation of that name in flight; completes one that no thread looks at. */
static bool entry_is_free(struct comm *l, const struct name_entry *t)
{
	struct ringup_op *op = __atomic_load_n(&t->op, __ATOMIC_ACQUIRE);

	if (op && op != &alone && eager_look(l, op))
		notify_completed(l->engine);
	return !__atomic_load_n(&t->op, __ATOMIC_ACQUIRE);
}

/* Checks that the name is free and that this rank has not joined. */
static int entry_check_free(struct comm *l, const struct name_entry *t, const struct request *r,
			    bool proxy, struct err *e)
{
	const char *name = r->name ? r->name : "one without a name";

	if (!entry_is_free(l, t))
		return r->name ? fail(e, RINGUP_EBUSY,
				      "%.200s: an operation of that name is already in flight",
				      name)
			       : fail(e, RINGUP_EBUSY,
				      "more than %d unnamed operations in flight",
				      NAME_TABLE_UNNAMED);
	if (!proxy && __atomic_load_n(&l->joined, __ATOMIC_RELAXED))
		return fail(e, RINGUP_EBUSY,
			    "%.200s: this rank has joined, and starts nothing before all have",
			    name);
	return 0;
}

int submit_queued(struct comm *l, const struct request *r, void *proxy, bool awaits,
		  struct ringup_op **opp, enum arrival *as, struct err *e)
{
	struct name_entry *t;
	struct ringup_op *op;
	bool changed;
	int rc;

	*as = ARRIVED_EARLY;
	if (over_comm(l, e))
		return e->code;
	t = entry_for(l, r, e);
	if (!t)
		return e->code;
	rc = entry_check_free(l, t, r, proxy, e);
	if (rc)
		return rc;
	op = op_new(l);
	if (!op)
		return op_no_memory(e);
	rc = entry_hold(l, t, &r->signature, e);
	if (rc) {
		op_free(l, op);
		return rc;
	}
	changed = !t->known || !op_signature_equal(&t->signature, &r->signature);
	op->entry = t;
	op->id = t->id;
	op_enter(l, op, r, proxy);
	if (changed) {
		t->verified = t->repeats = false;
		t->told = 0;
	}
	t->signature = r->signature;
	t->known = true;
	/* Before the operation is published: another thread may then carry it out at once. */
	__atomic_store_n(&t->op, op, __ATOMIC_RELEASE);
	if (tracepoint_on(l))
		tracepoint_submitted(l, t, r);
	rc = op_copy_lists(l, op, e);
	if (rc) {
		/* No rank has been told of the signature: the next operation tells it. */
		t->known = false;
		/* A proxy's memory stays the caller's. */
		op->own = proxy ? NULL : op->own;
		if (tracepoint_on(l))
			tracepoint_complete(op, rc);
		op_take_back(l, op);
		return rc;
	}
	if (r->signature.kind == OP_JOIN && !proxy)
		join_start(l, op, as);
	else
		*as = op_post(l, op, changed, awaits);
	l->unnamed += !r->name || !*r->name;
	*opp = op;
	return 0;
}

int submit_p2p(struct comm *l, const struct p2p_request *q, struct ringup_op **opp,
	       struct err *e)
{
	struct request r;
	struct ringup_op *op;

	if (over_has_failed(l->engine, e))
		return e->code;
	if (__atomic_load_n(&l->joined, __ATOMIC_RELAXED))
		return fail(e, RINGUP_EBUSY,
			    "this rank has joined, and starts nothing before all have");
	op = op_new(l);
	if (!op)
		return op_no_memory(e);
	request_init(&r, NULL, q->is_send ? q->data : NULL, q->is_send ? NULL : q->data);
	op_signature_init(&r.signature, PLAN_BARRIER, (enum ringup_dtype)q->dtype, q->count);
	op->entry = NULL;
	op->id = UINT32_MAX;
	op->p2p = (struct p2p_op){ .is_send = q->is_send,
				   .peer = q->peer,
				   .tag = q->tag,
				   .source = -1,
				   .sourcep = q->source };
	op_enter(l, op, &r, NULL);
	if (tracepoint_on(l))
		tracepoint_message(op);
	*opp = op;
	return 0;
}

void submit_notify(struct comm *l, struct ringup_op *op, enum arrival as)
{
	if (as == ARRIVED_LAST)
		notify_call(l);
	else if (as == ARRIVED_AWAITED)
		waitset_notify(l->waitset, WAITSET_ANY);
	else if (l->ledger) {
		notify_announce(l);
		/* This, too, has to follow the fence in notify_announce(). */
		if (op)
			eager_follow(l, op);
	}
}

/* ---- submit_eager ---- */

/*
 * A name that submit_eager() carries out keeps its id between operations, which saves a hold
 * and a drop each time.  The ids that all ranks together may keep leave half of all ids to
 * other names; a rank at its limit lets go of the id that it has kept longest.
 */
static bool entry_keep(struct comm *l, struct name_entry *t)
{
	uint32_t most = LEDGER_IDS / 2 / (uint32_t)l->topo.size;
	struct name_entry **place, *was;

	if (!most)
		return false;
	place = &l->kept[l->keeps % (most < COMM_KEPT ? most : COMM_KEPT)];
	was = *place;
	if (was && __atomic_load_n(&was->op, __ATOMIC_ACQUIRE))
		return false;
	if (!ledger_keep(l->ledger, t->id, t->age))
		return false;
	if (was) {
		ledger_let_go(l->ledger, was->id);
		was->kept = was->repeats = false;
	}
	*place = t;
	l->keeps++;
	t->kept = true;
	return true;
}

/* Does @r repeat the last operation of @t, and may it be eager?  l->lock is held. */
static bool entry_is_usual(struct comm *l, struct name_entry *t, const struct request *r)
{
	return t && !__atomic_load_n(&t->op, __ATOMIC_ACQUIRE) && t->verified &&
	       op_signature_equal(&t->signature, &r->signature) && eager_may(l, r) &&
	       (t->kept || entry_keep(l, t));
}

/* Marks the entry of @r as having an operation and returns it; NULL if nothing has happened. */
static struct name_entry *eager_take(struct comm *l, const struct request *r,
				     struct eager_round *round)
{
	struct name_entry *t;

	lock_take(&l->lock);
	t = over_comm(l, NULL) || __atomic_load_n(&l->joined, __ATOMIC_RELAXED)
		    ? NULL
		    : entry_for(l, r, NULL);
	if (entry_is_usual(l, t, r) && eager_begin(l, t->id, r, round)) {
		__atomic_store_n(&t->op, &alone, __ATOMIC_RELAXED);
		t->repeats =
			r->signature.kind == PLAN_ALLREDUCE && r->signature.digest == OP_ALL;
		l->unnamed += !r->name;
	} else {
		t = NULL;
	}
	lock_give(&l->lock);
	return t;
}

/* A rank is late: make it an operation in flight like any other. */
static __attribute__((noinline)) int defer_eager(struct comm *l, const struct request *r,
						 struct name_entry *t, uint32_t round,
						 struct ringup_op **opp, struct err *e)
{
	struct ringup_op *op;
	int rc;

	/* On failure the published slot still serves the other ranks' round. */
	lock_take(&l->lock);
	op = op_new(l);
	rc = op ? 0 : op_no_memory(e);
	__atomic_store_n(&t->op, op, __ATOMIC_RELEASE);
	if (op) {
		ledger_use(l->ledger, t->id);
		op->entry = t;
		op->id = t->id;
		op->round = round;
		op_enter(l, op, r, NULL);
		rc = op_copy_lists(l, op, e);
		if (rc)
			op_take_back(l, op);
	}
	if (!rc) {
		__atomic_store_n(&op->eager, true, __ATOMIC_RELEASE);
		__atomic_fetch_add(&l->eager_count, 1, __ATOMIC_RELAXED);
		/* The thread that failed the others after a rank left did not see it. */
		__atomic_store_n(&l->over, false, __ATOMIC_RELAXED);
	}
	lock_give(&l->lock);
	*opp = op;
	return rc;
}

struct round_wait {
	struct comm *l;
	uint32_t id, round;
	int rank; /* the missing one; < 0: see eager_missing() */
};

static bool round_is_complete(void *arg)
{
	struct round_wait *wait = arg;

	wait->rank = eager_missing(wait->l, wait->id, wait->round);
	return wait->rank < 0;
}

/* Spins for longer; returns what eager_missing() does. */
static __attribute__((noinline)) int round_linger(struct comm *l, const struct eager_round *t,
						  int missing)
{
	struct round_wait wait = { l, t->id, t->number, missing };

	waitset_spin(l->waitset, &wait.rank, round_is_complete, &wait);
	return wait.rank;
}

/* Waits for the other ranks' slots, this rank's being written; returns as eager_missing(). */
static inline int round_meet(struct comm *l, const struct eager_round *t,
			     const struct op_signature *w)
{
	int missing;

	/* First, before the fence in notify_announce() has other stores to wait for; meanwhile
	 * the other ranks write their slots, which then need no second look. */
	notify_announce(l);
	eager_slot_fetch(l, t, w);
	missing = eager_spin(l, t);
	return missing >= 0 ? round_linger(l, t, missing) : missing;
}

/* ---- submit_repeat ---- */

/* Equal factors have equal bits here, except that 0 means 1. */
static bool is_same_factor(double asked, double had)
{
	static const double one = 1;
	uint64_t a, h, o;

	memcpy(&a, &asked, 8);
	memcpy(&h, &had, 8);
	memcpy(&o, &one, 8);
	return (a ? a : o) == h;
}

/* Does @a ask for the sum with signature @w?  Then only its buffers have to be checked. */
static bool signature_is_same(const struct op_signature *w, const struct ringup_reduce *a)
{
	if (w->count != a->count || w->dtype != (int)a->dtype || w->redop != (int)a->redop ||
	    w->memory != (unsigned int)a->memory || a->stream || w->dims != a->dims ||
	    !is_same_factor(a->pre, w->pre) || !is_same_factor(a->post, w->post))
		return false;
	/* The last dimension kept may stand for several. */
	if (w->dims && (w->dims == OP_SIGNATURE_DIMS || !a->shape))
		return false;
	for (int i = 0; i < w->dims; i++)
		if (w->shape[i] != a->shape[i])
			return false;
	return true;
}

/* True if the buffers are the same or do not overlap. */
static bool buffers_are_apart(const void *in, const void *out, uint64_t bytes)
{
	uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;

	return in && out && (a == b || a + bytes <= b || b + bytes <= a);
}

/* Marks the entry of @a as having an operation and returns it; NULL if nothing has happened. */
static struct name_entry *repeat_take(struct comm *l, const struct ringup_reduce *a,
				      struct eager_round *round)
{
	struct name_entry *t;

	lock_take(&l->lock);
	t = a->name ? name_table_again(&l->names, a->name) : NULL;
	if (!t || !t->repeats || !t->verified || __atomic_load_n(&t->op, __ATOMIC_ACQUIRE) ||
	    !signature_is_same(&t->signature, a) ||
	    __atomic_load_n(&l->joined, __ATOMIC_RELAXED) || !over_not_yet(l))
		goto out;
	round->bytes = a->count * reduce_dtype_bytes(a->dtype);
	if (!buffers_are_apart(a->in, a->out, round->bytes))
		goto out;
	round->id = t->id;
	round->when = 0;
	round->number = ledger_begin(l->ledger, t->id);
	round->at = ledger_slots(l->ledger, t->id, round->number);
	__atomic_store_n(&t->op, &alone, __ATOMIC_RELAXED);
	lock_give(&l->lock);
	return t;
out:
	lock_give(&l->lock);
	return NULL;
}

/* As defer_eager(). */
static __attribute__((noinline)) int defer_repeat(struct comm *l, const struct ringup_reduce *a,
						  struct name_entry *t, uint32_t round,
						  struct ringup_op **opp)
{
	struct request r;

	request_init(&r, a->name, a->in, a->out);
	r.signature = t->signature;
	return defer_eager(l, &r, t, round, opp, NULL);
}

int submit_repeat(struct comm *l, const struct ringup_reduce *a, struct ringup_op **opp)
{
	struct eager_round round;
	struct name_entry *t;
	int missing;

	*opp = NULL;
	t = engine_is_mine(l->engine) ? repeat_take(l, a, &round) : NULL;
	if (!t)
		return 0;
	if (tracepoint_on(l))
		tracepoint_short(l, t, NULL, &round);
	eager_slot_put(l, &round, &t->signature, a->in);
	missing = round_meet(l, &round, &t->signature);
	if (missing != -1)
		return defer_repeat(l, a, t, round.number, opp);
	eager_slot_sum(l, &round.at, &t->signature, a->in, a->out);
	if (tracepoint_on(l))
		tracepoint_finished(l, t, &round, 0, NULL);
	__atomic_store_n(&t->op, NULL, __ATOMIC_RELEASE);
	return 1;
}

int submit_eager(struct comm *l, const struct request *r, struct ringup_op **opp, struct err *e)
{
	struct eager_round round;
	struct name_entry *t = eager_take(l, r, &round);
	int rc, missing;

	*opp = NULL;
	if (!t)
		return 0;
	if (tracepoint_on(l))
		tracepoint_short(l, t, r, &round);
	eager_slot_write(l, &round, r);
	missing = round_meet(l, &round, &r->signature);
	if (missing != -1)
		return defer_eager(l, r, t, round.number, opp, e);
	rc = eager_slot_finish(l, &round.at, r, e);
	if (tracepoint_on(l))
		tracepoint_finished(l, t, &round, rc, r->counts);
	__atomic_store_n(&t->op, NULL, __ATOMIC_RELEASE);
	return rc ? rc : 1;
}
