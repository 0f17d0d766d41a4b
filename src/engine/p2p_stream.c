/* p2p_stream.c - writes and reads the frames of messages between two ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/kinds.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/engine_state.h"
#include "engine/p2p_state.h"
#include "engine/progress.h"
#include "ringup.h"
#include "wire/cma.h"
#include "wire/waitset.h"

enum {
	READ_BYTES = 256 << 10, /* of one peer's stream, before other peers have their turn */
	FIRST_ANSWERS = 8,
};

#define P2P_MAGIC 0x50325052u

_Static_assert(sizeof(struct p2p_head) == 56, "a head has no holes");

/* ---- outwards ---- */

/* Queues a frame ahead of all messages. */
void p2p_peer_answer(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h)
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

bool p2p_peer_has_output(const struct p2p_peer *p)
{
	return p->out.busy || p->answer_at < p->answers || p->letters || p->sends.first ||
	       p->streams.first;
}

struct p2p_head p2p_head_of(const struct ringup_op *op, enum p2p_kind kind)
{
	return (struct p2p_head){ .magic = P2P_MAGIC,
				  .kind = (uint8_t)kind,
				  .dtype = op->ask.signature.dtype,
				  .group = op->comm->serial,
				  .id = op->p2p.id,
				  .count = op->ask.signature.count,
				  .tag = op->p2p.tag };
}

/* The address for a receiver of this host; 0 if that cannot read it. */
static uint64_t fetch_address(const struct p2p *x, const struct p2p_peer *p,
			      const struct ringup_op *op)
{
	bool may = x->use_cma && p->place >= 0 && cma_mine(op->ask.in, p2p_op_bytes(op));

	return may ? (uint64_t)(uintptr_t)op->ask.in : 0;
}

/* Begins the oldest send: with its data if the receiver has room for them, else as an offer. */
static void begin_send_frame(struct p2p *x, struct p2p_peer *p)
{
	struct ringup_op *op = p2p_queue_pop(&p->sends);
	uint64_t bytes = p2p_op_bytes(op);

	if (bytes <= P2P_EAGER_BYTES && p2p_message_charge(bytes) <= p->credit) {
		p->out.head = p2p_head_of(op, P2P_EAGER);
		p->out.head.bytes = bytes;
		p->out.data = op->ask.in;
		p->out.op = op;
		p->credit -= p2p_message_charge(bytes);
		p2p_op_moves(op, -1, "eager");
	} else {
		op->p2p.id = ++p->ids;
		p->out.head = p2p_head_of(op, P2P_OFFER);
		p->out.head.at = fetch_address(x, p, op);
		p2p_queue_push(&p->offered, op);
	}
	p->out.left = p->out.head.bytes;
}

static void begin_data_frame(struct p2p_peer *p)
{
	struct ringup_op *op = p2p_queue_pop(&p->streams);
	uint64_t left = p2p_op_bytes(op) - op->p2p.moved;

	p->out.head = p2p_head_of(op, P2P_DATA);
	p->out.head.at = op->p2p.moved;
	p->out.head.bytes = left < P2P_EAGER_BYTES ? left : P2P_EAGER_BYTES;
	p->out.left = p->out.head.bytes;
	p->out.data = (const unsigned char *)op->ask.in + op->p2p.moved;
	p->out.op = op;
}

static void begin_letter_frame(struct p2p_peer *p)
{
	struct p2p_letter *l = p->letters;

	p->letters = l->next;
	p->out.head = (struct p2p_head){ .magic = P2P_MAGIC,
					 .kind = P2P_INVITE,
					 .bytes = sizeof(l->invite) };
	p->out.left = sizeof(l->invite);
	p->out.data = (const unsigned char *)&l->invite;
	p->out.own = l;
}

static bool begin_frame(struct p2p *x, struct p2p_peer *p)
{
	p->out = (struct p2p_out){ .busy = true };
	if (p->answer_at < p->answers)
		p->out.head = p->answer[p->answer_at++];
	else if (p->letters)
		begin_letter_frame(p);
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
	if (p->out.head.kind == P2P_EAGER || op->p2p.moved == p2p_op_bytes(op))
		p2p_op_end(x, op);
	else
		p2p_queue_push(&p->streams, op);
}

/* Returns the bytes that the stream has taken of two pieces. */
static size_t peer_put(struct p2p *x, struct p2p_peer *p, const struct iovec *v)
{
	size_t n;

	if (p->place < 0)
		return p2p_far_put(p, v, 2);
	n = p2p_ring_write(&x->rings, p->place, v[0].iov_base, v[0].iov_len);
	if (n == v[0].iov_len && v[1].iov_len)
		n += p2p_ring_write(&x->rings, p->place, v[1].iov_base, v[1].iov_len);
	return n;
}

/* Writes as much of the frame as the stream takes; returns whether any bytes moved. */
static bool write_frame(struct p2p *x, struct p2p_peer *p)
{
	struct p2p_out *o = &p->out;
	size_t head = sizeof(o->head) - o->head_done, n, data;
	const struct iovec v[2] = { { (unsigned char *)&o->head + o->head_done, head },
				    { (void *)(uintptr_t)o->data, (size_t)o->left } };

	n = peer_put(x, p, v);
	data = n > head ? n - head : 0;
	o->head_done += n - data;
	if (data) {
		o->data += data;
		o->left -= data;
	}
	if (o->head_done == sizeof(o->head) && !o->left)
		end_frame(x, p);
	return n > 0;
}

static void peer_notify(const struct p2p *x, const struct p2p_peer *p)
{
	p2p_rings_notify(&x->rings, p->place);
	waitset_notify_asleep(x->engine->waitset, p->place);
	progress_notify(x->engine->progress, x->engine->waitset, p->place);
}

/* Writes all that the stream takes; returns whether any bytes moved. */
bool p2p_peer_write(struct p2p *x, struct p2p_peer *p)
{
	bool any = false;

	if (p->place < 0 && p->output < 0) {
		if (p2p_peer_has_output(p))
			p2p_far_connect(x, p);
		return false;
	}
	while (p->out.busy || begin_frame(x, p)) {
		any |= write_frame(x, p);
		if (p->out.busy)
			break;
	}
	if (p->place < 0 && p->out.busy)
		p2p_far_poke(x);
	else if (any && p->place >= 0)
		peer_notify(x, p);
	return any;
}

/* ---- inwards ---- */

const char *p2p_head_check(const struct p2p_head *h)
{
	uint64_t bytes;

	if (h->magic != P2P_MAGIC)
		return "it begins in another way";
	if (h->kind < P2P_EAGER || h->kind >= P2P_KINDS || h->zero || h->none)
		return "no such kind";
	if (h->kind == P2P_CREDIT)
		return h->count <= P2P_CREDIT_BYTES && !h->bytes ? NULL : "too much credit";
	if (h->kind == P2P_INVITE || h->kind == P2P_BYE)
		return h->bytes == (h->kind == P2P_BYE ? 0 : sizeof(struct p2p_invite))
			       ? NULL
			       : "wrong length";
	if (h->dtype >= DTYPE_COUNT)
		return "no such type";
	if (__builtin_mul_overflow(h->count, reduce_dtype_bytes((enum ringup_dtype)h->dtype),
				   &bytes) ||
	    bytes > PTRDIFF_MAX)
		return "so many elements do not fit in memory";
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

	if (p2p_message_charge(h->bytes) > P2P_CREDIT_BYTES - p->held - p->owed) {
		p2p_fail_peer(x, p, "more than it may send before the receiver confirms");
		return;
	}
	p->held += p2p_message_charge(h->bytes);
	op = p2p_posted_take(x, h, p->rank);
	if (op && !p2p_op_agrees(op, h)) {
		p2p_op_end_mismatch(x, op, p->rank, h->count, h->dtype);
	} else if (op) {
		op->p2p.source = p->rank;
		p2p_op_moves(op, p->rank, "eager");
		p->in.op = op;
		p->in.to = op->ask.out;
	} else {
		p->in.message = p2p_message_make(x, h, p->rank);
		if (!p->in.message)
			p2p_fail_memory(x);
		else
			p->in.to = p->in.message->data;
	}
}

static void read_offer(struct p2p *x, struct p2p_peer *p)
{
	struct ringup_op *op = p2p_posted_take(x, &p->in.head, p->rank);

	if (op)
		p2p_accept_offer(x, p, &p->in.head, op);
	else if (!p2p_message_make(x, &p->in.head, p->rank))
		p2p_fail_memory(x);
}

/* Data of an unknown offer belong to a receive that was cancelled. */
static void read_data(struct p2p *x, struct p2p_peer *p)
{
	const struct p2p_head *h = &p->in.head;
	struct ringup_op *op = p2p_queue_take(&p->taken, h->id);

	if (!op)
		return;
	if (!p2p_op_agrees(op, h) || op->p2p.moved != h->at) {
		p2p_queue_push(&p->taken, op);
		p2p_fail_peer(x, p, "data in the wrong place");
		return;
	}
	p->in.op = op;
	p->in.to = (unsigned char *)op->ask.out + h->at;
}

/* The head is whole: sets the place of the data that follow it.  An answer to an unknown send
 * is late: the send was cancelled. */
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
		op = p2p_queue_take(&p->offered, h->id);
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
		if (op) {
			p2p_op_moves(op, p->rank, p2p_peer_way(p));
			p2p_queue_push(&p->streams, op);
		}
		break;
	case P2P_DONE:
		/* The receiver has fetched the data; this rank has not seen when it began. */
		if (op) {
			p2p_op_moves(op, p->rank, "cma");
			p2p_op_end(x, op);
		}
		break;
	case P2P_REFUSE:
		if (op)
			p2p_op_end_mismatch(x, op, p->rank, h->count, h->dtype);
		break;
	case P2P_INVITE:
		p->in.to = (unsigned char *)&p->invite;
		if (p->place < 0)
			p2p_fail_peer(x, p, "it is not of this host");
		break;
	case P2P_BYE:
		if (p->place < 0)
			p2p_peer_end(x, p);
		break;
	default:
		if (h->count > P2P_CREDIT_BYTES - p->credit)
			p2p_fail_peer(x, p, "too much credit");
		else
			p->credit += h->count;
	}
}

/* Ends a frame, all data of which have been read. */
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
		p2p_message_unlink(x, m);
		p2p_deliver(x, p, m, op);
		free(m);
		return;
	}
	if (h->kind == P2P_EAGER)
		p2p_peer_release(x, p, h->bytes);
	if (h->kind == P2P_INVITE)
		p2p_far_take(x, &p->invite);
	if (!op)
		return;
	op->p2p.moved += h->bytes;
	if (h->kind == P2P_EAGER || op->p2p.moved == p2p_op_bytes(op))
		p2p_op_end(x, op);
	else
		p2p_queue_push(&p->taken, op);
}

/* Takes at most @size bytes of the stream of @p. */
static size_t peer_get_bytes(struct p2p *x, struct p2p_peer *p, void *data, size_t size,
			     bool *wantedp)
{
	if (p->place < 0)
		return p2p_far_get(p, data, size);
	return p2p_ring_read(&x->rings, p->place, data, size, wantedp);
}

/* Reads one head, or a part of the data behind it; returns the number of bytes. */
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
		if (in->to)
			in->to += n;
		in->left -= n;
	}
	if (!in->left)
		end_read(x, p);
	return n;
}

/* Reads what has arrived from @p; *@morep: there is more. */
bool p2p_peer_read(struct p2p *x, struct p2p_peer *p, bool *morep)
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
