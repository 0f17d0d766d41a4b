/* p2p_match.c - match messages with receives, and complete both. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/liveness.h"
#include "engine/op.h"
#include "engine/over.h"
#include "engine/p2p_state.h"
#include "ringup.h"
#include "wire/cma.h"

enum { FETCH_BYTES = 256 << 10 /* of a sender's memory, before other work has its turn */ };

/* ---- queues ---- */

void p2p_queue_push(struct p2p_queue *q, struct ringup_op *op)
{
	op->p2p.next = NULL;
	if (q->last)
		q->last->p2p.next = op;
	else
		q->first = op;
	q->last = op;
}

/* Returns whether @op was in @q. */
bool p2p_queue_remove(struct p2p_queue *q, struct ringup_op *op)
{
	struct ringup_op *before = NULL, *at = q->first;

	for (; at && at != op; at = at->p2p.next)
		before = at;
	if (!at)
		return false;
	if (before)
		before->p2p.next = op->p2p.next;
	else
		q->first = op->p2p.next;
	if (q->last == op)
		q->last = before;
	return true;
}

struct ringup_op *p2p_queue_pop(struct p2p_queue *q)
{
	struct ringup_op *op = q->first;

	if (op)
		p2p_queue_remove(q, op);
	return op;
}

/* Takes the operation with that offer out of @q; NULL if there is none. */
struct ringup_op *p2p_queue_take(struct p2p_queue *q, uint64_t id)
{
	struct ringup_op *op = q->first;

	while (op && op->p2p.id != id)
		op = op->p2p.next;
	if (op)
		p2p_queue_remove(q, op);
	return op;
}

/* ---- completion ---- */

/* The rank in the group of @c of the world's @rank, or -1. */
static int group_rank(const struct comm *c, int rank)
{
	int first = 0, end = c->topo.size, middle;

	if (!c->ranks)
		return rank;
	while (first < end) {
		middle = first + (end - first) / 2;
		if (c->ranks[middle] == rank)
			return middle;
		if (c->ranks[middle] < rank)
			first = middle + 1;
		else
			end = middle;
	}
	return -1;
}

/* @op is in no queue any more. */
void p2p_op_end(struct p2p *x, struct ringup_op *op)
{
	if (!op_claim(op))
		return;
	if (op->p2p.sourcep)
		*op->p2p.sourcep = group_rank(op->comm, op->p2p.source);
	op_complete(op, 0);
	x->completed = true;
}

/* Ends @op with a failure: the other side, @rank, has @count elements of @dtype. */
void p2p_op_end_mismatch(struct p2p *x, struct ringup_op *op, int rank, uint64_t count,
			 int dtype)
{
	struct err why;

	if (!op_claim(op))
		return;
	p2p_op_moves(op, rank, NULL);
	fail(&why, RINGUP_EMISMATCH, "rank %d %s %llu %s", rank,
	     op->p2p.is_send ? "receives" : "sends", (unsigned long long)count,
	     reduce_dtype_name((enum ringup_dtype)dtype));
	op_fail_in(op, &why);
	x->completed = true;
}

bool p2p_op_agrees(const struct ringup_op *op, const struct p2p_head *h)
{
	return op->ask.signature.count == h->count && op->ask.signature.dtype == h->dtype;
}

static bool op_matches(const struct ringup_op *op, const struct p2p_head *h, int source)
{
	return op->comm->serial == h->group && op->p2p.tag == h->tag &&
	       (op->p2p.peer == source ||
		(op->p2p.peer == P2P_ANY && group_rank(op->comm, source) >= 0));
}

/* ---- a receive and its message ---- */

/* An eager message of @bytes from @p has been received: returns the credit to its sender. */
void p2p_peer_release(struct p2p *x, struct p2p_peer *p, uint64_t bytes)
{
	struct p2p_head credit = { .kind = P2P_CREDIT };

	p->held -= p2p_message_charge(bytes);
	if (p2p_is_self(x, p)) {
		p->credit += p2p_message_charge(bytes);
		return;
	}
	p->owed += p2p_message_charge(bytes);
	if (p->owed < P2P_CREDIT_BYTES / 2)
		return;
	credit.count = p->owed;
	p->owed = 0;
	p2p_peer_answer(x, p, &credit);
}

/* Can the memory of @p be read?  The kernel is asked once for each peer. */
static bool peer_has_cma(struct p2p *x, struct p2p_peer *p)
{
	struct cma process;

	if (p->cma == CMA_UNKNOWN) {
		p2p_rings_process(&x->rings, p->place, &process);
		p->pid = process.pid;
		p->cma = cma_try(&process) ? CMA_WORKS : CMA_FAILS;
	}
	return p->cma == CMA_WORKS;
}

void p2p_set_fetches(struct p2p *x)
{
	__atomic_store_n(&x->fetches, x->fetching.first != NULL, __ATOMIC_RELEASE);
}

/* Asks the sender for the data of the offer that @op has matched. */
static void ask_for_data(struct p2p *x, struct p2p_peer *p, struct ringup_op *op)
{
	struct p2p_head take = { .kind = P2P_TAKE, .id = op->p2p.id };

	op->p2p.moved = 0;
	p2p_queue_push(&p->taken, op);
	p2p_peer_answer(x, p, &take);
	p2p_peer_write(x, p);
}

/* Copies a message from this rank to itself: both buffers are here. */
static void copy_own(struct p2p *x, struct p2p_peer *p, struct ringup_op *op, uint64_t id)
{
	struct ringup_op *send = p2p_queue_take(&p->offered, id);

	/* The send has been cancelled, and the receive will be. */
	if (!send)
		return;
	p2p_op_moves(send, p->rank, "self");
	p2p_op_moves(op, p->rank, "self");
	if (p2p_op_bytes(op))
		memcpy(op->ask.out, send->ask.in, p2p_op_bytes(op));
	p2p_op_end(x, send);
	p2p_op_end(x, op);
}

static void p2p_match_refuse(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h,
			     const struct ringup_op *op)
{
	struct p2p_head answer = p2p_head_of(op, P2P_REFUSE);
	struct ringup_op *send;

	answer.id = h->id;
	if (p2p_is_self(x, p)) {
		send = p2p_queue_take(&p->offered, h->id);
		if (send)
			p2p_op_end_mismatch(x, send, p->rank, answer.count, answer.dtype);
		return;
	}
	p2p_peer_answer(x, p, &answer);
	p2p_peer_write(x, p);
}

/* @op, which is in no queue, has matched the offer @h. */
void p2p_accept_offer(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h,
		      struct ringup_op *op)
{
	op->p2p.source = p->rank;
	op->p2p.id = h->id;
	op->p2p.at = h->at;
	op->p2p.moved = 0;
	if (!p2p_op_agrees(op, h)) {
		p2p_match_refuse(x, p, h, op);
		p2p_op_end_mismatch(x, op, p->rank, h->count, h->dtype);
	} else if (p2p_is_self(x, p)) {
		copy_own(x, p, op, h->id);
	} else if (x->use_cma && h->at && p->place >= 0 && peer_has_cma(x, p)) {
		p2p_op_moves(op, p->rank, "cma");
		p2p_queue_push(&x->fetching, op);
		p2p_set_fetches(x);
	} else {
		p2p_op_moves(op, p->rank, p2p_peer_way(p));
		ask_for_data(x, p, op);
	}
}

/* @op, which is in no queue, has matched the eager message @m, which is whole. */
void p2p_deliver(struct p2p *x, struct p2p_peer *p, struct p2p_message *m, struct ringup_op *op)
{
	op->p2p.source = m->source;
	if (!p2p_op_agrees(op, &m->head)) {
		p2p_op_end_mismatch(x, op, m->source, m->head.count, m->head.dtype);
	} else {
		p2p_op_moves(op, m->source, "eager");
		if (m->head.bytes)
			memcpy(op->ask.out, m->data, m->head.bytes);
		p2p_op_end(x, op);
	}
	p2p_peer_release(x, p, m->head.bytes);
}

static void message_append(struct p2p *x, struct p2p_message *m)
{
	m->next = NULL;
	*x->unexpected_end = m;
	x->unexpected_end = &m->next;
}

/* Takes @m out of the list; the caller frees it. */
void p2p_message_unlink(struct p2p *x, struct p2p_message *m)
{
	struct p2p_message **at = &x->unexpected;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	if (x->unexpected_end == &m->next)
		x->unexpected_end = at;
}

struct p2p_message *p2p_message_make(struct p2p *x, const struct p2p_head *h, int source)
{
	size_t bytes = h->kind == P2P_EAGER ? (size_t)h->bytes : 0;
	struct p2p_message *m = malloc(sizeof(*m) + bytes);

	if (!m)
		return NULL;
	m->head = *h;
	m->source = source;
	m->whole = false;
	m->op = NULL;
	message_append(x, m);
	return m;
}

struct p2p_message *p2p_message_find(const struct p2p *x, const struct ringup_op *op)
{
	struct p2p_message *m = x->unexpected;

	while (m && (m->op || !op_matches(op, &m->head, m->source)))
		m = m->next;
	return m;
}

/* Takes the oldest matching receive out of the posted ones; NULL if there is none. */
struct ringup_op *p2p_posted_take(struct p2p *x, const struct p2p_head *h, int source)
{
	struct ringup_op *op = x->posted.first;

	while (op && !op_matches(op, h, source))
		op = op->p2p.next;
	if (op)
		p2p_queue_remove(&x->posted, op);
	return op;
}

/* ---- the sender's memory ---- */

/* A sender has its buffer back after it has left: what was read before it left is good. */
static bool sender_has_left(const struct p2p *x, const struct p2p_peer *p)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return liveness_has_left(&x->engine->liveness[p->place]);
}

/* All data are here, unless the job has failed, so that the sender has its buffer back:
 * then this rank sees that failure, too, and the receive fails with it. */
static void end_fetch(struct p2p *x, struct p2p_peer *p, struct ringup_op *op)
{
	struct p2p_head done = { .kind = P2P_DONE, .id = op->p2p.id };

	if (over_has_failed(x->engine, NULL))
		return;
	if (sender_has_left(x, p)) {
		p2p_op_end_left(x, op, p->rank);
		return;
	}
	p2p_peer_answer(x, p, &done);
	p2p_peer_write(x, p);
	p2p_op_end(x, op);
}

/* Reads a part of one message.  The death of its sender is detected elsewhere. */
void p2p_fetch_some(struct p2p *x)
{
	struct ringup_op *op = p2p_queue_pop(&x->fetching);
	struct p2p_peer *p = x->peer[op->p2p.source];
	uint64_t left = p2p_op_bytes(op) - op->p2p.moved;
	size_t n = left < FETCH_BYTES ? (size_t)left : FETCH_BYTES;
	int why = cma_read(p->pid, (unsigned char *)op->ask.out + op->p2p.moved,
			   op->p2p.at + op->p2p.moved, n);

	if (why && sender_has_left(x, p)) {
		p2p_op_end_left(x, op, p->rank);
	} else if (why == ESRCH) {
		op->p2p.at = 0;
	} else if (why) {
		if (why == EPERM || why == ENOSYS)
			p->cma = CMA_FAILS;
		ask_for_data(x, p, op);
	} else {
		op->p2p.moved += n;
		if (op->p2p.moved == p2p_op_bytes(op))
			end_fetch(x, p, op);
		else
			p2p_queue_push(&x->fetching, op);
	}
	p2p_set_fetches(x);
}
