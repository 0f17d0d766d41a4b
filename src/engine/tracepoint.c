/* tracepoint.c - the trace points of an operation, for timelines and flight recorders. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tracepoint.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/kinds.h"
#include "engine/ledger.h"
#include "engine/op_state.h"
#include "ringup.h"
#include "wire/ranks.h"

static const struct trace *trace_of(const struct comm *c)
{
	return &c->engine->trace;
}

/* ---- names ---- */

static enum trace_kind kind_of(const struct op_signature *s)
{
	if (s->kind == PLAN_ALLREDUCE && s->redop == RINGUP_ADASUM)
		return TRACE_ADASUM;
	if (s->kind < PLAN_KINDS)
		return (enum trace_kind)s->kind;
	return s->kind == OP_JOIN ? TRACE_JOIN : TRACE_ALLREDUCE;
}

/* The kind of a bundle is that of its first member, which a joined rank does not know. */
static enum trace_kind kind_asked(const struct request *r)
{
	if (r->signature.kind == OP_BUNDLE && r->members)
		return kind_of(&r->members[0].signature);
	if (r->signature.kind == OP_BUNDLE && r->copies)
		return kind_of(&r->copies->ask.signature);
	return kind_of(&r->signature);
}

/* The operation in the name of a request without one, as in Horovod.  All ranks that know @s,
 * joined ones too, know that it is a bundle, but not all know its members. */
static const char *prefix_of(const struct op_signature *s)
{
	return s->kind == OP_BUNDLE ? "grouped"
	       : s->kind == OP_JOIN ? "join"
				    : collective_word(s->kind);
}

/* Has the engine, not the program, named @name, by a number that any operation may get? */
static bool is_unnamed(const char *name, size_t len)
{
	return len > 2 && !*name;
}

/* Enters a name; the engine's own names are shown as Horovod shows its own. */
static uint32_t tracepoint_enter(const struct comm *c, const char *name, size_t len,
				 const struct op_signature *s)
{
	char text[48];

	if (len && *name > 1)
		return trace_label(trace_of(c), c->serial, name, len);
	if (is_unnamed(name, len))
		snprintf(text, sizeof(text), "%s.noname.%.16s", prefix_of(s), name + 2);
	else
		snprintf(text, sizeof(text), "%.16s.noname", len > 1 ? name + 1 : "");
	return trace_label(trace_of(c), c->serial, text, strlen(text));
}

/* The label, kept in @kept, of the back end or path @name, in capitals. */
static uint32_t label_of(const struct comm *c, uint32_t *kept, const char *name)
{
	uint32_t label = __atomic_load_n(kept, __ATOMIC_RELAXED);
	char text[16];
	size_t i;

	if (label)
		return label;
	for (i = 0; name[i] && i < sizeof(text); i++)
		text[i] = (char)toupper((unsigned char)name[i]);
	label = trace_label(trace_of(c), 0, text, i);
	__atomic_store_n(kept, label, __ATOMIC_RELAXED);
	return label;
}

/* The trace's set of the ranks of this host, by their places in its ledger; or -1. */
static int local_ranks(struct comm *c)
{
	const struct topo *t = &c->topo;
	int set = __atomic_load_n(&c->local_set, __ATOMIC_RELAXED) - 1, r, n = 0, *ranks;

	if (set >= 0)
		return set;
	ranks = calloc((size_t)t->size, sizeof(*ranks));
	if (!ranks)
		return -1;
	for (r = 0; r < t->size; r++)
		if (!t->host_of || t->host_of[r] == t->host)
			ranks[n++] = ranks_in_world(c->ranks, r);
	set = trace_ranks(trace_of(c), ranks, n);
	free(ranks);
	__atomic_store_n(&c->local_set, set + 1, __ATOMIC_RELAXED);
	return set;
}

/* ---- submitted ---- */

/* The shape of the result.  *@leads: its rows come first, and are known only at the end. */
static int shape_of(const struct comm *c, const struct op_signature *s, uint64_t *shape,
		    bool *leads)
{
	uint64_t size = (uint64_t)c->topo.size, rank = (uint64_t)c->topo.rank;
	bool parts; /* each rank gets some of the rows */
	int dims = 0;

	*leads = collective_is(s->kind, COLLECTIVE_GROWS);
	parts = !*leads && collective_is(s->kind, COLLECTIVE_PARTS);
	if (parts)
		shape[dims++] = s->digest / size + (rank < s->digest % size);
	for (int i = 0; i < s->dims && i < OP_SIGNATURE_DIMS && dims < TRACE_DIMS; i++)
		shape[dims++] = s->shape[i];
	/* The caller gave no shape: the elements, of a row if there are rows. */
	if (!s->dims && parts)
		shape[dims++] = s->digest ? s->count / s->digest : 0;
	else if (!s->dims && (!*leads || s->count != 1))
		shape[dims++] = s->count;
	return dims;
}

static void tell_shape(const struct comm *c, const struct name_entry *t,
		       const struct op_signature *s, int64_t ns)
{
	bool leads = false, has = s->kind < PLAN_KINDS && s->kind != PLAN_BARRIER;
	uint64_t shape[TRACE_DIMS + 1] = { 0 };
	int dims = has ? shape_of(c, s, shape, &leads) : 0, i;
	struct trace_record r = { .ns = ns,
				  .label = t->label,
				  .what = TRACE_SHAPE,
				  .kind = has ? s->dtype : DTYPE_COUNT };

	for (i = 0; i == 0 || i < dims; i += 2) {
		r.arg = record_shape(dims, i, leads);
		r.word[0] = shape[i];
		r.word[1] = shape[i + 1];
		trace_put(trace_of(c), &r);
	}
}

static void tell_submitted(struct comm *c, struct name_entry *t, const struct op_signature *s,
			   enum trace_kind kind, uint32_t round, int64_t ns)
{
	struct trace_record r = {
		.ns = ns, .what = TRACE_SUBMITTED, .kind = (uint8_t)kind, .word = { round }
	};
	uint32_t session = trace_session(trace_of(c));
	bool writes = trace_writes(trace_of(c));

	/* A request without a name may be of another kind than the last one with its number, so
	 * the label is entered again with each new shape. */
	if (!t->label || (writes && t->reported != session && is_unnamed(t->name, t->len)))
		t->label = tracepoint_enter(c, t->name, t->len, s);
	if (writes && t->reported != session) {
		t->reported = session;
		tell_shape(c, t, s, ns);
	}
	r.label = t->label;
	r.rank[3] = (int32_t)trace_number(&c->engine->trace);
	trace_put(trace_of(c), &r);
}

void tracepoint_submitted(struct comm *c, struct name_entry *t, const struct request *r)
{
	uint32_t round = c->ledger ? ledger_round(c->ledger, t->id) + 1 : 0;

	tell_submitted(c, t, &r->signature, kind_asked(r), round, clock_ns());
}

void tracepoint_short(struct comm *c, struct name_entry *t, const struct request *r,
		      struct eager_round *round)
{
	round->when = clock_ns();
	tell_submitted(c, t, &t->signature, r ? kind_asked(r) : kind_of(&t->signature),
		       round->number, round->when);
}

/* ---- ready ---- */

/* Records when each rank of this host was ready; @of returns the time, 0 if it is unknown. */
static void tell_ticks(struct comm *c, uint32_t label, int64_t ns,
		       int64_t (*of)(const struct comm *c, const void *arg, int rank),
		       const void *arg)
{
	bool writes = trace_writes(trace_of(c));
	int n = c->ledger ? c->ledger->ranks : 1, set = writes && n > 1 ? local_ranks(c) : -1;
	struct trace_record r = { .ns = ns, .label = label, .what = TRACE_TICKS };
	int64_t when;

	if (set < 0)
		return;
	r.arg = (uint16_t)set;
	for (int i = 0; i < n && i < TRACE_FOUR * UINT8_MAX; i += TRACE_FOUR) {
		r.kind = (uint8_t)(i / TRACE_FOUR);
		for (int k = 0; k < TRACE_FOUR; k++) {
			/* This rank's submission has its own record.  Its slot is not read:
			 * the cache line may be with another processor. */
			when = i + k < n && i + k != c->ledger->rank ? of(c, arg, i + k) : 0;
			r.ago[k] = when <= 0 ? -1 : when < ns ? (float)(ns - when) : 0;
		}
		trace_put(trace_of(c), &r);
	}
}

static int64_t by_record(const struct comm *c, const void *id, int rank)
{
	return ledger_record_when(c->ledger, *(const uint32_t *)id, rank);
}

void tracepoint_ready(struct comm *c, int count)
{
	struct trace_record r = { .ns = clock_ns(), .word = { (uint64_t)c->topo.size } };
	struct ringup_op *op;

	if (trace_on(trace_of(c)) & TRACE_CYCLES) {
		r.what = TRACE_CYCLE;
		trace_put(trace_of(c), &r);
	}
	r.what = TRACE_READY;
	for (int i = 0; i < count; i++) {
		op = comm_op(c, &c->items[i]);
		if (!op || !op->entry->label)
			continue;
		r.label = op->entry->label;
		r.arg = c->items[i].bad != NULL;
		tell_ticks(c, r.label, r.ns, by_record, &c->items[i].id);
		trace_put(trace_of(c), &r);
	}
}

void tracepoint_arrived(void *comm, uint32_t id, const struct op_signature *s, const int *ranks,
			int count)
{
	struct comm *c = comm;
	struct trace_record r = { .what = TRACE_ARRIVED, .kind = (uint8_t)kind_of(s) };
	const char *name;
	int i = 0;

	if (!trace_writes(trace_of(c)))
		return;
	name = ledger_name(c->ledger, id);
	/* The name of an unnamed request begins with a NUL. */
	r.label = tracepoint_enter(c, name, *name ? strlen(name) : 1 + strlen(name + 1), s);
	r.ns = clock_ns();
	while (i < count) {
		/* Ranks of a host are mostly neighbours. */
		for (int k = 0; k < 4; k += 2) {
			r.rank[k] = i < count ? ranks_in_world(c->ranks, ranks[i++]) : -1;
			r.rank[k + 1] = r.rank[k];
			while (r.rank[k] >= 0 && i < count &&
			       ranks_in_world(c->ranks, ranks[i]) == r.rank[k + 1] + 1) {
				r.rank[k + 1]++;
				i++;
			}
		}
		trace_put(trace_of(c), &r);
	}
}

/* ---- carried out ---- */

void tracepoint_begin(struct comm *c, struct run *run)
{
	struct trace_record r = { .ns = clock_ns(),
				  .what = TRACE_BEGIN,
				  .arg = (uint16_t)(run->provider ? run->plan.pieces : 1) };
	const struct ringup_op *op, *last = NULL;

	if (!run->op_count)
		return;
	r.word[0] = run->provider ? run->plan.count * reduce_dtype_bytes(run->plan.dtype)
				  : op_signature_bytes(&run->ops[0]->ask.signature);
	r.rank[2] = (int32_t)(run->provider ? label_of(c, &run->provider->label,
						       run->provider->backend->name)
					    : label_of(c, &c->inlined, "inline"));
	r.rank[3] = (int32_t)++c->plans;
	for (int i = 0; i < run->op_count; i++) {
		op = run->ops[i]->bundle ? run->ops[i]->bundle : run->ops[i];
		if (op == last || !op->entry->label)
			continue;
		last = op;
		r.label = op->entry->label;
		trace_put(trace_of(c), &r);
	}
}

void tracepoint_end(struct comm *c, const struct run *run)
{
	struct trace_record r = { .ns = clock_ns(), .what = TRACE_END };

	if (!run->op_count || !run->ops[0]->bundle)
		return;
	r.label = run->ops[0]->bundle->entry->label;
	if (r.label)
		trace_put(trace_of(c), &r);
}

/* ---- messages ---- */

static uint32_t enter_message(const struct comm *c, const struct p2p_op *m)
{
	char other[24] = "any rank", text[64];

	if (m->peer >= 0)
		snprintf(other, sizeof(other), "rank %d", trace_rank(trace_of(c), m->peer));
	snprintf(text, sizeof(text), "%s %s, tag %d", m->is_send ? "send to" : "receive from",
		 other, m->tag);
	return trace_label(trace_of(c), c->serial, text, strlen(text));
}

void tracepoint_message(struct ringup_op *op)
{
	struct comm *c = op->comm;
	const struct p2p_op *m = &op->p2p;
	struct trace_record r = { .ns = clock_ns(),
				  .what = TRACE_MESSAGE,
				  .kind = m->is_send ? TRACE_SEND : TRACE_RECV,
				  .arg = op->ask.signature.dtype };

	if (trace_writes(trace_of(c)))
		op->p2p.label = enter_message(c, m);
	op->p2p.number = trace_number(&c->engine->trace);
	r.label = m->label;
	r.word[0] = op->ask.signature.count;
	r.rank[3] = (int32_t)m->number;
	trace_put(trace_of(c), &r);
}

void tracepoint_matched(const struct ringup_op *op, int rank, const char *way)
{
	uint32_t kept = 0;
	struct trace_record r = { .what = TRACE_MATCHED,
				  .label = op->p2p.label,
				  .arg = way == NULL,
				  .rank = { rank, 0, 0, (int32_t)op->p2p.number } };

	if (!op->p2p.number)
		return;
	if (way && r.label)
		r.rank[2] = (int32_t)label_of(op->comm, &kept, way);
	r.ns = clock_ns();
	trace_put(trace_of(op->comm), &r);
}

static void tell_moved(const struct ringup_op *op, int status)
{
	struct trace_record r = { .what = TRACE_MOVED,
				  .label = op->p2p.label,
				  .arg = status != 0,
				  .rank = { 0, 0, 0, (int32_t)op->p2p.number } };

	if (!op->p2p.number)
		return;
	r.ns = clock_ns();
	trace_put(trace_of(op->comm), &r);
}

/* ---- complete ---- */

static uint64_t rows_of(const struct comm *c, const struct op_signature *s,
			const uint64_t *counts)
{
	uint64_t rows = 0;

	if (!collective_is(s->kind, COLLECTIVE_GROWS) || !counts)
		return 0;
	for (int i = 0; i < c->topo.size; i++)
		rows += counts[i];
	return rows;
}

struct round {
	struct eager_slots at;
	bool gathers;
};

static int64_t by_line(const struct comm *c, const void *arg, int rank)
{
	const struct round *r = arg;

	(void)c;
	return ledger_published_when(&r->at, rank, r->gathers);
}

static void tell_finished(struct comm *c, const struct name_entry *t,
			  const struct eager_slots *at, const struct op_signature *s,
			  int status, const uint64_t *counts)
{
	struct round round = { *at, collective_is(s->kind, COLLECTIVE_TELLS) };
	struct trace_record r = {
		.ns = clock_ns(), .label = t->label, .what = TRACE_FINISHED, .arg = status != 0
	};

	if (!r.label)
		return;
	if (!status)
		tell_ticks(c, r.label, r.ns, by_line, &round);
	r.word[0] = status ? 0 : rows_of(c, s, counts);
	r.rank[2] = (int32_t)label_of(c, &c->eager, "eager");
	r.rank[3] = c->topo.size;
	trace_put(trace_of(c), &r);
}

void tracepoint_finished(struct comm *c, const struct name_entry *t,
			 const struct eager_round *round, int status, const uint64_t *counts)
{
	tell_finished(c, t, &round->at, &t->signature, status, counts);
}

void tracepoint_complete(const struct ringup_op *op, int status)
{
	struct comm *c = op->comm;
	const struct op_signature *s = &op->ask.signature;
	struct trace_record r = { .what = TRACE_COMPLETE, .arg = status != 0 };
	struct eager_slots at;

	if (!op->entry) {
		tell_moved(op, status);
		return;
	}
	r.label = op->entry->label;
	if (!r.label)
		return;
	if (op_is_eager(op) && !status) {
		at = ledger_slots(c->ledger, op->id, op->round);
		tell_finished(c, op->entry, &at, s, 0, op->ask.counts);
		return;
	}
	r.ns = clock_ns();
	r.word[0] = status ? 0 : rows_of(c, s, op->ask.counts);
	trace_put(trace_of(c), &r);
}
