/* p2p.c - point-to-point messages: start, cancel, make progress, leave. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/comm.h"
#include "engine/engine_state.h"
#include "engine/liveness.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/over.h"
#include "engine/p2p_state.h"
#include "engine/tree.h"
#include "ringup.h"
#include "wire/cma.h"
#include "wire/ranks.h"
#include "wire/waitset.h"

enum { RELAY_MS = 5 }; /* between two looks for invitations to pass on */

void p2p_lock(struct p2p *x)
{
	pthread_mutex_lock(&x->lock);
}

/* Wakes threads whose operation is complete, and ends the job if a failure was noted. */
void p2p_unlock(struct p2p *x)
{
	struct engine *g = x->engine;
	bool completed = x->completed;
	struct err trouble;

	trouble.code = x->trouble.code;
	if (trouble.code)
		trouble = x->trouble;
	x->completed = false;
	x->trouble.code = 0;
	pthread_mutex_unlock(&x->lock);
	if (completed) {
		notify_completed(g);
		waitset_notify_asleep(g->waitset, g->waitset->me);
	}
	if (trouble.code)
		notify_alarm(g, -1, trouble.code, trouble.text);
}

/* Notes a failure that ends the job: the first counts. */
void p2p_fail(struct p2p *x, const struct err *e)
{
	if (!x->trouble.code)
		x->trouble = *e;
}

void p2p_fail_memory(struct p2p *x)
{
	struct err e;

	fail(&e, RINGUP_ENOMEM, "rank %d: no memory for a message between two ranks",
	     x->topo->rank);
	p2p_fail(x, &e);
}

void p2p_fail_peer(struct p2p *x, const struct p2p_peer *p, const char *why)
{
	struct err e;

	fail(&e, RINGUP_EPEER, "rank %d sent rank %d an invalid message: %s", p->rank,
	     x->topo->rank, why);
	p2p_fail(x, &e);
}

/* ---- peers ---- */

struct p2p_peer *p2p_peer_of(struct p2p *x, int rank)
{
	const struct topo *t = x->topo;
	bool is_here = !t->host_of || t->host_of[rank] == t->host;
	struct p2p_peer *p = x->peer[rank];

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->rank = rank;
	p->place = !is_here ? -1 : t->local_of ? t->local_of[rank] : rank;
	p->fd[0] = p->fd[1] = p->output = p->input = -1;
	p->credit = P2P_CREDIT_BYTES;
	x->peer[rank] = p;
	__atomic_store_n(&x->used, true, __ATOMIC_RELEASE);
	return p;
}

/* ---- ranks that leave ---- */

static int fail_left(const struct p2p *x, struct err *e, int rank)
{
	bool cut = x->peer[rank]->cut;
	int rc = fail(e, RINGUP_ESHUTDOWN, "rank %d has left the job%s", rank,
		      cut ? ", or a rank on the way to it has" : "");

	if (!cut)
		over_blame(x->engine, rank, e);
	return rc;
}

void p2p_op_end_left(struct p2p *x, struct ringup_op *op, int rank)
{
	struct err why;

	if (!op_claim(op))
		return;
	fail_left(x, &why, rank);
	op_fail_in(op, &why);
	x->completed = true;
}

static void queue_end_left(struct p2p *x, struct p2p_queue *q, int rank)
{
	struct ringup_op *op;

	while ((op = p2p_queue_pop(q)))
		p2p_op_end_left(x, op, rank);
}

/* Have all other ranks of the group of @c left? */
static bool is_alone(const struct p2p *x, const struct comm *c)
{
	int rank;

	for (int r = 0; r < c->topo.size; r++) {
		rank = ranks_in_world(c->ranks, r);
		if (rank != x->topo->rank && !(x->peer[rank] && x->peer[rank]->gone))
			return false;
	}
	return c->topo.size > 1;
}

/* @p has left, and all that it had sent is here: ends the operations with it. */
void p2p_peer_end(struct p2p *x, struct p2p_peer *p)
{
	struct ringup_op *op, *next;

	p->gone = true;
	p->answer_at = p->answers = 0;
	queue_end_left(x, &p->sends, p->rank);
	queue_end_left(x, &p->offered, p->rank);
	queue_end_left(x, &p->streams, p->rank);
	queue_end_left(x, &p->taken, p->rank);
	if (p->out.op)
		p2p_op_end_left(x, p->out.op, p->rank);
	p->out.op = NULL;
	for (op = x->fetching.first; op; op = next) {
		next = op->p2p.next;
		if (op->p2p.source != p->rank)
			continue;
		p2p_queue_remove(&x->fetching, op);
		p2p_op_end_left(x, op, p->rank);
	}
	p2p_set_fetches(x);
	for (op = x->posted.first; op; op = next) {
		next = op->p2p.next;
		if (op->p2p.peer != p->rank &&
		    (op->p2p.peer != P2P_ANY || !is_alone(x, op->comm)))
			continue;
		p2p_queue_remove(&x->posted, op);
		p2p_op_end_left(x, op, p->rank);
	}
}

/* Connects to all ranks of the group, to detect when each leaves; ranks that left refuse. */
static void expect_all(struct p2p *x, const struct comm *c)
{
	struct p2p_peer *p;

	for (int r = 0; r < c->topo.size; r++) {
		p = p2p_peer_of(x, ranks_in_world(c->ranks, r));
		if (!p)
			p2p_fail_memory(x);
		else if (p->place < 0)
			p2p_far_connect(x, p);
	}
}

void p2p_left(struct p2p *x, const struct comm *c)
{
	const struct ringup_op *op;

	if (!x)
		return;
	p2p_lock(x);
	for (op = x->posted.first; op; op = op->p2p.next)
		if (op->comm == c && op->p2p.peer == P2P_ANY) {
			expect_all(x, c);
			break;
		}
	p2p_unlock(x);
}

/* Has this rank data that another rank still waits for? */
static bool has_output(struct p2p *x)
{
	bool has = false;

	p2p_lock(x);
	for (int r = 0; r < x->topo->size && !has; r++)
		has = x->peer[r] && !x->peer[r]->gone && p2p_peer_has_output(x->peer[r]);
	p2p_unlock(x);
	return has;
}

void p2p_flush(struct p2p *x, int64_t deadline_ns)
{
	while (x && has_output(x) && !over_has_failed(x->engine, NULL) &&
	       clock_ns() < deadline_ns)
		if (!p2p_step(x))
			clock_sleep_ms(1);
}

void p2p_bye(struct p2p *x)
{
	/* A rank that leaves because the job has failed is not to be taken for the reason. */
	if (!x || over_has_failed(x->engine, NULL))
		return;
	p2p_lock(x);
	p2p_far_bye(x);
	p2p_unlock(x);
}

/* Has another rank of this host not left yet? */
static bool has_company(const struct p2p *x)
{
	for (int i = 0; i < x->topo->local_size; i++)
		if (i != x->topo->local_rank && !liveness_has_left(&x->engine->liveness[i]))
			return true;
	return false;
}

/* Do other ranks reach each other through this one, and has one of them tried? */
static bool is_on_the_way(const struct p2p *x)
{
	bool has_children;

	return x->far.tree && tree_has_invited(x->far.tree, &has_children) &&
	       (has_children || has_company(x)) && !over_has_failed(x->engine, NULL);
}

void p2p_relay(struct p2p *x, int64_t deadline_ns)
{
	while (x && is_on_the_way(x) && clock_ns() < deadline_ns)
		if (!p2p_step(x))
			clock_sleep_ms(RELAY_MS);
}

void p2p_leave(struct p2p *x)
{
	if (!x)
		return;
	for (int i = 0; i < x->rings.ranks; i++)
		p2p_rings_notify(&x->rings, i);
	notify_ranks(x->engine, x->engine->waitset);
}

/* ---- start and cancel ---- */

static int p2p_no_memory(struct err *e)
{
	return fail(e, RINGUP_ENOMEM, "no memory for a message between two ranks");
}

static int begin_own_send(struct p2p *x, struct p2p_peer *p, struct ringup_op *op,
			  struct err *e)
{
	uint64_t bytes = p2p_op_bytes(op);
	bool is_eager = bytes <= P2P_EAGER_BYTES && p2p_message_charge(bytes) <= p->credit;
	struct p2p_head h;
	struct p2p_message *m;
	struct ringup_op *receive;

	op->p2p.id = ++p->ids;
	h = p2p_head_of(op, is_eager ? P2P_EAGER : P2P_OFFER);
	receive = p2p_posted_take(x, &h, p->rank);
	if (receive) {
		p2p_queue_push(&p->offered, op);
		p2p_accept_offer(x, p, &h, receive);
		return 0;
	}
	h.bytes = is_eager ? bytes : 0;
	m = p2p_message_make(x, &h, p->rank);
	if (!m)
		return p2p_no_memory(e);
	if (!is_eager) {
		p2p_queue_push(&p->offered, op);
		return 0;
	}
	if (bytes)
		memcpy(m->data, op->ask.in, bytes);
	m->whole = true;
	p->held += p2p_message_charge(bytes);
	p->credit -= p2p_message_charge(bytes);
	p2p_op_moves(op, -1, "eager");
	p2p_op_end(x, op);
	return 0;
}

static int begin_send(struct p2p *x, struct ringup_op *op, struct err *e)
{
	struct p2p_peer *p = p2p_peer_of(x, op->p2p.peer);

	if (!p)
		return p2p_no_memory(e);
	if (p2p_is_self(x, p))
		return begin_own_send(x, p, op, e);
	if (p->gone)
		return fail_left(x, e, p->rank);
	p2p_queue_push(&p->sends, op);
	p2p_peer_write(x, p);
	return 0;
}

/* Connects to the rank of another host that @op waits for, to detect its end. */
static int expect_peer(struct p2p *x, const struct ringup_op *op, struct err *e)
{
	struct p2p_peer *p = op->p2p.peer < 0 ? NULL : p2p_peer_of(x, op->p2p.peer);

	if (op->p2p.peer == P2P_ANY && over_has_left(op->comm, NULL))
		expect_all(x, op->comm);
	if (op->p2p.peer >= 0 && !p) {
		p2p_fail_memory(x);
		return p2p_no_memory(e);
	}
	if (p && p->place < 0)
		p2p_far_connect(x, p);
	return 0;
}

static int begin_receive(struct p2p *x, struct ringup_op *op, struct err *e)
{
	struct p2p_message *m = p2p_message_find(x, op);
	struct p2p_peer *p = op->p2p.peer < 0 ? NULL : x->peer[op->p2p.peer];
	int rc;

	if (!m && p && p->gone)
		return fail_left(x, e, p->rank);
	if (!m && op->p2p.peer == P2P_ANY && is_alone(x, op->comm))
		return fail(e, RINGUP_ESHUTDOWN, "all other ranks have left the job");
	if (!m) {
		rc = expect_peer(x, op, e);
		if (!rc)
			p2p_queue_push(&x->posted, op);
		return rc;
	}
	p = x->peer[m->source];
	if (m->head.kind == P2P_EAGER && !m->whole) {
		op->p2p.source = m->source;
		m->op = op;
		return 0;
	}
	p2p_message_unlink(x, m);
	/* The data of an offer have left with their sender. */
	rc = m->head.kind == P2P_OFFER && p->gone ? fail_left(x, e, p->rank) : 0;
	if (m->head.kind == P2P_EAGER)
		p2p_deliver(x, p, m, op);
	else if (!rc)
		p2p_accept_offer(x, p, &m->head, op);
	free(m);
	if (rc)
		return rc;
	if (!p2p_is_self(x, p) && !p->gone)
		p2p_peer_write(x, p);
	return 0;
}

int p2p_begin(struct p2p *x, struct ringup_op *op, struct err *e)
{
	int rc = 0;

	p2p_lock(x);
	__atomic_store_n(&x->used, true, __ATOMIC_RELEASE);
	/* The operation may have failed already, with the job. */
	if (__atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_FLYING) {
		rc = op->p2p.is_send ? begin_send(x, op, e) : begin_receive(x, op, e);
	}
	p2p_unlock(x);
	return rc;
}

/* A frame that has begun must be completed, but its owner has the buffer back: the rest is sent
 * from a copy. */
static void cancel_output(struct p2p *x, struct p2p_peer *p, const struct ringup_op *op)
{
	struct p2p_out *o = &p->out;

	if (!o->busy || o->op != op)
		return;
	o->op = NULL;
	if (!o->left)
		return;
	o->own = malloc(o->left);
	if (!o->own) {
		p2p_fail_memory(x);
		o->left = 0;
		return;
	}
	memcpy(o->own, o->data, o->left);
	o->data = o->own;
}

static void cancel_input(struct p2p_peer *p, const struct ringup_op *op)
{
	if (p->in.op != op)
		return;
	p->in.op = NULL;
	p->in.to = NULL;
}

static void cancel_at_peer(struct p2p *x, struct p2p_peer *p, struct ringup_op *op)
{
	struct p2p_message *m;

	if (p2p_queue_remove(&p->sends, op) || p2p_queue_remove(&p->streams, op) ||
	    p2p_queue_remove(&p->taken, op))
		return;
	if (p2p_queue_remove(&p->offered, op)) {
		/* An offer of this rank to itself that has not been received. */
		for (m = p2p_is_self(x, p) ? x->unexpected : NULL; m; m = m->next)
			if (m->source == p->rank && m->head.kind == P2P_OFFER &&
			    m->head.id == op->p2p.id) {
				p2p_message_unlink(x, m);
				free(m);
				break;
			}
		return;
	}
	cancel_output(x, p, op);
	cancel_input(p, op);
}

void p2p_cancel(struct p2p *x, struct ringup_op *op)
{
	int rank = op->p2p.is_send ? op->p2p.peer : op->p2p.source;
	struct p2p_message *m;

	p2p_lock(x);
	if (!p2p_queue_remove(&x->posted, op) && !p2p_queue_remove(&x->fetching, op) &&
	    rank >= 0 && x->peer[rank])
		cancel_at_peer(x, x->peer[rank], op);
	for (m = x->unexpected; m; m = m->next)
		if (m->op == op)
			m->op = NULL;
	p2p_set_fetches(x);
	/* Completions and failures are reported by the next thread without a comm's lock. */
	pthread_mutex_unlock(&x->lock);
}

void p2p_purge(struct p2p *x, uint64_t serial)
{
	struct p2p_message *m, *next;

	if (!x)
		return;
	p2p_lock(x);
	for (m = x->unexpected; m; m = next) {
		next = m->next;
		if (m->head.group != serial || (m->head.kind == P2P_EAGER && !m->whole))
			continue;
		p2p_message_unlink(x, m);
		if (m->head.kind == P2P_EAGER)
			p2p_peer_release(x, x->peer[m->source], m->head.bytes);
		free(m);
	}
	p2p_unlock(x);
}

/* ---- progress ---- */

/* Reads and writes as much as the streams of the rank at place @i of this host allow; *@morep:
 * there is more. */
static bool step_ring(struct p2p *x, int i, bool *morep)
{
	bool left = liveness_has_left(&x->engine->liveness[i]);
	struct p2p_peer *p = x->peer[x->rank_of[i]];
	bool any = false;

	if (!p && (left || !p2p_ring_is_empty(&x->rings, i))) {
		p = p2p_peer_of(x, x->rank_of[i]);
		if (!p)
			p2p_fail_memory(x);
	}
	if (!p || p->gone)
		return false;
	if (!p2p_ring_is_empty(&x->rings, i))
		any |= p2p_peer_read(x, p, morep);
	/* After the failure of the job, unfinished messages are not that rank's fault. */
	if (left && p2p_ring_is_empty(&x->rings, i) && !over_has_failed(x->engine, NULL))
		p2p_peer_end(x, p);
	else if (p2p_peer_has_output(p))
		any |= p2p_peer_write(x, p);
	return any;
}

/* Steps the streams of this host's ranks; *@morep: there is more to read. */
static bool step_rings(struct p2p *x, bool *morep)
{
	bool any = false;

	for (int i = 0; i < x->rings.ranks && !x->trouble.code; i++)
		if (i != x->rings.me)
			any |= step_ring(x, i, morep);
	return any;
}

bool p2p_is_ready(struct p2p *x)
{
	return x && (p2p_rings_news(&x->rings) != __atomic_load_n(&x->news, __ATOMIC_RELAXED) ||
		     __atomic_load_n(&x->fetches, __ATOMIC_RELAXED) || p2p_far_is_pending(x));
}

bool p2p_step(struct p2p *x)
{
	bool any = false, more = false;
	uint32_t news;

	if (!p2p_is_ready(x) || pthread_mutex_trylock(&x->lock))
		return false;
	if (p2p_far_is_pending(x)) {
		p2p_far_step(x);
		any = true;
	}
	/* Read first: frames that come later change it again. */
	news = p2p_rings_news(&x->rings);
	if (news != __atomic_load_n(&x->news, __ATOMIC_RELAXED)) {
		any |= step_rings(x, &more);
		__atomic_store_n(&x->news, more ? news - 1 : news, __ATOMIC_RELAXED);
	}
	if (x->fetching.first) {
		p2p_fetch_some(x);
		any = true;
	}
	p2p_unlock(x);
	return any;
}

uint64_t p2p_moved(struct p2p *x, const struct ringup_op *op)
{
	uint64_t moved;

	/* The lock is taken inside comm->lock. */
	p2p_lock(x);
	moved = op->p2p.moved;
	pthread_mutex_unlock(&x->lock);
	return moved;
}

void p2p_settle(struct p2p *x)
{
	if (!x)
		return;
	p2p_lock(x);
	p2p_unlock(x);
}

bool p2p_is_used(const struct p2p *x)
{
	return x && __atomic_load_n(&x->used, __ATOMIC_RELAXED);
}

/* ---- life ---- */

size_t p2p_shared_bytes(int ranks)
{
	return p2p_rings_bytes(ranks);
}

static void list_local_ranks(struct p2p *x)
{
	const struct topo *t = x->topo;
	int n = 0;

	for (int r = 0; r < t->size && n < t->local_size; r++)
		if (!t->host_of || t->host_of[r] == t->host)
			x->rank_of[n++] = r;
}

int p2p_open(struct p2p **xp, const struct p2p_setup *s, struct err *e)
{
	struct p2p *x = calloc(1, sizeof(*x));
	struct cma self;

	if (x) {
		x->peer = calloc((size_t)s->topo->size, sizeof(struct p2p_peer *));
		x->rank_of = calloc((size_t)s->topo->local_size, sizeof(*x->rank_of));
	}
	if (!x || !x->peer || !x->rank_of) {
		if (x) {
			free(x->peer);
			free(x->rank_of);
		}
		free(x);
		return fail(e, RINGUP_ENOMEM, "no memory for messages between ranks");
	}
	pthread_mutex_init(&x->lock, NULL);
	x->engine = s->engine;
	x->topo = s->topo;
	x->use_cma = cma_self(&self) && s->use_cma;
	x->unexpected_end = &x->unexpected;
	p2p_rings_open(&x->rings, s->shared, s->topo->local_size, s->topo->local_rank, &self);
	list_local_ranks(x);
	*xp = x;
	return p2p_far_open(x, s, e);
}

static void peer_free(struct p2p_peer *p)
{
	if (!p)
		return;
	p2p_far_free(p);
	free(p->answer);
	free(p->out.own);
	free(p);
}

void p2p_close(struct p2p *x)
{
	struct p2p_message *m;

	if (!x)
		return;
	p2p_far_stop(x);
	while ((m = x->unexpected)) {
		x->unexpected = m->next;
		free(m);
	}
	for (int r = 0; r < x->topo->size; r++)
		peer_free(x->peer[r]);
	free(x->peer);
	free(x->rank_of);
	pthread_mutex_destroy(&x->lock);
	free(x);
}
