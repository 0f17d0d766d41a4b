/* hosts.c - the back end for several hosts: shared memory within, sockets between them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cut.h"
#include "backend/mail.h"
#include "backend/relay.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "coll/sweep.h"
#include "wire/grid.h"
#include "wire/mesh.h"
#include "wire/segment.h"

/*
 * A plan is cut into chunks.  Each chunk has a carrier on every host, the local
 * ranks with a rail in turn: chunk k is carried by local rank k mod rails.  Three
 * counters per rank, each written by that rank only; chunk g of all that ever
 * ran here uses slot g mod slots, and
 *
 *	in   > g   I have put what I contribute to chunk g where its carrier looks
 *	out  > g   I have carried chunk g: its result is in my slot
 *	took > g   I have the result of chunk g, and need its slots no more
 *
 * Sums: everybody puts his share into his own slot; the carrier adds them up in
 * rank order, does the steps of the chunk (see sweep.h) with the carriers of the
 * other hosts, and leaves the result in its own slot, from where the others take
 * it.  Where nothing is added up, everybody puts right into the carrier's slot.
 * Of what this host is to add up itself the shares wait for what the others send,
 * and all of it is read once; the sums go to the carrier's own buffer, too.  A rank
 * that is alone on its host sends from its buffers and receives into them.
 *
 * A slot is written again when all ranks here have taken the chunk that was in
 * it.  Several chunks are in flight at once, so that puts, sums, messages and
 * takes overlap; a message that comes before there is room for it stays in its
 * socket.  That cannot lock up: who sends for chunk g has room for it himself,
 * so all that he has to say about chunk g - slots stands before it in the stream,
 * and the oldest chunk of all can always be completed.
 *
 * Partial sums of f16 and bf16 are f32, also on their way, and rounded once.
 */
enum { FLIGHTS = 8, ROUNDS = 2 * GRID_DIMS + 2 };

/* Hosts that take part in sums along one dimension, and elements widened at a time. */
enum { SOURCES = GRID_PRIME + 1, BLOCK = 1024, HOSTS_LOCAL = 4096 };

/* Small enough that fewer rounds are worth more bytes; of two hosts, where the bytes are
 * the same, worth adding up everything twice. */
enum { SMALL_BYTES = 4096, SMALL_OF_TWO = 32768 };

/* The most that a wait for the sockets takes until it looks for an alarm. */
enum { SLICE_MS = 100, LINGER_NS = 300000, STRANGER_NS = 1000000, SKIP_WAITS = 500 };

/* Elements of a chunk. */
struct range {
	uint64_t first, end;
};

/* A chunk that this rank carries. */
struct flight {
	bool open, gathered, done;
	uint64_t chunk;
	const unsigned char *in; /* its elements in this rank's own buffers, if no */
	unsigned char *out;      /* slot is needed, or NULL                        */
	struct range late;       /* to be gathered in round 1 only                    */
	struct range placed;     /* sums that are in this rank's own buffer already   */
	int round, sending, due[ROUNDS];
	int steps;
	struct step *step;
	uint64_t *stage_at; /* of each step that brings contributions: bytes into stage */
	bool *come;         /* of each step: its message has come, or begun to */
	struct mail_out *mail;
	unsigned char *partial; /* sums: in the slot, or f32 in memory of its own */
	unsigned char *result;  /* the slot                                      */
	unsigned char *stage, *wide;
};

struct hosts {
	const struct team *team;
	struct grid grid;
	struct cut cut;
	struct mail mail;
	struct row *row; /* where we sleep         */
	struct seat *seats, *alone;
	unsigned char *slots, *own_slots;
	size_t area, slot_bytes;
	uint64_t slot_count;
	int here, me, rails;
	bool carries; /* this rank has a rail */
	struct seat_knob knob;
	struct pollfd *poll;
	int first_round, last_sum; /* of this host: the last round in which it adds up */

	const struct plan *plan;
	bool whole, active;
	bool past;     /* results go past the caches   */
	uint64_t base; /* chunks of all plans before */
	uint64_t next_put, next_take;
	uint64_t next_open, next_out; /* carried: this rank's first, second ... */
	uint64_t free_seen;
	struct flight flight[FLIGHTS];
	void *bounce; /* a copy of the input, where it overlaps the output */
	size_t bounce_bytes;
	struct plan bounced;
	struct piece bounced_piece;
	uint64_t seen;      /* the others' counters, when last looked at */
	int64_t idle_since; /* 0: not idle */
	bool long_away;     /* the last time it gave way took long     */
	int skips;          /* waits that shall not give way any more */
};

static bool adds(const struct hosts *h)
{
	return h->plan->kind == PLAN_ALLREDUCE || h->plan->kind == PLAN_REDUCESCATTER ||
	       h->plan->kind == PLAN_BARRIER;
}

/* ---- counters ---- */

static bool above(const uint64_t *word, uint64_t g)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) > g;
}

static void publish(struct hosts *h, uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	if (h->here > 1)
		seat_ring(h->row, h->me);
}

static bool slots_free(struct hosts *h, uint64_t k)
{
	uint64_t g = h->base + k;
	int r;

	if (g < h->slot_count || h->free_seen > g - h->slot_count)
		return true;
	for (r = 0; r < h->here; r++)
		if (!above(&h->seats[r].took, g - h->slot_count))
			return false;
	h->free_seen = g - h->slot_count + 1;
	return true;
}

static unsigned char *slot(const struct hosts *h, int local, uint64_t k)
{
	return h->slots + (size_t)local * h->area +
	       (size_t)((h->base + k) % h->slot_count) * h->slot_bytes;
}

static int carrier(const struct hosts *h, uint64_t k)
{
	return (int)(k % (uint64_t)h->rails);
}

/* Changes when another rank of this host has got on. */
static uint64_t look(const struct hosts *h)
{
	uint64_t sum = 0;
	int r;

	for (r = 0; r < h->here; r++)
		if (r != h->me)
			sum += __atomic_load_n(&h->seats[r].in, __ATOMIC_RELAXED) +
			       __atomic_load_n(&h->seats[r].out, __ATOMIC_RELAXED) +
			       __atomic_load_n(&h->seats[r].took, __ATOMIC_RELAXED);
	return sum;
}

/* ---- opening and closing ---- */

static void hosts_close(void *self)
{
	struct hosts *h = self;
	int i;

	seat_knob_close(&h->knob);
	mail_close(&h->mail);
	cut_close(&h->cut);
	for (i = 0; i < FLIGHTS; i++) {
		free(h->flight[i].step);
		free(h->flight[i].stage_at);
		free(h->flight[i].come);
		free(h->flight[i].mail);
		free(h->flight[i].stage);
		free(h->flight[i].wide);
	}
	free(h->alone);
	free(h->own_slots);
	free(h->poll);
	free(h->bounce);
	memset(h, 0, sizeof(*h));
}

static uint64_t stage_bytes(const struct hosts *h)
{
	bool leaned_on = h->grid.hosts > h->grid.cells;

	return h->slot_bytes * (leaned_on ? 2 : 1) + 128 * (uint64_t)h->grid.hosts;
}

static int open_flight_memory(const struct hosts *h, struct flight *f)
{
	size_t most = (size_t)sweep_most(&h->grid);

	f->step = calloc(most, sizeof(*f->step));
	f->stage_at = calloc(most, sizeof(*f->stage_at));
	f->come = calloc(most, sizeof(*f->come));
	f->mail = calloc(most, sizeof(*f->mail));
	f->stage = aligned_alloc(64, stage_bytes(h));
	f->wide = aligned_alloc(64, h->slot_bytes);
	return f->step && f->stage_at && f->come && f->mail && f->stage && f->wide;
}

/* The slots of this host's ranks; a rank that is alone may have its own. */
static int find_slots(struct hosts *h, struct err *e)
{
	struct segment *seg = h->team->segment;

	if (seg) {
		h->seats = seg->seats;
		h->row = &seg->row;
		h->slots = seg->slots;
		h->area = seg->slot_area;
	} else {
		h->area = (size_t)FLIGHTS * SEGMENT_SLOT_BYTES;
		h->alone = aligned_alloc(64, sizeof(*h->alone));
		h->own_slots = aligned_alloc(64, h->area);
		if (!h->alone || !h->own_slots)
			return fail(e, RINGUP_ENOMEM, "slots for tcp");
		memset(h->alone, 0, sizeof(*h->alone));
		h->seats = h->alone;
		h->slots = h->own_slots;
	}
	/* More ranks have more chunks in flight, hence smaller ones. */
	h->slot_count = (uint64_t)h->rails * 2 > FLIGHTS ? (uint64_t)h->rails * 2 : FLIGHTS;
	h->slot_bytes = h->area / h->slot_count / 4096 * 4096;
	if (h->slot_bytes < 4096 || (uint64_t)h->grid.hosts > h->slot_bytes / 64)
		return fail(e, RINGUP_ENOBACKEND, "tcp cannot serve %d hosts with %d rails",
			    h->grid.hosts, h->rails);
	return 0;
}

static int check_team(const struct team *t, struct err *e)
{
	if (t->size > 1 && !t->segment && t->local_size > 1)
		return fail(e, RINGUP_ENOBACKEND, "tcp needs memory that the ranks share");
	if (t->hosts > 1 && (!t->mesh || !t->host_of))
		return fail(e, RINGUP_ENOBACKEND, "tcp needs connections between the hosts");
	if (t->size > 1 && t->hosts == 1 && !t->segment)
		return fail(e, RINGUP_ENOBACKEND, "tcp needs connections between the ranks");
	if (t->local_size > HOSTS_LOCAL)
		return fail(e, RINGUP_ENOBACKEND, "tcp serves %d ranks of a host at most",
			    HOSTS_LOCAL);
	return 0;
}

/* Rounds that matter to what this host does with sums. */
static void find_rounds(struct hosts *h)
{
	int host = h->team->host;

	h->last_sum = host < h->grid.cells ? h->grid.dims : -1;
	if (h->grid.hosts == 1)
		h->last_sum = -1;
}

static int place_message(void *ctx, int host, const struct mail_head *m, struct mail_in *in,
			 struct err *e);

static int hosts_open(void *self, const struct team *team, struct err *e)
{
	struct hosts *h = self;
	int rc, i;

	rc = check_team(team, e);
	if (rc)
		return rc;
	h->team = team;
	h->me = team->local_rank;
	h->here = team->local_size ? team->local_size : 1;
	h->rails = team->mesh && team->mesh->rails ? team->mesh->rails : 1;
	h->carries = h->me < h->rails;
	grid_init(&h->grid, team->hosts > 1 ? team->hosts : 1);
	find_rounds(h);
	rc = find_slots(h, e);
	if (!rc)
		rc = cut_open(&h->cut, team, &h->grid, h->slot_bytes, stage_bytes(h), e);
	if (!rc)
		rc = mail_open(&h->mail, team->mesh, h->grid.hosts, e);
	h->mail.place = place_message;
	h->mail.ctx = h;
	h->poll = calloc((size_t)h->mail.lines + 1, sizeof(*h->poll));
	for (i = 0; i < FLIGHTS && h->carries && !rc; i++)
		if (!open_flight_memory(h, &h->flight[i]))
			rc = fail(e, RINGUP_ENOMEM, "buffers for tcp");
	if (!rc && !h->poll)
		rc = fail(e, RINGUP_ENOMEM, "buffers for tcp");
	return rc || !h->row ? rc : seat_knob_open(&h->knob, e);
}

static bool hosts_can(const void *self, const struct plan *p)
{
	(void)self;
	return (unsigned int)p->dtype < RINGUP_DTYPE_COUNT;
}

/* ---- a chunk, step by step ---- */

static uint64_t wire_bytes(const struct hosts *h)
{
	return h->cut.wide ? sizeof(float) : h->cut.bytes;
}

static bool is_small(const struct hosts *h, uint64_t elements)
{
	uint64_t copies = h->grid.hosts > h->grid.cells, bytes = elements * wire_bytes(h);
	int d;

	for (d = 0; d < h->grid.dims; d++)
		copies += (uint64_t)h->grid.radix[d] - 1;
	if (bytes * copies > stage_bytes(h))
		return false;
	return bytes <= (h->grid.hosts == 2 ? SMALL_OF_TWO : SMALL_BYTES);
}

static enum sweep_kind sweep_kind(const struct plan *p)
{
	static const enum sweep_kind kinds[PLAN_KINDS] = {
		[PLAN_ALLREDUCE] = SWEEP_ALLREDUCE,         [PLAN_BROADCAST] = SWEEP_BROADCAST,
		[PLAN_ALLGATHER] = SWEEP_ALLGATHER,         [PLAN_BARRIER] = SWEEP_ALLREDUCE,
		[PLAN_REDUCESCATTER] = SWEEP_REDUCESCATTER, [PLAN_ALLTOALL] = SWEEP_EXCHANGE,
	};

	return kinds[p->kind];
}

static int root_host(const struct hosts *h)
{
	if (h->plan->kind != PLAN_BROADCAST || !h->team->host_of)
		return 0;
	return h->team->host_of[h->plan->root];
}

/*
 * May the ranks' shares of what this host adds up in round 1 be added up only then, before
 * what the other hosts send?  The sum is the same to the bit if this host is the first of
 * them or the second, since two summands may change places.
 */
static bool may_be_late(const struct hosts *h)
{
	return h->plan->kind == PLAN_ALLREDUCE && !h->cut.wide &&
	       h->grid.hosts == h->grid.cells && h->grid.hosts > 1 &&
	       grid_digit(&h->grid, h->team->host, 0) <= 1 && h->plan->redop != RINGUP_MIN &&
	       h->plan->redop != RINGUP_MAX;
}

/* A rank that is alone on its host needs no slot if the chunk lies in one piece. */
static void find_own(struct hosts *h, struct flight *f)
{
	struct cut_walk w;

	f->in = f->out = NULL;
	if (h->here > 1 || h->plan->kind != PLAN_ALLREDUCE || h->cut.wide ||
	    h->plan->pre != 1 || h->grid.hosts > h->grid.cells || h->grid.hosts == 1)
		return;
	cut_walk(&h->cut, &w, f->chunk, true, 0, UINT64_MAX);
	if (!cut_next(&w) || w.count < cut_elements(&h->cut, f->chunk))
		return;
	f->in = w.in;
	f->out = w.out;
	f->placed.end = UINT64_MAX;
}

static bool is_relayed(const struct hosts *h)
{
	return h->plan->kind == PLAN_ALLTOALL && h->cut.relays;
}

static int steps_of(struct hosts *h, struct flight *f)
{
	struct sweep s = { .kind = sweep_kind(h->plan),
			   .whole = h->whole,
			   .root = root_host(h) };

	if (h->grid.hosts == 1)
		return 0;
	if (is_relayed(h))
		return relay_steps(&h->cut, f->chunk, f->step);
	s.start = cut_vector(&h->cut, f->chunk, &s.into);
	return sweep_steps(&h->grid, h->team->host, &s, f->step);
}

static void make_steps(struct hosts *h, struct flight *f)
{
	uint64_t staged = 0;
	int i;

	f->steps = steps_of(h, f);
	memset(f->due, 0, sizeof(f->due));
	f->late = f->placed = (struct range){ 0, 0 };
	find_own(h, f);
	for (i = 0; i < f->steps; i++) {
		const struct step *t = &f->step[i];

		f->come[i] = false;
		if (t->kind != STEP_SEND)
			f->due[t->round]++;
		if (t->kind == STEP_RECV_REDUCE) {
			f->stage_at[i] = staged;
			staged += t->count * wire_bytes(h);
			if (t->round == 1 && !h->whole && !f->in && may_be_late(h))
				f->late = (struct range){ t->first, t->first + t->count };
		}
	}
}

static uint64_t chunk_of(const struct hosts *h, uint64_t carried)
{
	return carried * (uint64_t)h->rails + (uint64_t)h->me;
}

static bool open_next(struct hosts *h)
{
	uint64_t k = chunk_of(h, h->next_open);
	struct flight *f = &h->flight[h->next_open % FLIGHTS];

	if (!h->carries || k >= h->cut.chunks || f->open || !slots_free(h, k))
		return false;
	f->open = true;
	f->gathered = f->done = false;
	f->chunk = k;
	f->round = -1;
	f->sending = 0;
	f->result = slot(h, h->me, k);
	f->partial = h->cut.wide ? f->wide : f->result;
	make_steps(h, f);
	h->next_open++;
	mail_look(&h->mail);
	return true;
}

static int place_message(void *ctx, int host, const struct mail_head *m, struct mail_in *in,
			 struct err *e)
{
	struct hosts *h = ctx;
	uint64_t carried = m->chunk / (uint64_t)h->rails;
	struct flight *f = &h->flight[carried % FLIGHTS];
	int i;

	if (m->chunk >= h->cut.chunks || carrier(h, m->chunk) != h->me || carried < h->next_out)
		return fail(e, RINGUP_EMISMATCH, "a message for chunk %llu",
			    (unsigned long long)m->chunk);
	if (carried >= h->next_open)
		return 0;
	for (i = 0; i < f->steps; i++) {
		const struct step *t = &f->step[i];
		bool sum = t->kind == STEP_RECV_REDUCE;
		uint64_t size = sum ? wire_bytes(h) : h->cut.bytes;

		if (t->kind == STEP_SEND || t->peer != host || (uint32_t)t->round != m->round ||
		    f->come[i] || m->bytes != t->count * size)
			continue;
		f->come[i] = true;
		in->to = sum ? f->stage + f->stage_at[i]
			     : (f->out ? f->out : f->result) + t->first * size;
		in->left = m->bytes;
		in->due = &f->due[t->round];
		return 1;
	}
	return fail(e, RINGUP_EMISMATCH, "a message of %llu bytes in round %u",
		    (unsigned long long)m->bytes, m->round);
}

/* This host's sums, as far as they have come in this round. */
static const unsigned char *sums(const struct flight *f, int round)
{
	return f->in && round == 1 ? f->in : f->partial;
}

static void send_step(struct hosts *h, struct flight *f, int i)
{
	const struct step *t = &f->step[i];
	bool sum = adds(h) && t->round <= h->grid.dims;
	uint64_t size = sum ? wire_bytes(h) : h->cut.bytes;
	struct mail_out *o = &f->mail[i];

	o->data = (sum ? sums(f, t->round) : f->out ? f->out : f->result) + t->first * size;
	o->pending = &f->sending;
	o->head.chunk = f->chunk;
	o->head.bytes = t->count * size;
	o->head.round = (uint32_t)t->round;
	o->head.none = 0;
	f->sending++;
	mail_post(&h->mail, t->peer, o);
}

/* ---- sums ---- */

static struct reduce how_to(const struct hosts *h, bool last)
{
	const struct plan *p = h->plan;
	struct reduce how = {
		.dtype = h->cut.wide ? RINGUP_F32 : p->dtype,
		.redop = p->redop,
		.divisor = (uint32_t)h->team->size,
		.post = last ? p->post : 1,
	};

	if (!last && how.redop == RINGUP_AVERAGE)
		how.redop = RINGUP_SUM;
	return how;
}

/* Up to SOURCES vectors of f32, and what becomes of them: f32 again, or rounded. */
static void combine_wide(struct hosts *h, const struct reduce *how, const float *const *src,
			 int n, uint64_t count, float *partial, unsigned char *result)
{
	uint64_t at, k;
	int i;

	for (at = 0; at < count; at += k) {
		const void *from[SOURCES];
		float block[BLOCK];
		void *to = partial ? partial + at : block;

		k = count - at < BLOCK ? count - at : BLOCK;
		for (i = 0; i < n; i++)
			from[i] = src[i] + at;
		reduce_many(how, &to, 1, from, n, k);
		if (result)
			reduce_narrow(h->plan->dtype, result + at * h->cut.bytes, block, k);
	}
}

/* One rank of this host: its share of a run of elements. */
static const unsigned char *share(const struct hosts *h, const struct cut_walk *w, int local)
{
	if (local == h->me && h->plan->pre == 1)
		return w->in;
	return slot(h, local, w->chunk) + w->first * h->cut.bytes;
}

static bool is_late(const struct flight *f)
{
	return f->round == 1 && f->late.end;
}

/* Of a sum: in place, the lines of a result have just been read. */
static bool goes_past(const struct hosts *h, const struct cut_walk *w)
{
	return h->past && w->in != w->out && copy_sums_past();
}

/* What lies in runs in this rank's buffers: the last sums go there, too, and to the slot if
 * anybody else wants them.  In front of @src come the shares of this host's ranks, if late. */
static void combine_runs(struct hosts *h, struct flight *f, const struct reduce *how,
			 const void *const *src, int n, const struct step *t, bool last)
{
	const void *from[HOSTS_LOCAL + SOURCES];
	int i, shares = is_late(f) ? h->here : 0;
	bool places = last && !f->out;
	uint64_t size = h->cut.bytes;
	struct cut_walk w;

	cut_walk(&h->cut, &w, f->chunk, true, t->first, t->first + t->count);
	while (cut_next(&w)) {
		void *to[2] = { f->result + w.first * size, w.out };
		int ndst = places ? 2 : 1;

		for (i = 0; i < shares; i++)
			from[i] = share(h, &w, i);
		for (i = 0; i < n; i++)
			from[shares + i] =
				(const unsigned char *)src[i] + (w.first - t->first) * size;
		reduce_past(how, last && !places ? to + 1 : to, ndst,
			    places && goes_past(h, &w) ? 1 : ndst, from, shares + n, w.count);
	}
	if (places)
		f->placed = (struct range){ t->first, t->first + t->count };
}

/* The end of a round: add up what has come, in the order of the hosts. */
static void combine(struct hosts *h, struct flight *f)
{
	bool last = f->round == h->last_sum, mine = is_late(f);
	const void *src[SOURCES];
	const struct step *t = NULL;
	struct reduce how = how_to(h, last);
	uint64_t size = wire_bytes(h);
	int i, n = 0;

	for (i = 0; i < f->steps; i++) {
		const struct step *s = &f->step[i];

		if (s->round != f->round || s->kind != STEP_RECV_REDUCE)
			continue;
		t = s;
		if (s->peer > h->team->host && !mine) {
			src[n++] = sums(f, f->round) + t->first * size;
			mine = true;
		}
		src[n++] = f->stage + f->stage_at[i];
	}
	if (!t || !t->count)
		return;
	if (!mine)
		src[n++] = sums(f, f->round) + t->first * size;
	if (h->cut.wide)
		combine_wide(h, &how, (const float *const *)src, n, t->count,
			     last ? NULL : (float *)(void *)f->partial + t->first,
			     last ? f->result + t->first * h->cut.bytes : NULL);
	else if (h->plan->kind == PLAN_ALLREDUCE)
		combine_runs(h, f, &how, src, n, t, last);
	else
		reduce_many(&how, &(void *){ f->partial + t->first * size }, 1, src, n,
			    t->count);
}

static void gather_wide(struct hosts *h, struct flight *f, const struct cut_walk *w)
{
	struct reduce how = how_to(h, h->grid.hosts == 1);
	float *sum = (float *)(void *)f->partial + w->first, block[BLOCK];
	enum ringup_dtype dtype = h->plan->dtype;
	uint64_t at, k;
	int r;

	for (at = 0; at < w->count; at += k) {
		void *to = sum + at;
		const void *from[2] = { to, block };

		k = w->count - at < BLOCK ? w->count - at : BLOCK;
		for (r = 0; r < h->here; r++) {
			bool last = r == h->here - 1;
			struct reduce now = how;

			if (!last) {
				now.post = 1;
				now.redop =
					now.redop == RINGUP_AVERAGE ? RINGUP_SUM : now.redop;
			}
			reduce_widen(dtype, r ? block : to, share(h, w, r) + at * h->cut.bytes,
				     k);
			if (r || h->grid.hosts == 1)
				reduce_many(&now, &to, 1, from, r ? 2 : 1, k);
		}
		if (h->grid.hosts == 1)
			reduce_narrow(dtype, f->result + (w->first + at) * h->cut.bytes, to, k);
	}
}

static void gather_run(struct hosts *h, struct flight *f, const struct cut_walk *w)
{
	struct reduce how = how_to(h, h->grid.hosts == 1);
	void *to = f->partial + w->first * h->cut.bytes;
	const void *src[HOSTS_LOCAL];
	int r;

	if (h->here == 1 && h->grid.hosts > 1 && h->plan->pre == 1) {
		copy_bytes(to, w->in, w->count * h->cut.bytes);
		return;
	}
	for (r = 0; r < h->here; r++)
		src[r] = share(h, w, r);
	reduce_many(&how, &to, 1, src, h->here, w->count);
}

static void put_run(const struct hosts *h, const struct cut_walk *w, unsigned char *to)
{
	to += w->first * h->cut.bytes;
	if (adds(h) && h->plan->pre != 1)
		copy_scaled(h->plan->dtype, to, w->in, w->count, h->plan->pre);
	else
		copy_bytes(to, w->in, w->count * h->cut.bytes);
}

/* ---- within the host ---- */

/* Has this rank anything to contribute that its carrier does not fetch itself? */
static bool must_put(const struct hosts *h, uint64_t k)
{
	if (h->plan->kind == PLAN_BROADCAST)
		return h->plan->root == h->team->rank;
	return !adds(h) || carrier(h, k) != h->me || h->plan->pre != 1;
}

static bool put_next(struct hosts *h)
{
	uint64_t k = h->next_put;
	struct cut_walk w;
	int to = adds(h) ? h->me : carrier(h, k);

	if (k >= h->cut.chunks || !slots_free(h, k))
		return false;
	if (must_put(h, k)) {
		cut_walk(&h->cut, &w, k, false, 0, UINT64_MAX);
		while (cut_next(&w))
			put_run(h, &w, slot(h, to, k));
	}
	h->next_put++;
	publish(h, &h->seats[h->me].in, h->base + k + 1);
	return true;
}

/* Has everybody here contributed who should? */
static bool all_put(const struct hosts *h, uint64_t k)
{
	const struct team *t = h->team;
	int r;

	if (h->plan->kind == PLAN_BROADCAST && t->host_of &&
	    t->host_of[h->plan->root] != t->host)
		return true;
	for (r = 0; r < h->here; r++)
		if (!above(&h->seats[r].in, h->base + k))
			return false;
	return true;
}

static void gather(struct hosts *h, struct flight *f, uint64_t first, uint64_t end)
{
	struct cut_walk w;

	if (!adds(h) || f->in)
		return;
	cut_walk(&h->cut, &w, f->chunk, false, first, end);
	while (cut_next(&w)) {
		if (h->cut.wide)
			gather_wide(h, f, &w);
		else
			gather_run(h, f, &w);
	}
}

static void begin_round(struct hosts *h, struct flight *f)
{
	int i;

	f->round++;
	if (is_relayed(h))
		relay_fill(&h->cut, f->chunk, f->round, f->result);
	for (i = 0; i < f->steps; i++)
		if (f->step[i].round == f->round && f->step[i].kind == STEP_SEND)
			send_step(h, f, i);
}

static bool advance(struct hosts *h, struct flight *f)
{
	bool any = false;

	if (!f->open || f->done)
		return false;
	if (!f->gathered) {
		if (!all_put(h, f->chunk))
			return false;
		if (f->late.first)
			gather(h, f, 0, f->late.first);
		gather(h, f, f->late.end, UINT64_MAX);
		f->gathered = any = true;
		begin_round(h, f);
	}
	while (!f->sending && !f->due[f->round]) {
		any = true;
		if (adds(h))
			combine(h, f);
		if (f->round == 2 * h->grid.dims + 1) {
			f->done = true;
			break;
		}
		begin_round(h, f);
	}
	return any;
}

static bool deliver(struct hosts *h)
{
	struct flight *f = &h->flight[h->next_out % FLIGHTS];

	if (h->next_out == h->next_open || !f->done)
		return false;
	f->open = false;
	h->next_out++;
	publish(h, &h->seats[h->me].out, h->base + f->chunk + 1);
	return true;
}

static void take(struct hosts *h, uint64_t k, uint64_t first, uint64_t end)
{
	const unsigned char *from = slot(h, carrier(h, k), k);
	struct cut_walk w;

	cut_walk(&h->cut, &w, k, true, first, end);
	while (cut_next(&w))
		(h->past ? copy_past : copy_bytes)(w.out, from + w.first * h->cut.bytes,
						   w.count * h->cut.bytes);
}

static bool take_next(struct hosts *h)
{
	uint64_t k = h->next_take;
	int from = carrier(h, k);
	const struct plan *p = h->plan;
	struct range placed = { 0, 0 };

	if (k >= h->cut.chunks || !above(&h->seats[from].out, h->base + k))
		return false;
	/* Its flight stays as it is until all here have taken it. */
	if (from == h->me)
		placed = h->flight[k / (uint64_t)h->rails % FLIGHTS].placed;
	/* Who is the root has it. */
	if (p->kind != PLAN_BROADCAST || p->root != h->team->rank) {
		if (placed.first)
			take(h, k, 0, placed.first);
		take(h, k, placed.end, UINT64_MAX);
	}
	h->next_take++;
	publish(h, &h->seats[h->me].took, h->base + k + 1);
	return true;
}

/* ---- plans ---- */

static struct mail_head describe(const struct hosts *h, const struct plan *p)
{
	size_t n = (size_t)h->team->size;
	struct mail_head m = {
		.kind = (uint8_t)p->kind,
		.dtype = (uint8_t)p->dtype,
		.redop = (uint8_t)p->redop,
		.root = p->root,
		.count = p->count,
	};

	if (p->kind == PLAN_ALLREDUCE || p->kind == PLAN_REDUCESCATTER) {
		double scale[2] = { p->pre, p->post };

		m.digest = hash_bytes(scale, sizeof(scale));
	}
	if (p->kind == PLAN_ALLGATHER || p->kind == PLAN_REDUCESCATTER)
		m.digest += hash_bytes(p->counts, n * sizeof(*p->counts));
	if (p->kind == PLAN_ALLTOALL)
		m.digest = hash_bytes(p->matrix, n * n * sizeof(*p->matrix));
	/* The ranks' own differ. */
	if (p->kind == PLAN_ALLGATHER || p->kind == PLAN_ALLTOALL || p->kind == PLAN_BARRIER)
		m.count = 0;
	if (p->kind == PLAN_BARRIER)
		m.dtype = m.redop = 0;
	return m;
}

/* Elements: what this rank sends in an all-to-all; else all ranks' blocks together. */
static uint64_t contributed(const struct hosts *h, const struct plan *p)
{
	size_t n = (size_t)h->team->size, j;
	uint64_t all = 0;

	for (j = 0; j < n; j++)
		all += p->kind == PLAN_ALLTOALL ? p->matrix[(size_t)h->team->rank * n + j]
						: p->counts[j];
	return all;
}

/* Parts come out at other places than they went in: where the buffers overlap, the
 * input is copied first. */
static int part_buffers(struct hosts *h, const struct plan **pp, struct err *e)
{
	const struct plan *p = *pp;
	uintptr_t in = (uintptr_t)p->piece->in, out = (uintptr_t)p->piece->out;
	size_t size = reduce_dtype_bytes(p->dtype), n = (size_t)h->team->size, i;
	uint64_t bytes = contributed(h, p) * size, room = 0;

	for (i = 0; i < n && p->kind == PLAN_ALLTOALL; i++)
		room += p->matrix[i * n + (size_t)h->team->rank] * size;
	if (p->kind == PLAN_REDUCESCATTER)
		room = p->counts[h->team->rank] * size;
	if (!bytes || !room || in + bytes <= out || out + room <= in)
		return 0;
	if (bytes > h->bounce_bytes) {
		free(h->bounce);
		h->bounce = malloc(bytes);
		h->bounce_bytes = h->bounce ? bytes : 0;
		if (!h->bounce)
			return fail(e, RINGUP_ENOMEM, "a copy of %llu bytes",
				    (unsigned long long)bytes);
	}
	copy_bytes(h->bounce, p->piece->in, bytes);
	h->bounced = *p;
	h->bounced_piece = *p->piece;
	h->bounced_piece.in = h->bounce;
	h->bounced.piece = &h->bounced_piece;
	*pp = &h->bounced;
	return 0;
}

/* Is what the ranks of this host get too much for its caches? */
static bool is_past(const struct hosts *h, const struct plan *p)
{
	uint64_t all = 0;

	if (p->kind == PLAN_ALLREDUCE || p->kind == PLAN_BROADCAST)
		all = p->count;
	else if (p->kind == PLAN_ALLGATHER)
		all = contributed(h, p);
	return all * reduce_dtype_bytes(p->dtype) * (uint64_t)h->here >=
	       copy_past_from(COPY_SHARED);
}

static int hosts_start(void *self, const struct plan *p, struct err *e)
{
	struct hosts *h = self;
	struct mail_head head = describe(h, p);
	const struct piece *own = p->piece;
	int rc = 0;

	if (p->kind == PLAN_REDUCESCATTER || p->kind == PLAN_ALLTOALL)
		rc = part_buffers(h, &p, e);
	if (!rc)
		rc = cut_plan(&h->cut, p, h->rails, e);
	if (rc)
		return rc;
	h->plan = p;
	h->active = true;
	h->past = is_past(h, p);
	h->next_put = h->next_take = h->next_open = h->next_out = 0;
	h->whole = (p->kind == PLAN_ALLREDUCE || p->kind == PLAN_BROADCAST ||
		    p->kind == PLAN_BARRIER) &&
		   is_small(h, cut_elements(&h->cut, 0));
	if (p->kind == PLAN_BROADCAST && p->root == h->team->rank && own->out &&
	    own->out != own->in)
		copy_bytes(own->out, own->in, own->count * h->cut.bytes);
	mail_begin(&h->mail, &head);
	h->idle_since = 0;
	return 0;
}

static bool is_done(const struct hosts *h)
{
	return h->next_take == h->cut.chunks && h->next_put == h->cut.chunks;
}

/* Nothing can be done now: is there anybody who will never send what we wait for? */
static int check_senders(const struct hosts *h, struct err *e)
{
	uint64_t q;
	int i, rc = 0;

	for (q = h->next_out; h->mail.ended && q < h->next_open && !rc; q++) {
		const struct flight *f = &h->flight[q % FLIGHTS];

		for (i = 0; i < f->steps && !rc; i++)
			if (f->step[i].kind != STEP_SEND && !f->come[i])
				rc = mail_check(&h->mail, f->step[i].peer, e);
	}
	return rc;
}

static int hosts_step(void *self, struct err *e)
{
	struct hosts *h = self;
	bool any, ever = false;
	uint64_t q;
	int rc;

	do {
		h->seen = look(h);
		any = open_next(h);
		any |= put_next(h);
		for (q = h->next_out; q < h->next_open; q++)
			any |= advance(h, &h->flight[q % FLIGHTS]);
		rc = mail_step(&h->mail, e);
		if (rc < 0)
			return fail_in(e, "between hosts");
		any |= rc;
		any |= deliver(h);
		any |= take_next(h);
		ever |= any;
		if (is_done(h)) {
			h->base += h->cut.chunks;
			h->active = false;
			if (h->past)
				copy_settle();
			return 1;
		}
	} while (any);
	if (ever) {
		h->idle_since = 0;
		h->long_away = false;
	}
	rc = check_senders(h, e);
	return rc ? fail_in(e, "between hosts") : 0;
}

static bool may_go_on(void *arg)
{
	const struct hosts *h = arg;

	return look(h) != h->seen || __atomic_load_n(h->team->abort, __ATOMIC_RELAXED);
}

/*
 * Give way for a while; true if step() shall look again.  To look at sockets takes a system
 * call anyway, so pauses would save nothing; and while several hosts of a test, or others,
 * have the processors in common, those who wait are in the way of those who work.
 */
static bool linger(struct hosts *h)
{
	int64_t now = clock_ns();

	if (!__atomic_load_n(&h->row->patient, __ATOMIC_RELAXED))
		return false;
	if (!h->idle_since)
		h->idle_since = now;
	/* Whoever had the processor so long has done nothing for us: a stranger. */
	if (h->long_away)
		h->skips = SKIP_WAITS;
	h->long_away = false;
	if (now - h->idle_since > LINGER_NS)
		return false;
	if (h->skips) {
		h->skips--;
		return false;
	}
	sched_yield();
	h->long_away = clock_ns() - now > STRANGER_NS;
	return true;
}

static void hosts_block(void *self, int64_t deadline_ns)
{
	struct hosts *h = self;
	int64_t slice = clock_deadline(SLICE_MS);
	int n;

	if (__atomic_load_n(h->team->abort, __ATOMIC_ACQUIRE))
		return;
	if (h->row && linger(h))
		return;
	n = mail_poll(&h->mail, h->poll);
	if (slice > deadline_ns)
		slice = deadline_ns;
	if (h->row)
		seat_doze(h->row, &h->knob, may_go_on, h, h->poll, n, slice);
	else
		(void)poll(h->poll, (nfds_t)n, clock_left_ms(slice));
	h->idle_since = 0;
}

const struct backend backend_tcp = {
	.name = "tcp",
	.summary = "any hosts: shared memory within, TCP between them",
	.size = sizeof(struct hosts),
	.by_host = true,
	.open = hosts_open,
	.can = hosts_can,
	.start = hosts_start,
	.step = hosts_step,
	.block = hosts_block,
	.close = hosts_close,
};
