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
#include "engine/op_text.h"
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
static int op_copy_lists(struct comm *c, struct ringup_op *op, struct err *e)
{
	struct request *q = &op->ask;
	size_t bytes = (size_t)c->topo.size * sizeof(*q->splits);
	int rc = 0;

	for (uint32_t i = q->members ? q->signature.members : 0; i > 0 && !rc; i--)
		rc = op_add_member(c, op, &q->members[i - 1], NULL, e);
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
static bool op_post_eager(struct comm *c, struct ringup_op *op)
{
	struct eager_round round;

	if (!op->entry->verified || op->proxy || !eager_may(c, &op->ask) ||
	    !eager_begin(c, op->id, &op->ask, &round))
		return false;
	op->round = round.number;
	eager_slot_write(c, &round, &op->ask);
	__atomic_store_n(&op->eager, true, __ATOMIC_RELEASE);
	__atomic_fetch_add(&c->eager_count, 1, __ATOMIC_RELAXED);
	eager_slot_fetch(c, &round, &op->ask.signature);
	return true;
}

/* Publishes the operation; c->lock is held. */
static enum arrival op_post(struct comm *c, struct ringup_op *op, bool changed, bool awaits)
{
	const struct request *r = &op->ask;

	if (!changed && op_post_eager(c, op))
		return ARRIVED_EARLY;
	op->round = ledger_begin(c->ledger, op->id);
	if (c->small == SMALL_EAGER)
		eager_decline(c, op->id, op->round, r);
	else if (c->small == SMALL_INLINE && !changed && op->entry->verified && !op->proxy)
		inline_put(c->ledger, op->id, &r->signature, r->in);
	return agree_post(c->agree, op->id, &r->signature, r->rows, changed || op->proxy,
			  awaits);
}

static struct name_entry *entry_for(struct comm *c, const struct request *r, struct err *e)
{
	const char *name = r->name;
	size_t len = r->name_len;
	struct name_entry *t = name && !len ? name_table_again(&c->names, name) : NULL;

	if (t)
		return t;
	if (name && !len) {
		len = strlen(name);
		if (!len || len > NAME_BYTES) {
			fail(e, RINGUP_EINVAL, "a name must have 1 to %d bytes, not %zu",
			     NAME_BYTES, len);
			return NULL;
		}
	}
	t = name ? name_table_get(&c->names, name, len)
		 : name_table_unnamed(&c->names, c->unnamed);
	if (!t)
		fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
	return t;
}

/* Holds the entry's id; finds one if the entry has none, or its id now has another name. */
static int entry_hold(struct comm *c, struct name_entry *t, const struct op_signature *s,
		      struct err *e)
{
	uint32_t id;
	int rc;

	if (t->id != UINT32_MAX && ledger_hold(c->ledger, t->id, t->age))
		return 0;
	rc = ledger_find(c->ledger, t->name, t->len, s, &id, &t->age, e);
	if (rc)
		return rc;
	t->known = false;
	if (!name_table_number(&c->names, t, id))
		return 0;
	ledger_drop(c->ledger, id);
	return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
}

/* Stands in a name entry for an operation that only its calling thread knows. */
static struct ringup_op alone;

bool submit_any_eager(const struct comm *c)
{
	for (int i = 0; i < COMM_KEPT; i++)
		if (c->kept[i] && __atomic_load_n(&c->kept[i]->op, __ATOMIC_ACQUIRE) == &alone)
			return true;
	return false;
}

bool submit_join_ready(const struct comm *c)
{
	const struct ringup_op *op;

	for (op = c->flying; op; op = op->next)
		if (op != c->join && !op->proxy && !op_is_done(op))
			return false;
	return c->join != NULL;
}

bool submit_join(struct comm *c, enum arrival *as)
{
	struct ringup_op *op = c->join;

	if (!submit_join_ready(c) || submit_any_eager(c))
		return false;
	__atomic_store_n(&c->join, NULL, __ATOMIC_RELAXED);
	op->ask.rows =
		agree_join_number(c->agree, __atomic_load_n(&c->batches, __ATOMIC_RELAXED));
	*as = op_post(c, op, true, false);
	return true;
}

static void join_take_part(struct comm *c)
{
	ledger_join(c->ledger, true);
	notify_call(c);
	/* Another rank may have begun before: look at once. */
	__atomic_store_n(&c->calls_seen, ledger_calls(c->ledger) - 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->joined, true, __ATOMIC_RELEASE);
}

/* From now on this rank takes part, with nothing, in the operations of other ranks. */
static void join_start(struct comm *c, struct ringup_op *op, enum arrival *as)
{
	op->round = ledger_round(c->ledger, op->id) + 1;
	__atomic_store_n(&c->join, op, __ATOMIC_RELAXED);
	/* See op_complete(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	join_take_part(c);
	submit_join(c, as);
}

/* True without an operation of that name in flight; completes one that no thread looks at. */
static bool entry_is_free(struct comm *c, const struct name_entry *t)
{
	struct ringup_op *op = __atomic_load_n(&t->op, __ATOMIC_ACQUIRE);

	if (op && op != &alone && eager_look(c, op))
		notify_completed(c->engine);
	return !__atomic_load_n(&t->op, __ATOMIC_ACQUIRE);
}

/* Checks that the name is free and that this rank has not joined. */
static int entry_check_free(struct comm *c, const struct name_entry *t, const struct request *r,
			    bool proxy, struct err *e)
{
	const char *name = r->name ? r->name : "one without a name";

	if (!entry_is_free(c, t))
		return r->name ? fail(e, RINGUP_EBUSY,
				      "%.200s: an operation with this name is already in "
				      "flight",
				      name)
			       : fail(e, RINGUP_EBUSY,
				      "more than %d unnamed operations in flight",
				      NAME_TABLE_UNNAMED);
	if (!proxy && __atomic_load_n(&c->joined, __ATOMIC_RELAXED))
		return fail(e, RINGUP_EBUSY,
			    "%.200s: this rank has joined and cannot start operations until "
			    "all ranks have",
			    name);
	return 0;
}

int submit_queued(struct comm *c, const struct request *r, void *proxy, bool awaits,
		  struct ringup_op **opp, enum arrival *as, struct err *e)
{
	struct name_entry *t;
	struct ringup_op *op;
	bool changed;
	int rc;

	*as = ARRIVED_EARLY;
	if (over_comm(c, e)) {
		op_text_fail_request(r, e);
		return e->code;
	}
	t = entry_for(c, r, e);
	if (!t)
		return e->code;
	rc = entry_check_free(c, t, r, proxy, e);
	if (rc)
		return rc;
	op = op_new(c);
	if (!op)
		return op_no_memory(e);
	rc = entry_hold(c, t, &r->signature, e);
	if (rc) {
		if (rc == RINGUP_EPEER)
			op_text_fail_request(r, e);
		op_free(c, op);
		return rc;
	}
	changed = !t->known || !op_signature_equal(&t->signature, &r->signature);
	op->entry = t;
	op->id = t->id;
	op_enter(c, op, r, proxy);
	if (changed) {
		t->verified = t->repeats = false;
		t->reported = 0;
	}
	t->signature = r->signature;
	t->known = true;
	/* Before the operation is published: another thread may then carry it out at once. */
	__atomic_store_n(&t->op, op, __ATOMIC_RELEASE);
	if (tracepoint_on(c))
		tracepoint_submitted(c, t, r);
	rc = op_mark(op, e);
	rc = rc ? rc : op_copy_lists(c, op, e);
	if (rc) {
		/* No other rank has this signature yet: the next operation sends it. */
		t->known = false;
		/* A proxy's memory stays the caller's. */
		op->own = proxy ? NULL : op->own;
		if (tracepoint_on(c))
			tracepoint_complete(op, rc);
		op_take_back(c, op);
		return rc;
	}
	if (r->signature.kind == OP_JOIN && !proxy)
		join_start(c, op, as);
	else
		*as = op_post(c, op, changed, awaits);
	c->unnamed += !r->name || !*r->name;
	*opp = op;
	return 0;
}

int submit_p2p(struct comm *c, const struct p2p_request *q, struct ringup_op **opp,
	       struct err *e)
{
	struct p2p_op m = { .is_send = q->is_send,
			    .peer = q->peer,
			    .tag = q->tag,
			    .source = -1,
			    .sourcep = q->source };
	struct request r;
	struct ringup_op *op;

	request_init(&r, NULL, q->is_send ? q->data : NULL, q->is_send ? NULL : q->data);
	op_signature_init(&r.signature, PLAN_BARRIER, (enum ringup_dtype)q->dtype, q->count);
	if (over_has_failed(c->engine, e) || (over_is_aborted(c) && over_has_left(c, e))) {
		op_text_fail_message(&m, &r.signature, e);
		return e->code;
	}
	if (__atomic_load_n(&c->joined, __ATOMIC_RELAXED))
		return fail(e, RINGUP_EBUSY,
			    "this rank has joined and cannot start operations until all ranks "
			    "have");
	op = op_new(c);
	if (!op)
		return op_no_memory(e);
	op->entry = NULL;
	op->id = UINT32_MAX;
	op->p2p = m;
	op_enter(c, op, &r, NULL);
	c->messages++;
	if (tracepoint_on(c))
		tracepoint_message(op);
	*opp = op;
	return 0;
}

void submit_notify(struct comm *c, struct ringup_op *op, enum arrival as)
{
	if (as == ARRIVED_LAST)
		notify_call(c);
	else if (as == ARRIVED_AWAITED)
		waitset_notify(c->waitset, WAITSET_ANY);
	else if (c->ledger) {
		notify_announce(c);
		/* This, too, has to follow the fence in notify_announce(). */
		if (op)
			eager_follow(c, op);
	}
}

/* ---- submit_eager ---- */

/*
 * A name that submit_eager() carries out keeps its id between operations, which saves a hold
 * and a drop each time.  The ids that all ranks together may keep leave half of all ids to
 * other names; a rank at its limit lets go of the id that it has kept longest.
 */
static bool entry_keep(struct comm *c, struct name_entry *t)
{
	uint32_t most = LEDGER_IDS / 2 / (uint32_t)c->topo.size;
	struct name_entry **place, *was;

	if (!most)
		return false;
	place = &c->kept[c->keeps % (most < COMM_KEPT ? most : COMM_KEPT)];
	was = *place;
	if (was && __atomic_load_n(&was->op, __ATOMIC_ACQUIRE))
		return false;
	if (!ledger_keep(c->ledger, t->id, t->age))
		return false;
	if (was) {
		ledger_let_go(c->ledger, was->id);
		was->kept = was->repeats = false;
	}
	*place = t;
	c->keeps++;
	t->kept = true;
	return true;
}

/* Does @r repeat the last operation of @t, and may it be eager?  c->lock is held. */
static bool entry_is_usual(struct comm *c, struct name_entry *t, const struct request *r)
{
	return t && !__atomic_load_n(&t->op, __ATOMIC_ACQUIRE) && t->verified &&
	       op_signature_equal(&t->signature, &r->signature) && eager_may(c, r) &&
	       (t->kept || entry_keep(c, t));
}

/* Marks the entry of @r as having an operation and returns it; NULL if nothing has happened. */
static struct name_entry *eager_take(struct comm *c, const struct request *r,
				     struct eager_round *round)
{
	struct name_entry *t;

	lock_take(&c->lock);
	t = over_comm(c, NULL) || __atomic_load_n(&c->joined, __ATOMIC_RELAXED)
		    ? NULL
		    : entry_for(c, r, NULL);
	if (entry_is_usual(c, t, r) && eager_begin(c, t->id, r, round)) {
		__atomic_store_n(&t->op, &alone, __ATOMIC_RELAXED);
		t->repeats =
			r->signature.kind == PLAN_ALLREDUCE && r->signature.digest == OP_ALL;
		c->unnamed += !r->name;
	} else {
		t = NULL;
	}
	lock_give(&c->lock);
	return t;
}

/* A rank is late: make it an operation in flight like any other. */
static __attribute__((noinline)) int defer_eager(struct comm *c, const struct request *r,
						 struct name_entry *t, uint32_t round,
						 struct ringup_op **opp, struct err *e)
{
	struct ringup_op *op;
	int rc;

	/* On failure the published slot still serves the other ranks' round. */
	lock_take(&c->lock);
	op = op_new(c);
	rc = op ? 0 : op_no_memory(e);
	__atomic_store_n(&t->op, op, __ATOMIC_RELEASE);
	if (op) {
		ledger_use(c->ledger, t->id);
		op->entry = t;
		op->id = t->id;
		op->round = round;
		op_enter(c, op, r, NULL);
		rc = op_copy_lists(c, op, e);
		if (rc)
			op_take_back(c, op);
	}
	if (!rc) {
		__atomic_store_n(&op->eager, true, __ATOMIC_RELEASE);
		__atomic_fetch_add(&c->eager_count, 1, __ATOMIC_RELAXED);
		/* The thread that failed the others after a rank left did not see it. */
		__atomic_store_n(&c->over, false, __ATOMIC_RELAXED);
	}
	lock_give(&c->lock);
	*opp = op;
	return rc;
}

struct round_wait {
	struct comm *c;
	uint32_t id, round;
	int rank; /* the missing one; < 0: see eager_missing() */
};

static bool round_is_complete(void *arg)
{
	struct round_wait *wait = arg;

	wait->rank = eager_missing(wait->c, wait->id, wait->round);
	return wait->rank < 0;
}

/* Spins for longer; returns what eager_missing() does. */
static __attribute__((noinline)) int round_linger(struct comm *c, const struct eager_round *t,
						  int missing)
{
	struct round_wait wait = { c, t->id, t->number, missing };

	waitset_spin(c->waitset, &wait.rank, round_is_complete, &wait);
	return wait.rank;
}

/* Waits for the other ranks' slots, this rank's being written; returns as eager_missing(). */
static inline int round_meet(struct comm *c, const struct eager_round *t,
			     const struct op_signature *s)
{
	int missing;

	/* First, before the fence in notify_announce() has other stores to wait for; meanwhile
	 * the other ranks write their slots, which then need no second look. */
	notify_announce(c);
	eager_slot_fetch(c, t, s);
	missing = eager_spin(c, t);
	return missing >= 0 ? round_linger(c, t, missing) : missing;
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

/* Does @a ask for the sum with signature @s?  Then only its buffers have to be checked. */
static bool signature_is_same(const struct op_signature *s, const struct ringup_reduce *a)
{
	if (s->count != a->count || s->dtype != (int)a->dtype || s->redop != (int)a->redop ||
	    s->memory != (unsigned int)a->memory || a->stream || s->dims != a->dims ||
	    !is_same_factor(a->pre, s->pre) || !is_same_factor(a->post, s->post))
		return false;
	/* The last dimension may represent several. */
	if (s->dims && (s->dims == OP_SIGNATURE_DIMS || !a->shape))
		return false;
	for (int i = 0; i < s->dims; i++)
		if (s->shape[i] != a->shape[i])
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
static struct name_entry *repeat_take(struct comm *c, const struct ringup_reduce *a,
				      struct eager_round *round)
{
	struct name_entry *t;

	lock_take(&c->lock);
	t = a->name ? name_table_again(&c->names, a->name) : NULL;
	if (!t || !t->repeats || !t->verified || __atomic_load_n(&t->op, __ATOMIC_ACQUIRE) ||
	    !signature_is_same(&t->signature, a) ||
	    __atomic_load_n(&c->joined, __ATOMIC_RELAXED) || !over_not_yet(c))
		goto out;
	round->bytes = a->count * reduce_dtype_bytes(a->dtype);
	if (!buffers_are_apart(a->in, a->out, round->bytes))
		goto out;
	round->id = t->id;
	round->when = 0;
	round->number = ledger_begin(c->ledger, t->id);
	round->at = ledger_slots(c->ledger, t->id, round->number);
	__atomic_store_n(&t->op, &alone, __ATOMIC_RELAXED);
	lock_give(&c->lock);
	return t;
out:
	lock_give(&c->lock);
	return NULL;
}

/* As defer_eager(). */
static __attribute__((noinline)) int defer_repeat(struct comm *c, const struct ringup_reduce *a,
						  struct name_entry *t, uint32_t round,
						  struct ringup_op **opp)
{
	struct request r;

	request_init(&r, a->name, a->in, a->out);
	r.signature = t->signature;
	return defer_eager(c, &r, t, round, opp, NULL);
}

int submit_repeat(struct comm *c, const struct ringup_reduce *a, struct ringup_op **opp)
{
	struct eager_round round;
	struct name_entry *t;
	int missing;

	*opp = NULL;
	t = engine_is_mine(c->engine) ? repeat_take(c, a, &round) : NULL;
	if (!t)
		return 0;
	callers_note(&c->engine->callers);
	if (tracepoint_on(c))
		tracepoint_short(c, t, NULL, &round);
	eager_slot_put(c, &round, &t->signature, a->in);
	missing = round_meet(c, &round, &t->signature);
	if (missing != -1)
		return defer_repeat(c, a, t, round.number, opp);
	eager_slot_sum(c, &round.at, &t->signature, a->in, a->out);
	if (tracepoint_on(c))
		tracepoint_finished(c, t, &round, 0, NULL);
	__atomic_store_n(&t->op, NULL, __ATOMIC_RELEASE);
	return 1;
}

int submit_eager(struct comm *c, const struct request *r, struct ringup_op **opp, struct err *e)
{
	struct eager_round round;
	struct name_entry *t = eager_take(c, r, &round);
	int rc, missing;

	*opp = NULL;
	if (!t)
		return 0;
	if (tracepoint_on(c))
		tracepoint_short(c, t, r, &round);
	eager_slot_write(c, &round, r);
	missing = round_meet(c, &round, &r->signature);
	if (missing != -1)
		return defer_eager(c, r, t, round.number, opp, e);
	rc = eager_slot_finish(c, &round.at, r, e);
	if (tracepoint_on(c))
		tracepoint_finished(c, t, &round, rc, r->counts);
	__atomic_store_n(&t->op, NULL, __ATOMIC_RELEASE);
	return rc ? rc : 1;
}
