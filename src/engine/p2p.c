/* p2p.c - match messages with receives, and carry both out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/p2p.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/err.h"
#include "coll/reduce.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "engine/op.h"
#include "engine/p2p_state.h"
#include "ringup.h"
#include "wire/foreign.h"
#include "wire/ranks.h"
#include "wire/seat.h"

enum {
	FETCH_BYTES =
		256 << 10,      /* of another process's memory, before others have their turn */
	READ_BYTES = 256 << 10, /* of one peer's stream, likewise                            */
	FIRST_ANSWERS = 8,
};

#define P2P_MAGIC 0x50325052u

_Static_assert(sizeof(struct p2p_head) == 56, "a head has no holes");

/* ---- small things ---- */

static uint64_t op_bytes(const struct ringup_op *op)
{
	return op->ask.want.count * reduce_dtype_bytes((enum ringup_dtype)op->ask.want.dtype);
}

static void queue_push(struct p2p_queue *q, struct ringup_op *op)
{
	op->p2p.next = NULL;
	if (q->last)
		q->last->p2p.next = op;
	else
		q->first = op;
	q->last = op;
}

/* Returns whether @op was in @q. */
static bool queue_remove(struct p2p_queue *q, struct ringup_op *op)
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

static struct ringup_op *queue_pop(struct p2p_queue *q)
{
	struct ringup_op *op = q->first;

	if (op)
		queue_remove(q, op);
	return op;
}

/* The operation with that offer, taken out of @q; or NULL. */
static struct ringup_op *queue_take(struct p2p_queue *q, uint64_t id)
{
	struct ringup_op *op = q->first;

	while (op && op->p2p.id != id)
		op = op->p2p.next;
	if (op)
		queue_remove(q, op);
	return op;
}

static void p2p_lock(struct p2p *x)
{
	pthread_mutex_lock(&x->lock);
}

/* Wakes those who wait for what was completed, and ends the job if something is wrong. */
static void p2p_unlock(struct p2p *x)
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
		engine_completed(g);
		seat_ring_asleep(g->row, g->row->me);
	}
	if (trouble.code)
		engine_alarm(g, trouble.code, trouble.text);
}

/* Something that ends the job: the first counts. */
static void p2p_fail(struct p2p *x, const struct err *e)
{
	if (!x->trouble.code)
		x->trouble = *e;
}

static void p2p_fail_memory(struct p2p *x)
{
	struct err e;

	fail(&e, RINGUP_ENOMEM, "rank %d: no memory for a message between two ranks",
	     x->team->rank);
	p2p_fail(x, &e);
}

static void p2p_fail_peer(struct p2p *x, const struct p2p_peer *p, const char *why)
{
	struct err e;

	fail(&e, RINGUP_EPEER, "rank %d sent rank %d what is no message: %s", p->rank,
	     x->team->rank, why);
	p2p_fail(x, &e);
}

/* ---- completion ---- */

/* The rank in the group of @l that the world calls @rank, or -1. */
static int group_rank(const struct lane *l, int rank)
{
	int first = 0, end = l->team.size, middle;

	if (!l->ranks)
		return rank;
	while (first < end) {
		middle = first + (end - first) / 2;
		if (l->ranks[middle] == rank)
			return middle;
		if (l->ranks[middle] < rank)
			first = middle + 1;
		else
			end = middle;
	}
	return -1;
}

/* @op is in no queue any more. */
static void op_end(struct p2p *x, struct ringup_op *op)
{
	if (!op_claim(op))
		return;
	if (op->p2p.sourcep)
		*op->p2p.sourcep = group_rank(op->lane, op->p2p.source);
	op_complete(op, 0);
	x->completed = true;
}

static void count_text(uint64_t count, int dtype, char *out, size_t len)
{
	snprintf(out, len, "%llu %s", (unsigned long long)count,
		 reduce_dtype_name((enum ringup_dtype)dtype));
}

void p2p_text(const struct ringup_op *op, char *out, size_t len)
{
	char what[64], rank[32];

	count_text(op->ask.want.count, op->ask.want.dtype, what, sizeof(what));
	snprintf(rank, sizeof(rank), op->p2p.peer < 0 ? "any rank" : "rank %d", op->p2p.peer);
	snprintf(out, len, "%s of %s %s %s with tag %d", op->p2p.is_send ? "send" : "receive",
		 what, op->p2p.is_send ? "to" : "from", rank, op->p2p.tag);
}

/* The other side, @rank, has @count elements of @dtype. */
static void op_end_mismatch(struct p2p *x, struct ringup_op *op, int rank, uint64_t count,
			    int dtype)
{
	char what[128], other[64];
	struct err why;

	if (!op_claim(op))
		return;
	p2p_text(op, what, sizeof(what));
	count_text(count, dtype, other, sizeof(other));
	fail(&why, RINGUP_EMISMATCH, "%s: rank %d %s %s", what, rank,
	     op->p2p.is_send ? "receives" : "sends", other);
	op_fail(op, &why);
	x->completed = true;
}

static bool op_agrees(const struct ringup_op *op, const struct p2p_head *h)
{
	return op->ask.want.count == h->count && op->ask.want.dtype == h->dtype;
}

static bool op_matches(const struct ringup_op *op, const struct p2p_head *h, int source)
{
	return op->lane->serial == h->group && op->p2p.tag == h->tag &&
	       (op->p2p.peer == source ||
		(op->p2p.peer == P2P_ANY && group_rank(op->lane, source) >= 0));
}

/* ---- outwards ---- */

static bool is_self(const struct p2p *x, const struct p2p_peer *p)
{
	return p->rank == x->team->rank;
}

/* To be written before any message. */
static void peer_answer(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h)
{
	size_t room = p->answer_room ? 2 * p->answer_room : FIRST_ANSWERS;
	struct p2p_head *more;

	if (p->answer_at == p->answers)
		p->answer_at = p->answers = 0;
	if (p->answers == p->answer_room) {
		more = realloc(p->answer, room * sizeof(*more));
		if (!more) {
			p2p_fail_memory(x);
			return;
		}
		p->answer = more;
		p->answer_room = room;
	}
	p->answer[p->answers] = *h;
	p->answer[p->answers++].magic = P2P_MAGIC;
}

static bool peer_has_output(const struct p2p_peer *p)
{
	return p->out.busy || p->answer_at < p->answers || p->sends.first || p->streams.first;
}

static uint64_t message_charge(uint64_t bytes)
{
	return bytes + sizeof(struct p2p_head);
}

static struct p2p_head head_of(const struct ringup_op *op, enum p2p_kind kind)
{
	return (struct p2p_head){ .magic = P2P_MAGIC,
				  .kind = (uint8_t)kind,
				  .dtype = op->ask.want.dtype,
				  .group = op->lane->serial,
				  .id = op->p2p.id,
				  .count = op->ask.want.count,
				  .tag = op->p2p.tag };
}

/* The address for a receiver of this host, or 0 if it cannot be read there. */
static uint64_t fetch_address(const struct p2p *x, const struct p2p_peer *p,
			      const struct ringup_op *op)
{
	bool may = x->use_cma && p->seat >= 0 && foreign_mine(op->ask.in, op_bytes(op));

	return may ? (uint64_t)(uintptr_t)op->ask.in : 0;
}

/* The oldest send: with its data if the receiver has room for them, else as an offer. */
static void begin_send_frame(struct p2p *x, struct p2p_peer *p)
{
	struct ringup_op *op = queue_pop(&p->sends);
	uint64_t bytes = op_bytes(op);

	if (bytes <= P2P_EAGER_BYTES && message_charge(bytes) <= p->credit) {
		p->out.head = head_of(op, P2P_EAGER);
		p->out.head.bytes = bytes;
		p->out.data = op->ask.in;
		p->out.op = op;
		p->credit -= message_charge(bytes);
	} else {
		op->p2p.id = ++p->ids;
		p->out.head = head_of(op, P2P_OFFER);
		p->out.head.at = fetch_address(x, p, op);
		queue_push(&p->offered, op);
	}
	p->out.left = p->out.head.bytes;
}

static void begin_data_frame(struct p2p_peer *p)
{
	struct ringup_op *op = queue_pop(&p->streams);
	uint64_t left = op_bytes(op) - op->p2p.moved;

	p->out.head = head_of(op, P2P_DATA);
	p->out.head.at = op->p2p.moved;
	p->out.head.bytes = left < P2P_EAGER_BYTES ? left : P2P_EAGER_BYTES;
	p->out.left = p->out.head.bytes;
	p->out.data = (const unsigned char *)op->ask.in + op->p2p.moved;
	p->out.op = op;
}

static bool begin_frame(struct p2p *x, struct p2p_peer *p)
{
	p->out = (struct p2p_out){ .busy = true };
	if (p->answer_at < p->answers)
		p->out.head = p->answer[p->answer_at++];
	else if (p->sends.first)
		begin_send_frame(x, p);
	else if (p->streams.first)
		begin_data_frame(p);
	else
		p->out.busy = false;
	return p->out.busy;
}

static void end_frame(struct p2p *x, struct p2p_peer *p)
{
	struct ringup_op *op = p->out.op;

	free(p->out.own);
	p->out.own = NULL;
	p->out.busy = false;
	p->out.op = NULL;
	if (!op)
		return;
	op->p2p.moved += p->out.head.bytes;
	if (p->out.head.kind == P2P_EAGER || op->p2p.moved == op_bytes(op))
		op_end(x, op);
	else
		queue_push(&p->streams, op);
}

/* Returns how much the stream has taken. */
static size_t peer_put(struct p2p *x, const struct p2p_peer *p, const void *data, size_t size)
{
	return p2p_ring_write(&x->rings, p->seat, data, size);
}

/* Writes what the stream takes of the frame; returns whether that was anything. */
static bool write_frame(struct p2p *x, struct p2p_peer *p)
{
	struct p2p_out *o = &p->out;
	size_t size = sizeof(o->head) - o->head_done, n = 0;

	if (size) {
		n = peer_put(x, p, (unsigned char *)&o->head + o->head_done, size);
		o->head_done += n;
		if (n < size)
			return n > 0;
	}
	if (o->left) {
		size = peer_put(x, p, o->data, (size_t)o->left);
		o->data += size;
		o->left -= size;
		n += size;
	}
	if (!o->left)
		end_frame(x, p);
	return n > 0;
}

static void peer_notify(const struct p2p *x, const struct p2p_peer *p)
{
	p2p_rings_notify(&x->rings, p->seat);
	seat_ring_asleep(x->engine->row, p->seat);
	seat_kick(x->engine->row, p->seat);
}

/* Writes all that the stream takes; returns whether that was anything. */
static bool peer_write(struct p2p *x, struct p2p_peer *p)
{
	bool any = false;

	while (p->out.busy || begin_frame(x, p)) {
		any |= write_frame(x, p);
		if (p->out.busy)
			break;
	}
	if (any)
		peer_notify(x, p);
	return any;
}

/* ---- a receive and its message ---- */

/* An eager message of @bytes from @p has been received: its sender may send as much again. */
static void peer_release(struct p2p *x, struct p2p_peer *p, uint64_t bytes)
{
	struct p2p_head credit = { .kind = P2P_CREDIT };

	p->held -= message_charge(bytes);
	if (is_self(x, p)) {
		p->credit += message_charge(bytes);
		return;
	}
	p->owed += message_charge(bytes);
	if (p->owed < P2P_CREDIT_BYTES / 2)
		return;
	credit.count = p->owed;
	p->owed = 0;
	peer_answer(x, p, &credit);
}

/* May the memory of @p be read?  The kernel is asked once for each peer. */
static bool peer_has_cma(struct p2p *x, struct p2p_peer *p)
{
	struct foreign process;

	if (p->cma == CMA_UNKNOWN) {
		p2p_rings_process(&x->rings, p->seat, &process);
		p->pid = process.pid;
		p->cma = foreign_try(&process) ? CMA_WORKS : CMA_FAILS;
	}
	return p->cma == CMA_WORKS;
}

static void set_fetches(struct p2p *x)
{
	__atomic_store_n(&x->fetches, x->fetching.first != NULL, __ATOMIC_RELEASE);
}

/* The sender shall send the data of the offer that @op has matched. */
static void ask_for_data(struct p2p *x, struct p2p_peer *p, struct ringup_op *op)
{
	struct p2p_head take = { .kind = P2P_TAKE, .id = op->p2p.id };

	op->p2p.moved = 0;
	queue_push(&p->taken, op);
	peer_answer(x, p, &take);
	peer_write(x, p);
}

/* This rank's own send: both buffers are here. */
static void copy_own(struct p2p *x, struct p2p_peer *p, struct ringup_op *op, uint64_t id)
{
	struct ringup_op *send = queue_take(&p->offered, id);

	/* It has been cancelled, and the receive will be. */
	if (!send)
		return;
	if (op_bytes(op))
		memcpy(op->ask.out, send->ask.in, op_bytes(op));
	op_end(x, send);
	op_end(x, op);
}

static void refuse(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h,
		   const struct ringup_op *op)
{
	struct p2p_head answer = head_of(op, P2P_REFUSE);
	struct ringup_op *send;

	answer.id = h->id;
	if (is_self(x, p)) {
		send = queue_take(&p->offered, h->id);
		if (send)
			op_end_mismatch(x, send, p->rank, answer.count, answer.dtype);
		return;
	}
	peer_answer(x, p, &answer);
	peer_write(x, p);
}

/* @op, which is in no queue, has matched the offer @h. */
static void accept_offer(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h,
			 struct ringup_op *op)
{
	op->p2p.source = p->rank;
	op->p2p.id = h->id;
	op->p2p.at = h->at;
	op->p2p.moved = 0;
	if (!op_agrees(op, h)) {
		refuse(x, p, h, op);
		op_end_mismatch(x, op, p->rank, h->count, h->dtype);
	} else if (is_self(x, p)) {
		copy_own(x, p, op, h->id);
	} else if (h->at && p->seat >= 0 && peer_has_cma(x, p)) {
		queue_push(&x->fetching, op);
		set_fetches(x);
	} else {
		ask_for_data(x, p, op);
	}
}

/* @op, which is in no queue, has matched the eager message @m, which is whole. */
static void deliver(struct p2p *x, struct p2p_peer *p, struct p2p_message *m,
		    struct ringup_op *op)
{
	op->p2p.source = m->source;
	if (!op_agrees(op, &m->head)) {
		op_end_mismatch(x, op, m->source, m->head.count, m->head.dtype);
	} else {
		if (m->head.bytes)
			memcpy(op->ask.out, m->data, m->head.bytes);
		op_end(x, op);
	}
	peer_release(x, p, m->head.bytes);
}

static void message_append(struct p2p *x, struct p2p_message *m)
{
	m->next = NULL;
	*x->unexpected_end = m;
	x->unexpected_end = &m->next;
}

/* Takes @m out of the list; the caller frees it. */
static void message_unlink(struct p2p *x, struct p2p_message *m)
{
	struct p2p_message **at = &x->unexpected;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	if (x->unexpected_end == &m->next)
		x->unexpected_end = at;
}

static struct p2p_message *message_make(struct p2p *x, const struct p2p_head *h, int source)
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

static struct p2p_message *message_find(const struct p2p *x, const struct ringup_op *op)
{
	struct p2p_message *m = x->unexpected;

	while (m && (m->op || !op_matches(op, &m->head, m->source)))
		m = m->next;
	return m;
}

/* The oldest receive that matches, taken out of those that wait; or NULL. */
static struct ringup_op *posted_take(struct p2p *x, const struct p2p_head *h, int source)
{
	struct ringup_op *op = x->posted.first;

	while (op && !op_matches(op, h, source))
		op = op->p2p.next;
	if (op)
		queue_remove(&x->posted, op);
	return op;
}

/* ---- inwards ---- */

const char *p2p_head_check(const struct p2p_head *h)
{
	uint64_t bytes;

	if (h->magic != P2P_MAGIC)
		return "it begins in another way";
	if (h->kind < P2P_EAGER || h->kind >= P2P_KINDS || h->zero || h->none)
		return "there is no such kind";
	if (h->kind == P2P_CREDIT)
		return h->count <= P2P_CREDIT_BYTES && !h->bytes ? NULL : "too much credit";
	if (h->dtype >= RINGUP_DTYPE_COUNT)
		return "there is no such type";
	if (__builtin_mul_overflow(h->count, reduce_dtype_bytes((enum ringup_dtype)h->dtype),
				   &bytes) ||
	    bytes > PTRDIFF_MAX)
		return "no memory has so many elements";
	if (h->kind == P2P_EAGER)
		return h->bytes == bytes && bytes <= P2P_EAGER_BYTES ? NULL : "wrong length";
	if (h->kind == P2P_DATA)
		return h->bytes <= P2P_EAGER_BYTES && h->at <= bytes &&
				       h->bytes <= bytes - h->at
			       ? NULL
			       : "wrong length";
	return h->bytes ? "nothing follows it" : NULL;
}

static void read_eager(struct p2p *x, struct p2p_peer *p)
{
	const struct p2p_head *h = &p->in.head;
	struct ringup_op *op;

	if (message_charge(h->bytes) > P2P_CREDIT_BYTES - p->held - p->owed) {
		p2p_fail_peer(x, p, "more than it may send before that is received");
		return;
	}
	p->held += message_charge(h->bytes);
	op = posted_take(x, h, p->rank);
	if (op && !op_agrees(op, h)) {
		op_end_mismatch(x, op, p->rank, h->count, h->dtype);
	} else if (op) {
		op->p2p.source = p->rank;
		p->in.op = op;
		p->in.to = op->ask.out;
	} else {
		p->in.message = message_make(x, h, p->rank);
		if (!p->in.message)
			p2p_fail_memory(x);
		else
			p->in.to = p->in.message->data;
	}
}

static void read_offer(struct p2p *x, struct p2p_peer *p)
{
	struct ringup_op *op = posted_take(x, &p->in.head, p->rank);

	if (op)
		accept_offer(x, p, &p->in.head, op);
	else if (!message_make(x, &p->in.head, p->rank))
		p2p_fail_memory(x);
}

/* Data of an offer that is not known have been sent to a receive that was cancelled. */
static void read_data(struct p2p *x, struct p2p_peer *p)
{
	const struct p2p_head *h = &p->in.head;
	struct ringup_op *op = queue_take(&p->taken, h->id);

	if (!op)
		return;
	if (!op_agrees(op, h) || op->p2p.moved != h->at) {
		queue_push(&p->taken, op);
		p2p_fail_peer(x, p, "data in the wrong place");
		return;
	}
	p->in.op = op;
	p->in.to = (unsigned char *)op->ask.out + h->at;
}

/* The head is whole: says where the data go that follow it.  Answers to a send that is not
 * known are late: it was cancelled. */
static void begin_read(struct p2p *x, struct p2p_peer *p)
{
	const struct p2p_head *h = &p->in.head;
	const char *wrong = p2p_head_check(h);
	struct ringup_op *op = NULL;

	p->in.to = NULL;
	p->in.op = NULL;
	p->in.message = NULL;
	p->in.left = h->bytes;
	if (wrong) {
		p2p_fail_peer(x, p, wrong);
		return;
	}
	if (h->kind == P2P_TAKE || h->kind == P2P_DONE || h->kind == P2P_REFUSE)
		op = queue_take(&p->offered, h->id);
	switch (h->kind) {
	case P2P_EAGER:
		read_eager(x, p);
		break;
	case P2P_OFFER:
		read_offer(x, p);
		break;
	case P2P_DATA:
		read_data(x, p);
		break;
	case P2P_TAKE:
		if (op)
			queue_push(&p->streams, op);
		break;
	case P2P_DONE:
		if (op)
			op_end(x, op);
		break;
	case P2P_REFUSE:
		if (op)
			op_end_mismatch(x, op, p->rank, h->count, h->dtype);
		break;
	default:
		if (h->count > P2P_CREDIT_BYTES - p->credit)
			p2p_fail_peer(x, p, "too much credit");
		else
			p->credit += h->count;
	}
}

/* All data of the frame have been read. */
static void end_read(struct p2p *x, struct p2p_peer *p)
{
	const struct p2p_head *h = &p->in.head;
	struct ringup_op *op = p->in.op;
	struct p2p_message *m = p->in.message;

	p->in.head_done = 0;
	p->in.op = NULL;
	p->in.message = NULL;
	if (m) {
		m->whole = true;
		op = m->op;
		if (!op)
			return;
		message_unlink(x, m);
		deliver(x, p, m, op);
		free(m);
		return;
	}
	if (h->kind == P2P_EAGER)
		peer_release(x, p, h->bytes);
	if (!op)
		return;
	op->p2p.moved += h->bytes;
	if (h->kind == P2P_EAGER || op->p2p.moved == op_bytes(op))
		op_end(x, op);
	else
		queue_push(&p->taken, op);
}

/* Takes at most @size bytes of the stream of @p. */
static size_t peer_get_bytes(struct p2p *x, const struct p2p_peer *p, void *data, size_t size,
			     bool *wantedp)
{
	return p2p_ring_read(&x->rings, p->seat, data, size, wantedp);
}

/* One head, or a part of what follows it; returns how many bytes. */
static size_t read_some(struct p2p *x, struct p2p_peer *p, bool *wantedp)
{
	struct p2p_in *in = &p->in;
	size_t n;

	if (in->head_done < sizeof(in->head)) {
		n = peer_get_bytes(x, p, (unsigned char *)&in->head + in->head_done,
				   sizeof(in->head) - in->head_done, wantedp);
		in->head_done += n;
		if (!n || in->head_done < sizeof(in->head))
			return n;
		begin_read(x, p);
		if (x->trouble.code)
			return n;
	} else {
		n = peer_get_bytes(x, p, in->to, (size_t)in->left, wantedp);
		in->to += in->to ? n : 0;
		in->left -= n;
	}
	if (!in->left)
		end_read(x, p);
	return n;
}

/* Reads what has come from @p; *@morep: there is more. */
static bool peer_read(struct p2p *x, struct p2p_peer *p, bool *morep)
{
	bool wanted = false;
	size_t all = 0, n;

	do {
		n = read_some(x, p, &wanted);
		all += n;
	} while (n && all < READ_BYTES && !x->trouble.code);
	*morep |= n > 0;
	if (wanted)
		peer_notify(x, p);
	return all > 0;
}

/* ---- peers ---- */

static struct p2p_peer *peer_of(struct p2p *x, int rank)
{
	const struct team *t = x->team;
	bool is_here = !t->host_of || t->host_of[rank] == t->host;
	struct p2p_peer *p = x->peer[rank];

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->rank = rank;
	p->seat = !is_here ? -1 : t->local_of ? t->local_of[rank] : rank;
	p->credit = P2P_CREDIT_BYTES;
	x->peer[rank] = p;
	__atomic_store_n(&x->used, true, __ATOMIC_RELEASE);
	return p;
}

/* ---- ranks that leave ---- */

static int fail_left(struct err *e, int rank)
{
	return fail(e, RINGUP_ESHUTDOWN, "rank %d has left the job", rank);
}

static void op_end_left(struct p2p *x, struct ringup_op *op, int rank)
{
	struct err why;

	if (!op_claim(op))
		return;
	fail_left(&why, rank);
	op_fail(op, &why);
	x->completed = true;
}

static void queue_end_left(struct p2p *x, struct p2p_queue *q, int rank)
{
	struct ringup_op *op;

	while ((op = queue_pop(q)))
		op_end_left(x, op, rank);
}

/* Have all others of the group of @l left? */
static bool is_alone(const struct p2p *x, const struct lane *l)
{
	int r, rank;

	for (r = 0; r < l->team.size; r++) {
		rank = ranks_in_world(l->ranks, r);
		if (rank != x->team->rank && !(x->peer[rank] && x->peer[rank]->gone))
			return false;
	}
	return true;
}

/* @p has left, and all that it had sent is here: no more comes. */
static void peer_end(struct p2p *x, struct p2p_peer *p)
{
	struct ringup_op *op, *next;

	p->gone = true;
	p->answer_at = p->answers = 0;
	queue_end_left(x, &p->sends, p->rank);
	queue_end_left(x, &p->offered, p->rank);
	queue_end_left(x, &p->streams, p->rank);
	queue_end_left(x, &p->taken, p->rank);
	if (p->out.op)
		op_end_left(x, p->out.op, p->rank);
	p->out.op = NULL;
	for (op = x->posted.first; op; op = next) {
		next = op->p2p.next;
		if (op->p2p.peer != p->rank &&
		    (op->p2p.peer != P2P_ANY || !is_alone(x, op->lane)))
			continue;
		queue_remove(&x->posted, op);
		op_end_left(x, op, p->rank);
	}
}

/* Is something of what others shall know still here? */
static bool has_output(struct p2p *x)
{
	bool has = false;
	int r;

	p2p_lock(x);
	for (r = 0; r < x->team->size && !has; r++)
		has = x->peer[r] && !x->peer[r]->gone && peer_has_output(x->peer[r]);
	p2p_unlock(x);
	return has;
}

void p2p_flush(struct p2p *x, int64_t deadline_ns)
{
	while (x && has_output(x) && !engine_has_failed(x->engine, NULL) &&
	       clock_ns() < deadline_ns)
		if (!p2p_step(x))
			clock_sleep_ms(1);
}

void p2p_leave(struct p2p *x)
{
	int i;

	for (i = 0; x && i < x->rings.ranks; i++)
		p2p_rings_notify(&x->rings, i);
}

/* ---- start and cancel ---- */

static int no_memory(struct err *e)
{
	return fail(e, RINGUP_ENOMEM, "no memory for a message between two ranks");
}

static int begin_own_send(struct p2p *x, struct p2p_peer *p, struct ringup_op *op,
			  struct err *e)
{
	uint64_t bytes = op_bytes(op);
	bool is_eager = bytes <= P2P_EAGER_BYTES && message_charge(bytes) <= p->credit;
	struct p2p_head h;
	struct p2p_message *m;
	struct ringup_op *receive;

	op->p2p.id = ++p->ids;
	h = head_of(op, is_eager ? P2P_EAGER : P2P_OFFER);
	receive = posted_take(x, &h, p->rank);
	if (receive) {
		queue_push(&p->offered, op);
		accept_offer(x, p, &h, receive);
		return 0;
	}
	h.bytes = is_eager ? bytes : 0;
	m = message_make(x, &h, p->rank);
	if (!m)
		return no_memory(e);
	if (!is_eager) {
		queue_push(&p->offered, op);
		return 0;
	}
	if (bytes)
		memcpy(m->data, op->ask.in, bytes);
	m->whole = true;
	p->held += message_charge(bytes);
	p->credit -= message_charge(bytes);
	op_end(x, op);
	return 0;
}

static int begin_send(struct p2p *x, struct ringup_op *op, struct err *e)
{
	struct p2p_peer *p = peer_of(x, op->p2p.peer);

	if (!p)
		return no_memory(e);
	if (is_self(x, p))
		return begin_own_send(x, p, op, e);
	if (p->gone)
		return fail_left(e, p->rank);
	if (p->seat < 0)
		return fail(e, RINGUP_ENOBACKEND,
			    "rank %d is on another host: messages stay on one", p->rank);
	queue_push(&p->sends, op);
	peer_write(x, p);
	return 0;
}

static int begin_receive(struct p2p *x, struct ringup_op *op, struct err *e)
{
	struct p2p_message *m = message_find(x, op);
	struct p2p_peer *p = op->p2p.peer < 0 ? NULL : x->peer[op->p2p.peer];

	if (!m && p && p->gone)
		return fail_left(e, p->rank);
	if (!m) {
		queue_push(&x->posted, op);
		return 0;
	}
	p = x->peer[m->source];
	if (m->head.kind == P2P_EAGER && !m->whole) {
		op->p2p.source = m->source;
		m->op = op;
		return 0;
	}
	message_unlink(x, m);
	if (m->head.kind == P2P_OFFER)
		accept_offer(x, p, &m->head, op);
	else
		deliver(x, p, m, op);
	free(m);
	if (!is_self(x, p) && !p->gone)
		peer_write(x, p);
	return 0;
}

int p2p_begin(struct p2p *x, struct ringup_op *op, struct err *e)
{
	int rc = 0;

	p2p_lock(x);
	__atomic_store_n(&x->used, true, __ATOMIC_RELEASE);
	/* Unless it has failed already, because the job has. */
	if (__atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_FLYING) {
		rc = op->p2p.is_send ? begin_send(x, op, e) : begin_receive(x, op, e);
	}
	p2p_unlock(x);
	return rc;
}

/* The stream needs the rest of a frame that has begun, but its owner has the data back: that is
 * sent from a copy. */
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

	if (queue_remove(&p->sends, op) || queue_remove(&p->streams, op) ||
	    queue_remove(&p->taken, op))
		return;
	if (queue_remove(&p->offered, op)) {
		/* An own offer that has not been received. */
		for (m = is_self(x, p) ? x->unexpected : NULL; m; m = m->next)
			if (m->source == p->rank && m->head.kind == P2P_OFFER &&
			    m->head.id == op->p2p.id) {
				message_unlink(x, m);
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
	if (!queue_remove(&x->posted, op) && !queue_remove(&x->fetching, op) && rank >= 0 &&
	    x->peer[rank])
		cancel_at_peer(x, x->peer[rank], op);
	for (m = x->unexpected; m; m = m->next)
		if (m->op == op)
			m->op = NULL;
	set_fetches(x);
	/* What is to be told, the next thread tells that has no lane's lock. */
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
		message_unlink(x, m);
		if (m->head.kind == P2P_EAGER)
			peer_release(x, x->peer[m->source], m->head.bytes);
		free(m);
	}
	p2p_unlock(x);
}

/* ---- progress ---- */

/* All of it is here.  Unless the sender had it back meanwhile, because the job has failed: then
 * this rank sees that, too, and the receive fails with it. */
static void end_fetch(struct p2p *x, struct p2p_peer *p, struct ringup_op *op)
{
	struct p2p_head done = { .kind = P2P_DONE, .id = op->p2p.id };

	if (engine_has_failed(x->engine, NULL))
		return;
	peer_answer(x, p, &done);
	peer_write(x, p);
	op_end(x, op);
}

/* A part of one message.  The end of its sender is found out elsewhere. */
static void fetch_some(struct p2p *x)
{
	struct ringup_op *op = queue_pop(&x->fetching);
	struct p2p_peer *p = x->peer[op->p2p.source];
	uint64_t left = op_bytes(op) - op->p2p.moved;
	size_t n = left < FETCH_BYTES ? (size_t)left : FETCH_BYTES;
	int why = foreign_read(p->pid, (unsigned char *)op->ask.out + op->p2p.moved,
			       op->p2p.at + op->p2p.moved, n);

	if (why == ESRCH) {
		op->p2p.at = 0;
	} else if (why) {
		if (why == EPERM || why == ENOSYS)
			p->cma = CMA_FAILS;
		ask_for_data(x, p, op);
	} else {
		op->p2p.moved += n;
		if (op->p2p.moved == op_bytes(op))
			end_fetch(x, p, op);
		else
			queue_push(&x->fetching, op);
	}
	set_fetches(x);
}

/* Reads and writes what the streams of the rank at seat @i allow; *@morep: there is more. */
static bool step_ring(struct p2p *x, int i, bool *morep)
{
	bool left = __atomic_load_n(&seat_at(x->engine->row, i)->left, __ATOMIC_ACQUIRE);
	struct p2p_peer *p = x->peer[x->rank_of[i]];
	bool any = false;

	if (!p && (left || !p2p_ring_is_empty(&x->rings, i))) {
		p = peer_of(x, x->rank_of[i]);
		if (!p)
			p2p_fail_memory(x);
	}
	if (!p || p->gone)
		return false;
	if (!p2p_ring_is_empty(&x->rings, i))
		any |= peer_read(x, p, morep);
	if (left && p2p_ring_is_empty(&x->rings, i))
		peer_end(x, p);
	else if (peer_has_output(p))
		any |= peer_write(x, p);
	return any;
}

/* Streams of ranks of this host; *@morep: there is more than was read. */
static bool step_rings(struct p2p *x, bool *morep)
{
	bool any = false;
	int i;

	for (i = 0; i < x->rings.ranks && !x->trouble.code; i++)
		if (i != x->rings.me)
			any |= step_ring(x, i, morep);
	return any;
}

bool p2p_is_ready(struct p2p *x)
{
	return x && (p2p_rings_news(&x->rings) != __atomic_load_n(&x->news, __ATOMIC_RELAXED) ||
		     __atomic_load_n(&x->fetches, __ATOMIC_RELAXED));
}

bool p2p_step(struct p2p *x)
{
	bool any = false, more = false;
	uint32_t news;

	if (!p2p_is_ready(x) || pthread_mutex_trylock(&x->lock))
		return false;
	/* Read first: what comes later changes it again. */
	news = p2p_rings_news(&x->rings);
	if (news != __atomic_load_n(&x->news, __ATOMIC_RELAXED)) {
		any = step_rings(x, &more);
		__atomic_store_n(&x->news, more ? news - 1 : news, __ATOMIC_RELAXED);
	}
	if (x->fetching.first) {
		fetch_some(x);
		any = true;
	}
	p2p_unlock(x);
	return any;
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
	const struct team *t = x->team;
	int r, n = 0;

	for (r = 0; r < t->size && n < t->local_size; r++)
		if (!t->host_of || t->host_of[r] == t->host)
			x->rank_of[n++] = r;
}

int p2p_open(struct p2p **xp, const struct p2p_setup *s, struct err *e)
{
	struct p2p *x = calloc(1, sizeof(*x));
	struct foreign self;

	if (x) {
		x->peer = calloc((size_t)s->team->size, sizeof(struct p2p_peer *));
		x->rank_of = calloc((size_t)s->team->local_size, sizeof(*x->rank_of));
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
	x->team = s->team;
	x->use_cma = foreign_self(&self) && s->use_cma;
	x->unexpected_end = &x->unexpected;
	p2p_rings_open(&x->rings, s->shared, s->team->local_size, s->team->local_rank, &self);
	list_local_ranks(x);
	*xp = x;
	return 0;
}

static void peer_free(struct p2p_peer *p)
{
	if (!p)
		return;
	free(p->answer);
	free(p->out.own);
	free(p);
}

void p2p_close(struct p2p *x)
{
	struct p2p_message *m;
	int r;

	if (!x)
		return;
	while ((m = x->unexpected)) {
		x->unexpected = m->next;
		free(m);
	}
	for (r = 0; r < x->team->size; r++)
		peer_free(x->peer[r]);
	free(x->peer);
	free(x->rank_of);
	pthread_mutex_destroy(&x->lock);
	free(x);
}
