/* tcp.c - the back end for several hosts: shared memory within, sockets between them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tcp_state.h"
#include "backend/wait.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/kinds.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "wire/mesh.h"

/* Below this, fewer rounds are worth more bytes; between two hosts, where the bytes are the
 * same, they are worth adding up all elements on both. */
enum { SMALL_BYTES = 4096, SMALL_OF_TWO = 32768 };

/* SLICE_NS: a wait for sockets at most, before it checks for an abort. */
enum { SLICE_NS = 100000000, YIELD_NS = 300000, STRANGER_NS = 1000000, SKIP_WAITS = 500 };

/* ---- counters ---- */

/* A number that changes when another rank of this host has made progress. */
static uint64_t tcp_look(const struct tcp *h)
{
	uint64_t sum = 0;

	for (int r = 0; r < h->here; r++)
		if (r != h->me)
			sum += __atomic_load_n(&h->counters[r].in, __ATOMIC_RELAXED) +
			       __atomic_load_n(&h->counters[r].out, __ATOMIC_RELAXED) +
			       __atomic_load_n(&h->counters[r].took, __ATOMIC_RELAXED);
	return sum;
}

/* ---- opening and closing ---- */

static void tcp_close(void *self)
{
	struct tcp *h = self;

	wake_fd_close(&h->wake_fd);
	mail_close(&h->mail);
	cut_close(&h->cut);
	for (int i = 0; i < TCP_IN_FLIGHT; i++) {
		free(h->in_flight[i].step);
		free(h->in_flight[i].stage_at);
		free(h->in_flight[i].come);
		free(h->in_flight[i].mail);
		free(h->in_flight[i].stage);
		free(h->in_flight[i].wide);
	}
	free(h->alone);
	free(h->own_slots);
	free(h->poll);
	free(h->bounce);
	memset(h, 0, sizeof(*h));
}

static uint64_t stage_bytes(const struct tcp *h)
{
	bool leaned_on = h->grid.hosts > h->grid.cells;

	return h->slot_bytes * (leaned_on ? 2 : 1) + 128 * (uint64_t)h->grid.hosts;
}

static int in_flight_open(const struct tcp *h, struct in_flight *f)
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
static int find_slots(struct tcp *h, struct err *e)
{
	struct segment *seg = h->topo->segment;

	if (seg) {
		h->counters = seg->counters;
		h->waitset = &seg->waitset;
		h->slots = seg->slots;
		h->area = seg->slot_area;
	} else {
		h->area = (size_t)TCP_IN_FLIGHT * SEGMENT_SLOT_BYTES;
		h->alone = aligned_alloc(64, sizeof(*h->alone));
		h->own_slots = aligned_alloc(64, h->area);
		if (!h->alone || !h->own_slots)
			return fail(e, RINGUP_ENOMEM, "slots for tcp");
		memset(h->alone, 0, sizeof(*h->alone));
		h->counters = h->alone;
		h->slots = h->own_slots;
	}
	/* More ranks have more chunks in flight, hence smaller ones. */
	h->slot_count =
		(uint64_t)h->rails * 2 > TCP_IN_FLIGHT ? (uint64_t)h->rails * 2 : TCP_IN_FLIGHT;
	h->slot_bytes = h->area / h->slot_count / 4096 * 4096;
	if (h->slot_bytes < 4096 || (uint64_t)h->grid.hosts > h->slot_bytes / 64)
		return fail(e, RINGUP_ENOBACKEND, "tcp does not support %d hosts with %d rails",
			    h->grid.hosts, h->rails);
	return 0;
}

static int check_topo(const struct topo *t, struct err *e)
{
	if (t->size > 1 && !t->segment && t->local_size > 1)
		return fail(e, RINGUP_ENOBACKEND, "tcp needs memory that the ranks share");
	if (t->hosts > 1 && (!t->mesh || !t->host_of))
		return fail(e, RINGUP_ENOBACKEND, "tcp needs connections between the hosts");
	if (t->size > 1 && t->hosts == 1 && !t->segment)
		return fail(e, RINGUP_ENOBACKEND, "tcp needs connections between the ranks");
	if (t->local_size > TCP_LOCAL)
		return fail(e, RINGUP_ENOBACKEND, "tcp supports at most %d ranks per host",
			    TCP_LOCAL);
	return 0;
}

/* Finds the last round in which this host adds up; -1: none. */
static void find_rounds(struct tcp *h)
{
	int host = h->topo->host;

	h->last_sum = host < h->grid.cells ? h->grid.dims : -1;
	if (h->grid.hosts == 1)
		h->last_sum = -1;
}

static int tcp_open(void *self, const struct topo *topo, struct err *e)
{
	struct tcp *h = self;
	int rc;

	rc = check_topo(topo, e);
	if (rc)
		return rc;
	h->topo = topo;
	h->me = topo->local_rank;
	h->here = topo->local_size ? topo->local_size : 1;
	h->rails = topo->mesh && topo->mesh->rails ? topo->mesh->rails : 1;
	h->owns = h->me < h->rails;
	grid_init(&h->grid, topo->hosts > 1 ? topo->hosts : 1);
	find_rounds(h);
	rc = find_slots(h, e);
	if (!rc)
		rc = cut_open(&h->cut, topo, &h->grid, h->slot_bytes, stage_bytes(h), e);
	if (!rc)
		rc = mail_open(&h->mail, topo->mesh, h->grid.hosts, e);
	h->mail.place = tcp_place;
	h->mail.ctx = h;
	h->poll = calloc((size_t)h->mail.sockets + 1, sizeof(*h->poll));
	for (int i = 0; i < TCP_IN_FLIGHT && h->owns && !rc; i++)
		if (!in_flight_open(h, &h->in_flight[i]))
			rc = fail(e, RINGUP_ENOMEM, "buffers for tcp");
	if (!rc && !h->poll)
		rc = fail(e, RINGUP_ENOMEM, "buffers for tcp");
	return rc || !h->waitset ? rc : wake_fd_open(&h->wake_fd, e);
}

static bool tcp_can(const void *self, const struct plan *p)
{
	(void)self;
	return (unsigned int)p->dtype < DTYPE_COUNT;
}

static void put_run(const struct tcp *h, const struct cut_walk *w, unsigned char *to)
{
	to += w->first * h->cut.bytes;
	if (tcp_adds(h) && h->plan->pre != 1)
		copy_scaled(h->plan->dtype, to, w->in, w->count, h->plan->pre);
	else
		copy_bytes(to, w->in, w->count * h->cut.bytes);
}

/* ---- within the host ---- */

/* Must this rank put its contribution, which the chunk's owner does not fetch itself? */
static bool must_put(const struct tcp *h, uint64_t k)
{
	if (collective_is(h->plan->kind, COLLECTIVE_ROOT))
		return h->plan->root == h->topo->rank;
	return !tcp_adds(h) || tcp_owner(h, k) != h->me || h->plan->pre != 1;
}

static bool put_next(struct tcp *h)
{
	uint64_t k = h->next_put;
	struct cut_walk w;
	int to = tcp_adds(h) ? h->me : tcp_owner(h, k);

	if (k >= h->cut.chunks || !tcp_slots_free(h, k))
		return false;
	if (must_put(h, k)) {
		cut_walk(&h->cut, &w, k, false, 0, UINT64_MAX);
		while (cut_next(&w))
			put_run(h, &w, tcp_slot(h, to, k));
	}
	h->next_put++;
	tcp_publish(h, &h->counters[h->me].in, h->base + k + 1);
	return true;
}

static void tcp_take(struct tcp *h, uint64_t k, uint64_t first, uint64_t end)
{
	const unsigned char *from = tcp_slot(h, tcp_owner(h, k), k);
	struct cut_walk w;

	cut_walk(&h->cut, &w, k, true, first, end);
	while (cut_next(&w))
		(h->streaming ? copy_streaming : copy_bytes)(
			w.out, from + w.first * h->cut.bytes, w.count * h->cut.bytes);
}

static bool take_next(struct tcp *h)
{
	uint64_t k = h->next_take;
	int from = tcp_owner(h, k);
	const struct plan *p = h->plan;
	struct range placed = { 0, 0 };

	if (k >= h->cut.chunks || !tcp_above(&h->counters[from].out, h->base + k))
		return false;
	/* The chunk in flight is not reused until all ranks here have taken it. */
	if (from == h->me)
		placed = h->in_flight[k / (uint64_t)h->rails % TCP_IN_FLIGHT].placed;
	/* The root has the data. */
	if (!collective_is(p->kind, COLLECTIVE_ROOT) || p->root != h->topo->rank) {
		if (placed.first)
			tcp_take(h, k, 0, placed.first);
		tcp_take(h, k, placed.end, UINT64_MAX);
	}
	h->next_take++;
	tcp_publish(h, &h->counters[h->me].took, h->base + k + 1);
	return true;
}

/* ---- plans ---- */

static struct mail_head tcp_describe(const struct tcp *h, const struct plan *p)
{
	size_t n = (size_t)h->topo->size;
	struct mail_head m = {
		.kind = (uint8_t)p->kind,
		.dtype = (uint8_t)p->dtype,
		.redop = (uint8_t)p->redop,
		.root = p->root,
		.count = p->count,
	};

	if (collective_is(p->kind, COLLECTIVE_REDUCES)) {
		double scale[2] = { p->pre, p->post };

		m.digest = hash_bytes(scale, sizeof(scale));
	}
	if (collective_is(p->kind, COLLECTIVE_SPLITS))
		m.digest += hash_bytes(p->matrix, n * n * sizeof(*p->matrix));
	else if (collective_is(p->kind, COLLECTIVE_ROWS))
		m.digest += hash_bytes(p->counts, n * sizeof(*p->counts));
	/* These counts differ between ranks, and are in the digest. */
	if (!collective_is(p->kind, COLLECTIVE_EVEN))
		m.count = 0;
	if (p->kind == PLAN_BARRIER)
		m.dtype = m.redop = 0;
	return m;
}

/* Elements: what this rank sends in an all-to-all; else all ranks' blocks together. */
static uint64_t contributed(const struct tcp *h, const struct plan *p)
{
	size_t n = (size_t)h->topo->size, j;
	uint64_t all = 0;

	for (j = 0; j < n; j++)
		all += collective_is(p->kind, COLLECTIVE_SPLITS)
			       ? p->matrix[(size_t)h->topo->rank * n + j]
			       : p->counts[j];
	return all;
}

/* Blocks change places between in and out: where the buffers overlap, the input is
 * copied first. */
static int part_buffers(struct tcp *h, const struct plan **pp, struct err *e)
{
	const struct plan *p = *pp;
	uintptr_t in = (uintptr_t)p->piece->in, out = (uintptr_t)p->piece->out;
	size_t size = reduce_dtype_bytes(p->dtype), n = (size_t)h->topo->size, i;
	uint64_t bytes = contributed(h, p) * size, room = 0;
	bool splits = collective_is(p->kind, COLLECTIVE_SPLITS);

	for (i = 0; i < n && splits; i++)
		room += p->matrix[i * n + (size_t)h->topo->rank] * size;
	if (!splits)
		room = p->counts[h->topo->rank] * size;
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

/* Do the results of this host's ranks exceed its caches? */
static bool is_streaming(const struct tcp *h, const struct plan *p)
{
	uint64_t all = 0;

	switch (p->kind) {
	case PLAN_ALLREDUCE:
	case PLAN_BROADCAST:
		all = p->count;
		break;
	case PLAN_ALLGATHER:
		all = contributed(h, p);
		break;
	case PLAN_REDUCESCATTER:
	case PLAN_ALLTOALL:
	case PLAN_BARRIER:
		break;
	}
	return all * reduce_dtype_bytes(p->dtype) * (uint64_t)h->here >=
	       copy_streaming_from(COPY_SHARED);
}

static bool is_small(const struct tcp *h, uint64_t elements)
{
	uint64_t copies = h->grid.hosts > h->grid.cells, bytes = elements * tcp_wire_bytes(h);

	for (int d = 0; d < h->grid.dims; d++)
		copies += (uint64_t)h->grid.radix[d] - 1;
	if (bytes * copies > stage_bytes(h))
		return false;
	return bytes <= (h->grid.hosts == 2 ? SMALL_OF_TWO : SMALL_BYTES);
}

static int tcp_start(void *self, const struct plan *p, struct err *e)
{
	struct tcp *h = self;
	struct mail_head head = tcp_describe(h, p);
	const struct piece *own = p->piece;
	int rc = 0;

	if (collective_is(p->kind, COLLECTIVE_PARTS))
		rc = part_buffers(h, &p, e);
	if (!rc)
		rc = cut_plan(&h->cut, p, h->rails, e);
	if (rc)
		return rc;
	h->plan = p;
	h->active = true;
	h->streaming = is_streaming(h, p);
	h->next_put = h->next_take = h->next_open = h->next_out = 0;
	h->whole = !collective_is(p->kind, COLLECTIVE_ROWS) &&
		   is_small(h, cut_elements(&h->cut, 0));
	if (collective_is(p->kind, COLLECTIVE_ROOT) && p->root == h->topo->rank && own->out &&
	    own->out != own->in)
		copy_bytes(own->out, own->in, own->count * h->cut.bytes);
	mail_begin(&h->mail, &head);
	h->idle_since = 0;
	return 0;
}

static bool is_done(const struct tcp *h)
{
	return h->next_take == h->cut.chunks && h->next_put == h->cut.chunks;
}

/* Nothing can be done now: fails if a host that still has to send has closed its sockets. */
static int check_senders(const struct tcp *h, struct err *e)
{
	int rc = 0;

	for (uint64_t q = h->next_out; h->mail.ended && q < h->next_open && !rc; q++) {
		const struct in_flight *f = &h->in_flight[q % TCP_IN_FLIGHT];

		for (int i = 0; i < f->steps && !rc; i++)
			if (f->step[i].kind != STEP_SEND && !f->come[i])
				rc = mail_check(&h->mail, f->step[i].peer, e);
	}
	return rc;
}

static int tcp_step(void *self, const struct plan *p, struct err *e)
{
	struct tcp *h = self;
	bool any, ever = false;
	int rc;

	(void)p;
	do {
		h->seen = tcp_look(h);
		any = tcp_open_next(h);
		any |= put_next(h);
		for (uint64_t q = h->next_out; q < h->next_open; q++)
			any |= tcp_advance(h, &h->in_flight[q % TCP_IN_FLIGHT]);
		rc = mail_step(&h->mail, e);
		if (rc < 0)
			return fail_in(e, "between hosts");
		any |= rc;
		any |= tcp_deliver(h);
		any |= take_next(h);
		ever |= any;
		if (is_done(h)) {
			h->base += h->cut.chunks;
			h->active = false;
			if (h->streaming)
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
	const struct tcp *h = arg;

	return tcp_look(h) != h->seen || __atomic_load_n(h->topo->abort, __ATOMIC_RELAXED);
}

/*
 * Yields for a while; true if step() shall be called again.  Checking sockets takes a system
 * call anyway, so pauses would save nothing; and where several hosts of a test, or other
 * processes, share the processors, ranks that wait are in the way of ranks that work.
 */
static bool tcp_yield(struct tcp *h)
{
	int64_t now = clock_ns();

	if (!__atomic_load_n(&h->waitset->policy.patient, __ATOMIC_RELAXED))
		return false;
	if (!h->idle_since)
		h->idle_since = now;
	/* The last yield took long, and no rank has made progress: the processor went to a
	 * foreign process. */
	if (h->long_away)
		h->skips = SKIP_WAITS;
	h->long_away = false;
	if (now - h->idle_since > YIELD_NS)
		return false;
	if (h->skips) {
		h->skips--;
		return false;
	}
	sched_yield();
	h->long_away = clock_ns() - now > STRANGER_NS;
	return true;
}

static bool tcp_wait(void *self, struct wait_on *w)
{
	struct tcp *h = self;

	if (__atomic_load_n(h->topo->abort, __ATOMIC_ACQUIRE) || (h->waitset && tcp_yield(h)))
		return false;
	w->waitset = h->waitset;
	w->rank = WAITSET_ANY;
	w->ready = may_go_on;
	w->self = h;
	w->fd = h->poll;
	w->fds = mail_poll(&h->mail, h->poll);
	w->wake_fd = &h->wake_fd;
	w->look_ns = SLICE_NS;
	h->idle_since = 0;
	return true;
}

/* Only step() touches buffers. */
static void tcp_abort(void *self)
{
	(void)self;
}

const struct backend backend_tcp = {
	.name = "tcp",
	.summary = "any hosts: shared memory within, TCP between them",
	.size = sizeof(struct tcp),
	.memory = MEMORY_OF_HOST,
	.slots = 1,
	.by_host = true,
	.open = tcp_open,
	.can = tcp_can,
	.start = tcp_start,
	.step = tcp_step,
	.wait = tcp_wait,
	.abort = tcp_abort,
	.close = tcp_close,
};
