/* tcp.c - the back end for several hosts: rings over the mesh's two neighbour sockets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/err.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "coll/ring.h"
#include "wire/mesh.h"

/*
 * Data flows one way: to the next rank, from the previous one.  A plan is a
 * stream in each direction, one header and then the bytes of all its steps;
 * two cursors, one a direction, say how far they are.  What has been received
 * may be sent on at once, element by element (see step.h), so everything is
 * pipelined and nothing needs to be cut into messages.
 *
 * Receives that overwrite what has still to be sent cannot happen in a ring:
 * such bytes depend, by way of all the others, on that very send.
 *
 * f16 and bf16 are summed in f32 and rounded once.  So partial sums travel as
 * f32, from two buffers that take turns; there a receive can overtake a send,
 * and has to wait for it.  To bound the buffers such a plan is carried out in
 * parts, one after the other.
 */

/* Received at a time before it is combined; sent at a time so that neither starves. */
enum { CHUNK_BYTES = 256 << 10 };

/* Elements of f16 or bf16 in one part, elements widened at a time, and buffers per call. */
enum { PART_COUNT = 4 << 20, BLOCK = 1024, RUNS = 64 };

/* Sockets wake a sleeper, the abort word does not: it is looked at this often. */
enum { SLICE_MS = 100 };

#define HEADER_MAGIC 0x50554752U

/* What the sender is about to do; the receiver must be about to do the same. */
struct header {
	uint32_t magic, sequence;
	uint8_t kind, dtype, redop, zero;
	int32_t root;
	uint64_t count;
	uint64_t digest; /* of everything else that ranks must agree on */
};

/* How far one direction is. */
struct cursor {
	int step;           /* index                                             */
	uint64_t bytes;     /* of this step: sent, or received                   */
	uint64_t elements;  /* of this step: sent, or received and combined      */
	size_t header_done; /* bytes of the header                               */
	struct header header;
};

struct tcp {
	const struct team *team;
	int prev, next; /* sockets */
	const struct plan *plan;
	struct plan barrier; /* an allgather of one byte a rank */
	struct piece token;
	uint64_t *ones;
	uint32_t sequence;
	struct step *steps;
	int count;             /* of steps                                        */
	struct cursor out, in; /* step == count: done                             */
	uint64_t *start;       /* of each piece in the concatenation, in elements */
	int pieces, room;      /* entries of start in use, and allocated          */
	bool wide;             /* partial sums travel as f32                      */
	bool scaled;           /* pre has been applied: out is the operand        */
	uint64_t part;         /* first element of this part                      */
	float *partial[2];     /* of rounds with an even, an odd number           */
	uint64_t partial_room; /* elements in each                                */
	unsigned char *stage;  /* CHUNK_BYTES                                     */
	size_t staged;         /* bytes in it that are not combined yet           */
};

static const char *kind_name(int kind)
{
	static const char *const names[] = {
		[PLAN_ALLREDUCE] = "allreduce",
		[PLAN_BROADCAST] = "broadcast",
		[PLAN_ALLGATHER] = "allgather",
		[PLAN_BARRIER] = "barrier",
	};

	return kind >= 0 && kind <= PLAN_BARRIER ? names[kind] : "?";
}

static void tcp_close(void *self)
{
	struct tcp *t = self;

	free(t->steps);
	free(t->ones);
	free(t->token.out);
	free(t->start);
	free(t->partial[0]);
	free(t->partial[1]);
	free(t->stage);
	memset(t, 0, sizeof(*t));
}

static int tcp_open(void *self, const struct team *team, struct err *e)
{
	struct tcp *t = self;
	int on = 1, i;

	if (team->size > 1 && !team->mesh)
		return fail(e, RINGUP_ENOBACKEND, "tcp needs connections between the ranks");
	t->team = team;
	t->prev = team->size > 1 ? team->mesh->data_prev : -1;
	t->next = team->size > 1 ? team->mesh->data_next : -1;
	t->steps = calloc((size_t)RING_STEPS(team->size) + 1, sizeof(*t->steps));
	t->ones = calloc((size_t)team->size, sizeof(*t->ones));
	t->token.out = calloc((size_t)team->size, 1);
	t->stage = malloc(CHUNK_BYTES);
	if (!t->steps || !t->ones || !t->token.out || !t->stage)
		return fail(e, RINGUP_ENOMEM, "buffers for tcp");
	for (i = 0; i < team->size; i++)
		t->ones[i] = 1;
	t->token.in = (unsigned char *)t->token.out + team->rank;
	t->token.count = 1;
	t->barrier = (struct plan){
		.kind = PLAN_BARRIER,
		.dtype = RINGUP_U8,
		.pre = 1,
		.post = 1,
		.piece = &t->token,
		.pieces = 1,
		.count = 1,
		.counts = t->ones,
	};
	/* Small messages shall leave at once; sockets that are not TCP need not be told. */
	(void)setsockopt(t->next, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return 0;
}

static bool tcp_can(const void *self, const struct plan *p)
{
	(void)self;
	return (unsigned int)p->dtype < RINGUP_DTYPE_COUNT;
}

static bool is_gather(const struct plan *p)
{
	return p->kind == PLAN_ALLGATHER || p->kind == PLAN_BARRIER;
}

static uint64_t mix(uint64_t digest, const void *data, size_t len)
{
	const unsigned char *at = data;

	while (len--)
		digest = (digest ^ *at++) * 0x100000001b3ULL;
	return digest;
}

static struct header header_of(const struct tcp *t, const struct plan *p)
{
	struct header h = {
		.magic = HEADER_MAGIC,
		.sequence = t->sequence,
		.kind = (uint8_t)p->kind,
		.dtype = (uint8_t)p->dtype,
		.redop = (uint8_t)p->redop,
		.root = p->root,
		.count = p->count,
		.digest = 0xcbf29ce484222325ULL,
	};
	int i;

	if (p->kind == PLAN_ALLREDUCE) {
		h.digest = mix(h.digest, &p->pre, sizeof(p->pre));
		h.digest = mix(h.digest, &p->post, sizeof(p->post));
		for (i = 0; i < p->pieces; i++)
			h.digest = mix(h.digest, &p->piece[i].count, sizeof(uint64_t));
	} else if (is_gather(p)) {
		h.count = 0; /* the ranks' own differ */
		h.digest = mix(h.digest, p->counts, (size_t)t->team->size * sizeof(uint64_t));
	}
	return h;
}

static int check_header(const struct tcp *t, struct err *e)
{
	const struct header *got = &t->in.header;
	struct header want = header_of(t, t->plan);

	if (!memcmp(got, &want, sizeof(want)))
		return 0;
	if (got->magic != HEADER_MAGIC)
		return fail(e, RINGUP_EMISMATCH, "rank %d sent no header",
			    (t->team->rank + t->team->size - 1) % t->team->size);
	return fail(e, RINGUP_EMISMATCH,
		    "rank %d runs %s of %llu x %s as number %u, rank %d %s of %llu x %s as "
		    "number %u",
		    (t->team->rank + t->team->size - 1) % t->team->size, kind_name(got->kind),
		    (unsigned long long)got->count,
		    reduce_dtype_name((enum ringup_dtype)got->dtype), got->sequence,
		    t->team->rank, kind_name(want.kind), (unsigned long long)want.count,
		    reduce_dtype_name((enum ringup_dtype)want.dtype), want.sequence);
}

/* Where the pieces lie in their concatenation. */
static int place_pieces(struct tcp *t, const struct plan *p, struct err *e)
{
	uint64_t at = 0;
	int i;

	if (p->pieces + 1 > t->room) {
		uint64_t *start = realloc(t->start, (size_t)(p->pieces + 1) * sizeof(*start));

		if (!start)
			return fail(e, RINGUP_ENOMEM, "%d pieces", p->pieces);
		t->start = start;
		t->room = p->pieces + 1;
	}
	for (i = 0; i < p->pieces; i++) {
		t->start[i] = at;
		at += p->piece[i].count;
	}
	if (is_gather(p))
		for (at = 0, i = 0; i < t->team->size; i++)
			at += p->counts[i];
	t->start[p->pieces] = at;
	t->pieces = p->pieces;
	return 0;
}

/* The last piece that starts at or before element @at, and is not empty if any is there. */
static int piece_at(const struct tcp *t, uint64_t at)
{
	int low = 0, high = t->pieces - 1;

	while (low < high) {
		int middle = low + (high - low + 1) / 2;

		if (t->start[middle] <= at)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/*
 * Elements from @at on that lie one after the other, at most @count: where they
 * are in their piece's in and out.
 */
static uint64_t run_at(const struct tcp *t, uint64_t at, uint64_t count, const void **inp,
		       void **outp)
{
	int i = piece_at(t, at);
	size_t size = reduce_dtype_bytes(t->plan->dtype);
	uint64_t skip = at - t->start[i], left = t->start[i + 1] - at;
	const struct piece *p = &t->plan->piece[i];

	*inp = p->in ? (const unsigned char *)p->in + skip * size : NULL;
	*outp = p->out ? (unsigned char *)p->out + skip * size : NULL;
	if (t->scaled)
		*inp = *outp;
	return count < left ? count : left;
}

/* The bytes [from, to) of elements that start at @first, as buffers for one system call. */
static int runs_of(const struct tcp *t, uint64_t first, uint64_t from, uint64_t to, bool of_in,
		   struct iovec *v)
{
	size_t size = reduce_dtype_bytes(t->plan->dtype);
	int n = 0;

	if (to - from > CHUNK_BYTES)
		to = from + CHUNK_BYTES;
	while (from < to && n < RUNS) {
		uint64_t at = first + from / size, skip = from % size;
		const void *in;
		void *out;
		uint64_t bytes = run_at(t, at, UINT64_MAX, &in, &out) * size - skip;

		if (bytes > to - from)
			bytes = to - from;
		v[n++] = (struct iovec){
			.iov_base =
				(unsigned char *)(of_in ? (void *)(uintptr_t)in : out) + skip,
			.iov_len = bytes,
		};
		from += bytes;
	}
	return n;
}

static bool is_wide(const struct tcp *t, const struct step *s)
{
	return t->wide && s->round < t->team->size - 1;
}

/* Bytes of an element of this step on its way. */
static size_t wire_bytes(const struct tcp *t, const struct step *s)
{
	return is_wide(t, s) ? sizeof(float) : reduce_dtype_bytes(t->plan->dtype);
}

static float *partial_of(const struct tcp *t, int round)
{
	return t->partial[round & 1];
}

/* The first receive, or the first send, from step @i on. */
static int find_step(const struct tcp *t, int i, bool send)
{
	while (i < t->count && (t->steps[i].kind == STEP_SEND) != send)
		i++;
	return i;
}

static void advance(const struct tcp *t, struct cursor *c, bool send)
{
	c->step = find_step(t, c->step + 1, send);
	c->bytes = c->elements = 0;
}

/* Elements of a step of round @round that direction @c has dealt with. */
static uint64_t done_in_round(const struct tcp *t, const struct cursor *c, int round)
{
	if (c->step == t->count || t->steps[c->step].round > round)
		return UINT64_MAX;
	return t->steps[c->step].round == round ? c->elements : 0;
}

/* How much of its step each direction may do by now. */
static uint64_t sendable(const struct tcp *t, const struct step *s)
{
	uint64_t limit = s->round == 0 ? s->count : done_in_round(t, &t->in, s->round - 1);

	return limit < s->count ? limit : s->count;
}

static uint64_t receivable(const struct tcp *t, const struct step *s)
{
	uint64_t limit = s->count;

	/* Partial sums of this round go where those of two rounds ago are being sent from. */
	if (is_wide(t, s) && s->round > 0 && s->round < t->team->size - 2)
		limit = done_in_round(t, &t->out, s->round - 1);
	return limit < s->count ? limit : s->count;
}

/* The operand of this rank in f32, from element @at on, scaled; at most a block. */
static void widen_run(const struct tcp *t, uint64_t at, size_t n, float *to)
{
	const void *in;
	void *out;

	while (n) {
		size_t k = run_at(t, at, n, &in, &out);

		reduce_widen(t->plan->dtype, to, in, k);
		at += k;
		to += k;
		n -= k;
	}
}

static void widen_scaled(const struct tcp *t, uint64_t at, size_t n, float *to)
{
	widen_run(t, at, n, to);
	if (t->plan->pre != 1)
		copy_scaled(RINGUP_F32, to, to, n, t->plan->pre);
}

static void narrow_run(const struct tcp *t, uint64_t at, size_t n, const float *from)
{
	const void *in;
	void *out;

	while (n) {
		size_t k = run_at(t, at, n, &in, &out);

		reduce_narrow(t->plan->dtype, out, from, k);
		at += k;
		from += k;
		n -= k;
	}
}

/* What is done in one round: dividing and scaling wait for the last one. */
static struct reduce how_in(const struct tcp *t, const struct step *s)
{
	struct reduce how = {
		.dtype = is_wide(t, s) ? RINGUP_F32 : t->plan->dtype,
		.redop = t->plan->redop,
		.divisor = (uint32_t)t->team->size,
		.post = t->plan->post,
	};

	if (s->round < t->team->size - 2) {
		how.post = 1;
		if (how.redop == RINGUP_AVERAGE)
			how.redop = RINGUP_SUM;
	}
	return how;
}

/* Combine @n received elements with this rank's, from element @at of the tensor on. */
static void combine(struct tcp *t, const struct step *s, uint64_t at, size_t n)
{
	struct reduce how = how_in(t, s);
	const void *src[2] = { t->stage, NULL };
	size_t size = reduce_dtype_bytes(t->plan->dtype);
	void *out;

	while (n) {
		size_t k = run_at(t, at, n, &src[1], &out);

		reduce_many(&how, &out, 1, src, 2, k);
		src[0] = (const unsigned char *)src[0] + k * size;
		at += k;
		n -= k;
	}
}

static void combine_wide(struct tcp *t, const struct step *s, uint64_t at, size_t n)
{
	struct reduce how = how_in(t, s);
	const float *got = (const float *)(const void *)t->stage;
	bool last = s->round == t->team->size - 2;

	while (n) {
		size_t k = n < BLOCK ? n : BLOCK;
		float own[BLOCK];
		const void *src[2] = { got, own };
		void *dst = last ? own : partial_of(t, s->round) + (at - s->first);

		widen_scaled(t, at, k, own);
		reduce_many(&how, &dst, 1, src, 2, k);
		if (last)
			narrow_run(t, at, k, own);
		got += k;
		at += k;
		n -= k;
	}
}

static int lost(const struct tcp *t, bool next, const char *why, struct err *e)
{
	int n = t->team->size, rank = (t->team->rank + (next ? 1 : n - 1)) % n;

	return fail(e, RINGUP_EPEER, "rank %d: %s", rank, why);
}

/* Send what may be sent and the socket takes.  Returns 1 if anything happened. */
static int send_some(struct tcp *t, struct err *e)
{
	struct cursor *c = &t->out;
	struct iovec v[RUNS + 1];
	struct msghdr m = { .msg_iov = v };
	const struct step *s;
	size_t size, header_left;
	uint64_t limit;
	ssize_t sent;

	if (c->step == t->count)
		return 0;
	s = &t->steps[c->step];
	size = wire_bytes(t, s);
	header_left = sizeof(c->header) - c->header_done;
	limit = sendable(t, s) * size;
	if (header_left)
		v[m.msg_iovlen++] =
			(struct iovec){ (unsigned char *)&c->header + c->header_done,
					header_left };
	if (is_wide(t, s) && c->bytes < limit)
		v[m.msg_iovlen++] =
			(struct iovec){ (unsigned char *)partial_of(t, s->round + 1) + c->bytes,
					limit - c->bytes < CHUNK_BYTES ? limit - c->bytes
								       : CHUNK_BYTES };
	else if (c->bytes < limit)
		m.msg_iovlen +=
			(size_t)runs_of(t, s->first, c->bytes, limit,
					s->round == 0 && !is_gather(t->plan), v + m.msg_iovlen);
	if (m.msg_iovlen) {
		sent = sendmsg(t->next, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && (errno == EAGAIN || errno == EINTR))
			return errno == EINTR;
		if (sent < 0)
			return lost(t, true, strerror(errno), e);
		if ((size_t)sent < header_left) {
			c->header_done += (size_t)sent;
			return 1;
		}
		c->header_done = sizeof(c->header);
		c->bytes += (uint64_t)sent - header_left;
		c->elements = c->bytes / size;
	} else if (c->elements < s->count) {
		return 0;
	}
	if (c->bytes == s->count * size)
		advance(t, c, true);
	return 1;
}

/* One read; how many bytes, 0 if there are none now. */
static ssize_t receive(struct tcp *t, struct iovec *v, int n, struct err *e)
{
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
	ssize_t got;

	do
		got = recvmsg(t->prev, &m, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		return 0;
	if (got < 0)
		return lost(t, false, strerror(errno), e);
	if (got == 0)
		return lost(t, false, "closed its connection", e);
	return got;
}

static int receive_header(struct tcp *t, struct err *e)
{
	struct cursor *c = &t->in;
	struct iovec v = { (unsigned char *)&c->header + c->header_done,
			   sizeof(c->header) - c->header_done };
	ssize_t got = receive(t, &v, 1, e);
	int rc;

	if (got <= 0)
		return (int)got;
	c->header_done += (size_t)got;
	rc = c->header_done == sizeof(c->header) ? check_header(t, e) : 0;
	return rc ? rc : 1;
}

/* Into the tensor itself. */
static int receive_plain(struct tcp *t, const struct step *s, struct err *e)
{
	struct cursor *c = &t->in;
	size_t size = wire_bytes(t, s);
	struct iovec v[RUNS];
	ssize_t got =
		receive(t, v, runs_of(t, s->first, c->bytes, s->count * size, false, v), e);

	if (got <= 0)
		return (int)got;
	c->bytes += (uint64_t)got;
	c->elements = c->bytes / size;
	return 1;
}

/* By way of the stage. */
static int receive_reduce(struct tcp *t, const struct step *s, struct err *e)
{
	struct cursor *c = &t->in;
	size_t size = wire_bytes(t, s), whole;
	uint64_t limit = receivable(t, s) * size - c->bytes;
	size_t room = CHUNK_BYTES - t->staged;
	struct iovec v = { t->stage + t->staged, limit < room ? limit : room };
	ssize_t got = v.iov_len ? receive(t, &v, 1, e) : 0;

	if (got <= 0)
		return (int)got;
	c->bytes += (uint64_t)got;
	t->staged += (size_t)got;
	whole = t->staged / size;
	(is_wide(t, s) ? combine_wide : combine)(t, s, s->first + c->elements, whole);
	c->elements += whole;
	t->staged -= whole * size;
	memmove(t->stage, t->stage + whole * size, t->staged);
	return 1;
}

/* Receive what has come and may be taken.  Returns 1 if anything happened. */
static int receive_some(struct tcp *t, struct err *e)
{
	struct cursor *c = &t->in;
	const struct step *s;

	if (c->step == t->count)
		return 0;
	if (c->header_done < sizeof(c->header))
		return receive_header(t, e);
	s = &t->steps[c->step];
	if (c->elements == s->count) {
		advance(t, c, false);
		return 1;
	}
	return s->kind == STEP_RECV ? receive_plain(t, s, e) : receive_reduce(t, s, e);
}

/* Buffers for partial sums, and the first of them: what this rank sends first. */
static int start_partial(struct tcp *t, struct err *e)
{
	uint64_t count = t->steps[0].count, most = count + 1, i;

	if (most > t->partial_room) {
		for (i = 0; i < 2; i++) {
			free(t->partial[i]);
			t->partial[i] = malloc(most * sizeof(float));
		}
		t->partial_room = t->partial[0] && t->partial[1] ? most : 0;
		if (!t->partial_room)
			return fail(e, RINGUP_ENOMEM, "%llu partial sums",
				    (unsigned long long)most);
	}
	for (i = 0; i < count; i += BLOCK)
		widen_scaled(t, t->steps[0].first + i, count - i < BLOCK ? count - i : BLOCK,
			     partial_of(t, 1) + i);
	return 0;
}

/* The steps from t->part on. */
static int start_part(struct tcp *t, struct err *e)
{
	const struct team *team = t->team;
	const struct plan *p = t->plan;
	uint64_t count = p->count - t->part;
	int i;

	if (t->wide && count > PART_COUNT)
		count = PART_COUNT;
	if (p->kind == PLAN_ALLREDUCE)
		t->count = ring_allreduce(team->rank, team->size, count, t->steps);
	else if (p->kind == PLAN_BROADCAST)
		t->count = ring_broadcast(team->rank, team->size, p->root, count, t->steps);
	else
		t->count = ring_allgather(team->rank, team->size, p->counts, t->steps);
	for (i = 0; i < t->count; i++)
		t->steps[i].first += t->part;
	t->out.step = find_step(t, 0, true);
	t->in.step = find_step(t, 0, false);
	t->out.bytes = t->out.elements = t->in.bytes = t->in.elements = 0;
	return t->wide && t->count ? start_partial(t, e) : 0;
}

/* Whatever this rank can do for itself beforehand. */
static void start_own(struct tcp *t)
{
	const struct plan *p = t->plan;
	size_t size = reduce_dtype_bytes(p->dtype);
	double factor = t->team->size > 1 ? p->pre : p->pre * p->post;
	uint64_t skip = 0;
	int i;

	if (is_gather(p))
		for (i = 0; i < t->team->rank; i++)
			skip += p->counts[i] * size;
	t->scaled = p->kind == PLAN_ALLREDUCE && factor != 1 && !t->wide;
	for (i = 0; i < p->pieces; i++) {
		const struct piece *q = &p->piece[i];
		unsigned char *to = q->out ? (unsigned char *)q->out + skip : NULL;

		if (t->scaled)
			copy_scaled(p->dtype, to, q->in, q->count, factor);
		else if ((p->kind != PLAN_ALLREDUCE || t->team->size == 1) &&
			 (p->kind != PLAN_BROADCAST || t->team->rank == p->root) && to &&
			 to != q->in)
			copy_bytes(to, q->in, q->count * size);
	}
}

static int tcp_start(void *self, const struct plan *p, struct err *e)
{
	struct tcp *t = self;
	int rc;

	if (p->kind == PLAN_BARRIER)
		p = &t->barrier;
	t->plan = p;
	t->part = 0;
	t->staged = 0;
	t->sequence++;
	t->wide = p->kind == PLAN_ALLREDUCE && reduce_is_half(p->dtype) &&
		  p->redop != RINGUP_MIN && p->redop != RINGUP_MAX && t->team->size > 1;
	t->out = (struct cursor){ .header = header_of(t, p) };
	t->in = (struct cursor){ 0 };
	rc = place_pieces(t, p, e);
	if (rc)
		return rc;
	start_own(t);
	return start_part(t, e);
}

static int tcp_step(void *self, struct err *e)
{
	struct tcp *t = self;
	int rc;

	for (;;) {
		int sent = send_some(t, e);
		int got = sent < 0 ? 0 : receive_some(t, e);

		if (sent < 0 || got < 0)
			return fail_in(e, "%s over tcp", kind_name((int)t->plan->kind));
		if (sent || got)
			continue;
		if (t->out.step < t->count || t->in.step < t->count)
			return 0;
		if (!t->wide || t->plan->count - t->part <= PART_COUNT)
			return 1;
		t->part += PART_COUNT;
		rc = start_part(t, e);
		if (rc)
			return rc;
	}
}

static void tcp_block(void *self, int64_t deadline_ns)
{
	const struct tcp *t = self;
	const struct step *s;
	struct pollfd fds[2] = { { .fd = t->prev }, { .fd = t->next } };
	int ms = clock_left_ms(deadline_ns);

	if (__atomic_load_n(t->team->abort, __ATOMIC_ACQUIRE))
		return;
	if (t->in.step < t->count) {
		s = &t->steps[t->in.step];
		if (t->in.header_done < sizeof(t->in.header) ||
		    t->in.bytes < receivable(t, s) * wire_bytes(t, s))
			fds[0].events = POLLIN;
	}
	if (t->out.step < t->count) {
		s = &t->steps[t->out.step];
		if (t->out.header_done < sizeof(t->out.header) ||
		    t->out.bytes < sendable(t, s) * wire_bytes(t, s))
			fds[1].events = POLLOUT;
	}
	(void)poll(fds, 2, ms < 0 || ms > SLICE_MS ? SLICE_MS : ms);
}

const struct backend backend_tcp = {
	.name = "tcp",
	.summary = "rings over TCP, for any hosts",
	.size = sizeof(struct tcp),
	.open = tcp_open,
	.can = tcp_can,
	.start = tcp_start,
	.step = tcp_step,
	.block = tcp_block,
	.close = tcp_close,
};
