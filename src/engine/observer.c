/* observer.c - fills the observation page of this rank (wire/observe.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/callers.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/engine_state.h"
#include "engine/heartbeat.h"
#include "engine/ledger.h"
#include "engine/op.h"
#include "engine/op_text.h"
#include "engine/p2p.h"
#include "engine/stall.h"
#include "engine/submit.h"
#include "ringup.h"
#include "wire/observe.h"
#include "wire/ranks.h"

void observer_meet(struct observe *o, const struct engine *g,
		   const struct heartbeat_peer *peers, const int *as)
{
	struct observe_page *p = o->page;
	const struct topo *t;

	if (!p)
		return;
	t = &comms_at(g, 0)->topo;
	if (t->size > OBSERVE_RANKS)
		return;
	observe_begin(o);
	p->rank = t->rank;
	p->size = t->size;
	p->local_size = t->local_size;
	p->hosts = t->hosts;
	for (int r = 0; r < t->size; r++) {
		o->peers[r] =
			(struct observe_peer){ .pid = peers[r].pid, .as = as ? as[r] : r };
		snprintf(o->peers[r].host, sizeof(o->peers[r].host), "%s", peers[r].host);
	}
	memcpy(p->host, o->peers[t->rank].host, sizeof(p->host));
	observe_end(o);
	observe_enter(o, OBSERVE_RUNNING);
}

/* The findings of one look: gathered first, then copied, so that the page is not odd for long.
 */
struct sight {
	struct engine *g;
	struct stall *stall;
	int64_t now_ns;
	uint64_t operations, bytes, messages; /* more than before */
	bool waits;                           /* a thread of this rank is blocked */
	int count, more, records;
	struct observe_wait wait[OBSERVE_WAITS];
	struct observe_record record[OBSERVE_RECORDS]; /* new ones */
};

/* Is a thread that has started operations blocked in @op?  Without any such thread a framework
 * waits, by a callback. */
static bool is_awaited(const struct callers *s, const struct ringup_op *op)
{
	uint32_t count = __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count && i < CALLERS; i++)
		if (__atomic_load_n(&s->of[i].op, __ATOMIC_ACQUIRE) == op &&
		    __atomic_load_n(&s->of[i].use, __ATOMIC_RELAXED) == op->use)
			return true;
	return __atomic_load_n(&op->callback, __ATOMIC_ACQUIRE) != NULL;
}

/* The place for a wait since @since_ns; NULL: all places have older ones. */
static struct observe_wait *wait_place(struct sight *x, int64_t since_ns)
{
	struct observe_wait *youngest = &x->wait[0];

	if (x->count < OBSERVE_WAITS)
		return &x->wait[x->count++];
	x->more++;
	for (int i = 1; i < OBSERVE_WAITS; i++)
		if (x->wait[i].since_ns > youngest->since_ns)
			youngest = &x->wait[i];
	return youngest->since_ns > since_ns ? youngest : NULL;
}

/* Counts the ranks of this host that have begun @op, and lists those that have not. */
static void list_missing(const struct comm *c, const struct ringup_op *op,
			 struct observe_wait *w)
{
	for (int r = 0; r < c->topo.size; r++) {
		if (!comm_is_here(c, r))
			continue;
		if (op_has_begun(c, op, r)) {
			w->waiting++;
			continue;
		}
		if (w->missing < OBSERVE_MISSING)
			w->who[w->missing] = ranks_in_world(c->ranks, r);
		w->missing++;
	}
	if (c->topo.hosts == 1)
		w->flags |= OBSERVE_ALL;
}

static void see_op(struct sight *x, const struct comm *c, struct ringup_op *op)
{
	struct observe_wait *w;
	char what[OP_TEXT_WHAT];
	bool awaited;

	if (op->proxy || __atomic_load_n(&op->state, __ATOMIC_ACQUIRE) != OP_FLYING)
		return;
	/* stall.c does so for the operations at which it looks. */
	if (!op->since_ns)
		op->since_ns = x->now_ns;
	awaited = is_awaited(&x->g->callers, op);
	x->waits |= awaited;
	w = wait_place(x, op->since_ns);
	if (!w)
		return;
	*w = (struct observe_wait){ .comm = c->serial,
				    .since_ns = op->since_ns,
				    .number = op->round,
				    .flags = awaited ? OBSERVE_AWAITED : 0,
				    .peer = -1,
				    .size = c->topo.size };
	if (op->entry) {
		snprintf(w->what, sizeof(w->what), "%s",
			 op_text_what(op->ask.signature.kind, op_text_name(op), what));
		list_missing(c, op, w);
		return;
	}
	w->flags |= OBSERVE_MESSAGE;
	w->peer = op->p2p.peer;
	op_text_message(&op->p2p, &op->ask.signature, w->what, sizeof(w->what));
}

/* Adds what has begun since the last look; c->lock is held. */
static void count_rounds(struct sight *x, struct comm *c)
{
	const struct name_entry *t;
	uint32_t now, more;

	if (!c->counted)
		c->counted = calloc(LEDGER_IDS, sizeof(*c->counted));
	for (uint32_t id = 0; c->counted && c->ledger && id < c->names.ids && id < LEDGER_IDS;
	     id++) {
		now = ledger_round(c->ledger, id);
		more = now - c->counted[id];
		if (!more)
			continue;
		c->counted[id] = now;
		x->operations += more;
		t = name_table_by_id(&c->names, id);
		if (t)
			x->bytes += more * op_signature_bytes(&t->signature);
	}
	x->messages += c->messages;
	c->messages = 0;
}

/* Of the rounds of @id that this rank has begun, this many are among the last @n. */
static uint32_t count_later(const uint32_t *ids, uint32_t n, uint32_t id)
{
	uint32_t later = 0;

	for (uint32_t i = 0; i < n; i++)
		later += ids[i] == id;
	return later;
}

static struct observe_record *record_place(struct sight *x)
{
	if (x->records == OBSERVE_RECORDS)
		memmove(&x->record[0], &x->record[1],
			(size_t)--x->records * sizeof(x->record[0]));
	return &x->record[x->records++];
}

/* Lists the operations that have begun since the last look, as far as they are known; c->lock
 * is held. */
static void see_recent(struct sight *x, struct comm *c)
{
	struct ledger *l = c->ledger;
	uint32_t all = l ? __atomic_load_n(&l->recents, __ATOMIC_ACQUIRE) : 0;
	uint32_t n = all - c->recorded, ids[LEDGER_RECENT];
	const struct name_entry *t;
	char what[OP_TEXT_WHAT];

	c->recorded = all;
	n = n < LEDGER_RECENT ? n : LEDGER_RECENT;
	for (uint32_t i = 0; i < n; i++)
		ids[i] = __atomic_load_n(&l->recent[(all - n + i) % LEDGER_RECENT],
					 __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < n; i++) {
		struct observe_record *r;

		t = ids[i] < c->names.ids ? name_table_by_id(&c->names, ids[i]) : NULL;
		if (!t)
			continue;
		r = record_place(x);
		*r = (struct observe_record){
			.comm = c->serial,
			.at_ns = x->now_ns,
			.number = ledger_round(l, ids[i]) -
				  count_later(ids + i + 1, n - i - 1, ids[i]),
		};
		snprintf(r->what, sizeof(r->what), "%s",
			 op_text_what(t->signature.kind, op_text_entry(t), what));
	}
}

static void see_comm(struct comm *c, void *arg)
{
	struct sight *x = arg;
	struct ringup_op *op;

	/* The holder may wait for a frozen rank: the next look sees what this one misses. */
	if (!lock_try(&c->lock))
		return;
	count_rounds(x, c);
	see_recent(x, c);
	x->waits |= submit_any_eager(c);
	for (op = c->flying; op; op = op->next)
		see_op(x, c, op);
	lock_give(&c->lock);
	/* The root of a group of several hosts also knows what other hosts report. */
	if (c->topo.hosts > 1 && c->topo.rank == 0 && x->count < OBSERVE_WAITS)
		x->count += stall_reported(x->stall, c, x->now_ns, x->wait + x->count,
					   OBSERVE_WAITS - x->count);
}

/* The ranks that are missing from the oldest operation. */
static void count_waited(struct observe *o, const struct sight *x)
{
	const struct observe_wait *oldest = NULL;

	for (int i = 0; i < x->count; i++)
		if ((x->wait[i].flags & OBSERVE_AWAITED) &&
		    (!oldest || x->wait[i].since_ns < oldest->since_ns))
			oldest = &x->wait[i];
	if (!oldest)
		return;
	if ((oldest->flags & OBSERVE_MESSAGE) && oldest->peer >= 0)
		o->peers[oldest->peer].waited_for++;
	for (int i = 0; i < oldest->missing && i < OBSERVE_MISSING; i++)
		o->peers[oldest->who[i]].waited_for++;
}

/* The newest records push the oldest out. */
static void add_records(struct observe_page *p, const struct sight *x)
{
	int keep = OBSERVE_RECORDS - x->records;

	keep = keep < p->records ? keep : p->records;
	memmove(&p->record[0], &p->record[p->records - keep],
		(size_t)keep * sizeof(p->record[0]));
	memcpy(&p->record[keep], x->record, (size_t)x->records * sizeof(x->record[0]));
	p->records = keep + x->records;
}

void observer_look(struct observe *o, struct engine *g, struct stall *s, int64_t now_ns)
{
	struct observe_page *p = o->page;
	struct sight x = { .g = g, .stall = s, .now_ns = now_ns };

	if (!p || __atomic_load_n(&p->phase, __ATOMIC_ACQUIRE) != OBSERVE_RUNNING)
		return;
	comms_visit(g, see_comm, &x);
	observe_begin(o);
	p->updated_ns = now_ns;
	if (x.operations || x.messages || !p->last_ns)
		p->last_ns = now_ns;
	p->operations += x.operations;
	p->bytes_moved += x.bytes;
	p->messages += x.messages;
	p->samples++;
	p->waited += x.waits;
	p->waits = x.count;
	p->more = x.more;
	memcpy(p->wait, x.wait, (size_t)x.count * sizeof(x.wait[0]));
	count_waited(o, &x);
	add_records(p, &x);
	observe_end(o);
}
