/* mpi.c - the back end whose transport is MPI: non-blocking collectives carry the bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "backend/mpi_find.h"
#include "backend/mpi_module.h"
#include "backend/pieces.h"
#include "backend/wait.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "wire/segment.h"

/*
 * MPI moves bytes, this file does the sums.  MPI_Allreduce's order of summation
 * depends on its algorithm, and so on the size of the message and on the place of
 * an element in it; it knows no bf16, and makes no promise that all ranks get
 * the same bits.  An all-to-all, a sum in rank order, and an allgather carry as
 * few bytes as the best allreduce, and give the bits that the back end `node`
 * gives.  Small tensors are gathered whole, and every rank adds up all elements.
 *
 * A plan is cut into chunks that fit a window.  Chunk k uses window k mod 3: it is
 * put together and sent in round k, combined and sent back in round k + 1, and
 * taken in round k + 2; so messages are under way during copies.  All ranks go
 * through the same rounds, hence start the same collectives in the same order,
 * as MPI demands.  Whatever the size of the tensors, no count exceeds an int.
 *
 * MPI never sees the callers' buffers: if the job fails during a collective, MPI
 * may go on writing to the windows.
 */
enum {
	WINDOWS = 3,
	WINDOW_BYTES = 1 << 20,
	SMALL_BYTES = 4096,   /* of tensors that every rank adds up for itself */
	LINE = 64,            /* no two ranks' parts of a window share a line  */
	POLLS = 2000,         /* at most, before it yields: about 0.5 ms       */
	YIELDS = 200,         /* and then, before it sleeps                    */
	SLEEP_NS = 50 * 1000, /* of one sleep                                  */
	RANKS = 4096,         /* as reduce_many() takes                        */
};

/* Bytes for each rank, or from it, and where they lie. */
struct layout {
	int *bytes, *at;
};

struct window {
	unsigned char *mine, *all; /* sent bytes; received bytes         */
	struct layout out, in;     /* of mine; of all                    */
	bool busy;                 /* MPI may still read and write here  */
};

struct mpi {
	const struct topo *topo;
	const uint32_t *abort; /* the topology's, which may be gone before close() */
	const struct mpi_module *mod;
	struct mpi_comm *comm;
	struct window window[WINDOWS];
	void *memory, *arrays; /* of the windows and their layouts */
	size_t window_bytes;
	const void *src[RANKS];

	const struct plan *plan;
	const struct course *course;
	size_t each;     /* bytes of an element                              */
	uint64_t chunk;  /* elements in one; of each rank's part, if it has parts */
	uint64_t chunks; /* of this plan                                     */
	uint64_t round;  /* 0 .. chunks + 1                                  */
	int stage;       /* 0 .. 2                                           */
	struct pieces_at put, take;
	int idle; /* calls of wait() since something moved */
};

/* How a plan is carried out: three stages, each 1 if done, 0 if it has to wait. */
struct course {
	int (*stage[WINDOWS])(struct mpi *m, uint64_t k, struct err *e);
};

static struct window *window(struct mpi *m, uint64_t k)
{
	return &m->window[k % WINDOWS];
}

/* Marks window @k busy if the call that started its collective returned 0. */
static int started(struct mpi *m, uint64_t k, int rc, const char *why, struct err *e)
{
	if (rc)
		return fail(e, RINGUP_EPEER, "%s", why);
	window(m, k)->busy = true;
	return 1;
}

/* Is the collective in chunk @k's window done? */
static int finished(struct mpi *m, uint64_t k, struct err *e)
{
	char why[MODULE_WHY];
	int rc = m->mod->test(m->comm, (int)(k % WINDOWS), why);

	if (rc < 0)
		return fail(e, RINGUP_EPEER, "%s", why);
	if (rc)
		window(m, k)->busy = false;
	return rc;
}

static int send_all(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	char why[MODULE_WHY];
	int rc = m->mod->alltoall(m->comm, (int)(k % WINDOWS), w->mine, w->out.bytes, w->out.at,
				  w->all, w->in.bytes, w->in.at, why);

	return started(m, k, rc, why, e);
}

/* With @mine NULL this rank's part lies in @all already. */
static int gather_all(struct mpi *m, uint64_t k, const void *mine, void *all,
		      const struct layout *l, struct err *e)
{
	char why[MODULE_WHY];
	int rc = m->mod->allgather(m->comm, (int)(k % WINDOWS), mine, l->bytes[m->topo->rank],
				   all, l->bytes, l->at, why);

	return started(m, k, rc, why, e);
}

/* Sets rank @r's @bytes, behind those of rank @r - 1. */
static void lay_out(struct layout *l, int r, size_t bytes)
{
	l->bytes[r] = (int)bytes;
	l->at[r] = r ? l->at[r - 1] + l->bytes[r - 1] : 0;
}

static int done(struct mpi *m, uint64_t k, struct err *e)
{
	(void)m;
	(void)k;
	(void)e;
	return 1;
}

/* The same elements of all ranks, @bytes apart, become one in rank order. */
static void combine(struct mpi *m, void *dst, const unsigned char *all, size_t bytes)
{
	const struct plan *p = m->plan;
	struct reduce how = { p->dtype, p->redop, (uint32_t)m->topo->size, p->post };

	for (int r = 0; r < m->topo->size; r++)
		m->src[r] = all + (size_t)r * bytes;
	reduce_many(&how, &dst, 1, m->src, m->topo->size, bytes / m->each);
}

/* ---- allreduce ---- */

static uint64_t elements(const struct mpi *m, uint64_t k)
{
	return num_least(m->chunk, m->plan->count - k * m->chunk);
}

/* Which of @n elements each rank adds up: whole lines. */
static void slice(const struct mpi *m, struct layout *l, uint64_t n)
{
	uint64_t line = LINE / m->each, lines = (n + line - 1) / line;
	uint64_t ranks = (uint64_t)m->topo->size, r, end, first = 0;

	for (r = 0; r < ranks; r++, first = end) {
		end = num_least(lines * (r + 1) / ranks * line, n);
		lay_out(l, (int)r, (end - first) * m->each);
	}
}

static int allreduce_put(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	uint64_t n = elements(m, k);

	pieces_put(m->plan, &m->put, w->mine, n);
	slice(m, &w->out, n);
	for (int r = 0; r < m->topo->size; r++)
		lay_out(&w->in, r, (size_t)w->out.bytes[m->topo->rank]);
	return send_all(m, k, e);
}

static int allreduce_combine(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	int rc = finished(m, k, e), me = m->topo->rank;

	if (rc <= 0)
		return rc;
	combine(m, w->mine + w->out.at[me], w->all, (size_t)w->out.bytes[me]);
	return gather_all(m, k, NULL, w->mine, &w->out, e);
}

static int allreduce_take(struct mpi *m, uint64_t k, struct err *e)
{
	int rc = finished(m, k, e);

	if (rc > 0)
		pieces_take(m->plan, &m->take, window(m, k)->mine, elements(m, k), false);
	return rc;
}

/* Small: one collective instead of two. */
static int small_put(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	uint64_t n = elements(m, k);

	pieces_put(m->plan, &m->put, w->mine, n);
	for (int r = 0; r < m->topo->size; r++)
		lay_out(&w->in, r, n * m->each);
	return gather_all(m, k, w->mine, w->all, &w->in, e);
}

static int small_take(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	uint64_t n = elements(m, k);
	int rc = finished(m, k, e);

	if (rc > 0) {
		combine(m, w->mine, w->all, n * m->each);
		pieces_take(m->plan, &m->take, w->mine, n, false);
	}
	return rc;
}

/* ---- parts of different length, one for each rank ---- */

/* The elements of chunk @k in a part of @count elements. */
static uint64_t mpi_part_count(const struct mpi *m, uint64_t count, uint64_t k)
{
	uint64_t first = k * m->chunk;

	return first < count ? num_least(m->chunk, count - first) : 0;
}

/* Chunk @k of the parts at @in, of @counts elements each, side by side at @to. */
static void put_parts(struct mpi *m, uint64_t k, const uint64_t *counts, struct layout *l,
		      unsigned char *to)
{
	const unsigned char *in = m->plan->piece->in;

	for (int r = 0; r < m->topo->size; r++) {
		uint64_t n = mpi_part_count(m, counts[r], k);

		lay_out(l, r, n * m->each);
		if (n && m->plan->pre != 1)
			copy_scaled(m->plan->dtype, to + l->at[r], in + k * m->chunk * m->each,
				    n, m->plan->pre);
		else if (n)
			copy_bytes(to + l->at[r], in + k * m->chunk * m->each, n * m->each);
		in += counts[r] * m->each;
	}
}

/* The way back: the parts' counts are @stride apart. */
static void take_parts(struct mpi *m, uint64_t k, const uint64_t *counts, size_t stride,
		       const struct layout *l, const unsigned char *from)
{
	unsigned char *out = m->plan->piece->out;

	for (int r = 0; r < m->topo->size; r++) {
		if (l->bytes[r])
			copy_bytes(out + k * m->chunk * m->each, from + l->at[r],
				   (size_t)l->bytes[r]);
		out += counts[(size_t)r * stride] * m->each;
	}
}

static int gather_put(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	const uint64_t *counts = m->plan->counts;
	const unsigned char *in = m->plan->piece->in;
	int me = m->topo->rank;

	for (int r = 0; r < m->topo->size; r++)
		lay_out(&w->in, r, mpi_part_count(m, counts[r], k) * m->each);
	if (w->in.bytes[me])
		copy_bytes(w->mine, in + k * m->chunk * m->each, (size_t)w->in.bytes[me]);
	return gather_all(m, k, w->mine, w->all, &w->in, e);
}

static int gather_take(struct mpi *m, uint64_t k, struct err *e)
{
	int rc = finished(m, k, e);

	if (rc > 0)
		take_parts(m, k, m->plan->counts, 1, &window(m, k)->in, window(m, k)->all);
	return rc;
}

static int scatter_put(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	int me = m->topo->rank;

	put_parts(m, k, m->plan->counts, &w->out, w->mine);
	for (int r = 0; r < m->topo->size; r++)
		lay_out(&w->in, r, (size_t)w->out.bytes[me]);
	return send_all(m, k, e);
}

/* Works in place, too: element x of in is at most x elements into its part, so it
 * was sent in the chunk in which element x of out is written, or before. */
static int scatter_take(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	unsigned char *out = m->plan->piece->out;
	size_t bytes = (size_t)w->out.bytes[m->topo->rank];
	int rc = finished(m, k, e);

	if (rc > 0 && bytes)
		combine(m, out + k * m->chunk * m->each, w->all, bytes);
	return rc;
}

static int exchange_put(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	int size = m->topo->size, me = m->topo->rank;

	put_parts(m, k, m->plan->matrix + (size_t)me * (size_t)size, &w->out, w->mine);
	for (int r = 0; r < size; r++)
		lay_out(&w->in, r,
			mpi_part_count(
				m, m->plan->matrix[(size_t)r * (size_t)size + (size_t)me], k) *
				m->each);
	return send_all(m, k, e);
}

static int exchange_take(struct mpi *m, uint64_t k, struct err *e)
{
	int rc = finished(m, k, e);

	if (rc > 0)
		take_parts(m, k, m->plan->matrix + m->topo->rank, (size_t)m->topo->size,
			   &window(m, k)->in, window(m, k)->all);
	return rc;
}

/* ---- broadcast and barrier ---- */

static int broadcast_put(struct mpi *m, uint64_t k, struct err *e)
{
	struct window *w = window(m, k);
	const struct plan *p = m->plan;
	uint64_t n = elements(m, k);
	char why[MODULE_WHY];

	if (m->topo->rank == p->root)
		copy_bytes(w->mine,
			   (const unsigned char *)p->piece->in + k * m->chunk * m->each,
			   n * m->each);
	return started(m, k,
		       m->mod->broadcast(m->comm, (int)(k % WINDOWS), w->mine,
					 (int)(n * m->each), p->root, why),
		       why, e);
}

static int broadcast_take(struct mpi *m, uint64_t k, struct err *e)
{
	const struct piece *own = m->plan->piece;
	bool root = m->topo->rank == m->plan->root;
	int rc = finished(m, k, e);

	if (rc > 0 && own->out && !(root && own->out == own->in))
		copy_bytes((unsigned char *)own->out + k * m->chunk * m->each,
			   window(m, k)->mine, elements(m, k) * m->each);
	return rc;
}

static int barrier_put(struct mpi *m, uint64_t k, struct err *e)
{
	char why[MODULE_WHY];

	return started(m, k, m->mod->barrier(m->comm, (int)(k % WINDOWS), why), why, e);
}

static const struct course course_allreduce = { { allreduce_put, allreduce_combine,
						  allreduce_take } };
static const struct course course_broadcast = { { broadcast_put, done, broadcast_take } };
static const struct course course_allgather = { { gather_put, done, gather_take } };
static const struct course course_reducescatter = { { scatter_put, done, scatter_take } };
static const struct course course_alltoall = { { exchange_put, done, exchange_take } };
static const struct course course_barrier = { { barrier_put, done, finished } };
static const struct course course_small = { { small_put, done, small_take } };

static const struct course *const courses[] = {
#define X(kind, word, activity, traits) &course_##word,
	COLLECTIVES(X)
#undef X
};

/* ---- opening ---- */

/* A rank's result of a step of opening, as the others get it; laid out as the engine's reports,
 * since a rank that has failed before gives one of these instead. */
struct opinion {
	int32_t code;
	char text[248];
	int32_t number;
};

/* Agreement: fails on every rank if @rc is not 0 on one.  @all gets the results
 * of all ranks, each with its @number. */
static int concur(const struct topo *t, int rc, int number, struct opinion *all, struct err *e)
{
	struct opinion mine = { .code = rc, .number = number };
	int r;

	if (rc)
		snprintf(mine.text, sizeof(mine.text), "%.*s", (int)sizeof(mine.text) - 1,
			 e->text);
	all[0] = mine;
	if (t->size > 1 && t->exchange(t->exchange_ctx, &mine, sizeof(mine), all))
		return fail(e, RINGUP_EPEER, "the exchange between ranks failed");
	for (r = 0; r < t->size && !all[r].code; r++)
		;
	if (r == t->size)
		return 0;
	/* Of all ranks alike: each of them goes on to the next back end. */
	if (rc)
		return e->code = RINGUP_ENOBACKEND;
	all[r].text[sizeof(all[r].text) - 1] = 0;
	return fail(e, RINGUP_ENOBACKEND, "rank %d: %.200s", r, all[r].text);
}

/* May this process use MPI for @t?  Calls nothing that concerns other ranks. */
static int look_around(struct mpi *m, const struct topo *t, struct mpi_world *w, struct err *e)
{
	char summary[MPI_FIND_SUMMARY];
	int rc, launched;

	if (t->size > RANKS)
		return fail(e, RINGUP_ENOBACKEND, "mpi serves %d ranks at most", RANKS);
	rc = mpi_find_module(&m->mod, summary, e);
	if (rc)
		return rc;
	m->mod->world(w);
	mpi_find_launcher(&launched);
	if (w->finalized)
		return fail(e, RINGUP_ENOBACKEND, "MPI_Finalize has already been called");
	if (!w->initialized && launched != t->size)
		return fail(e, RINGUP_ENOBACKEND,
			    "MPI is not initialized, and its launcher did not start these %d "
			    "ranks; use mpirun",
			    t->size);
	if (w->initialized && !w->threads)
		return fail(e, RINGUP_ENOBACKEND,
			    "MPI was initialized for one thread only; call MPI_Init_thread "
			    "with MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED");
	return 0;
}

/* All ranks are here and may use MPI. */
static int initialise(struct mpi *m, struct mpi_world *w, struct err *e)
{
	char why[MODULE_WHY] = "";

	if (!w->initialized && m->mod->init(why))
		return fail(e, RINGUP_ENOBACKEND, "%s", why);
	m->mod->world(w);
	return w->threads ? 0 : fail(e, RINGUP_ENOBACKEND, "this MPI supports only one thread");
}

/* Joins the ranks; their numbers in MPI_COMM_WORLD, @all's, may differ from the job's. */
static int mpi_join(struct mpi *m, const struct mpi_world *w, const struct opinion *all,
		    struct err *e)
{
	/* Without memory for it one rank would miss the others' call. */
	int world_of[RANKS], r, q, rc = 0, size = m->topo->size;
	char why[MODULE_WHY] = "";

	for (r = 0; r < size && !rc; r++) {
		world_of[r] = all[r].number;
		for (q = 0; q < r && world_of[q] != world_of[r]; q++)
			;
		if (q < r || world_of[r] < 0 || world_of[r] >= w->size)
			rc = fail(e, RINGUP_ENOBACKEND,
				  "ranks %d and %d do not share an MPI_COMM_WORLD", q, r);
	}
	if (!rc && m->mod->join(&m->comm, world_of, size, why))
		rc = fail(e, RINGUP_ENOBACKEND, "%s", why);
	return rc;
}

static int make_windows(struct mpi *m, struct err *e)
{
	size_t ranks = (size_t)m->topo->size, room, arrays = WINDOWS * 4 * ranks * sizeof(int);
	unsigned char *at;
	int *array, i;

	/* An element of every rank fits; and each may have a line more than its part. */
	m->window_bytes = WINDOW_BYTES;
	if (m->window_bytes < ranks * LINE)
		m->window_bytes = ranks * LINE;
	room = m->window_bytes + ranks * LINE;
	m->memory = aligned_alloc(4096, (WINDOWS * 2 * room + 4095) / 4096 * 4096);
	m->arrays = malloc(arrays);
	if (!m->memory || !m->arrays)
		return fail(e, RINGUP_ENOMEM, "no memory for the back end");
	at = m->memory;
	array = m->arrays;
	for (i = 0; i < WINDOWS; i++) {
		struct window *w = &m->window[i];

		w->mine = at;
		w->all = at + room;
		at += 2 * room;
		w->out = (struct layout){ array, array + ranks };
		w->in = (struct layout){ array + 2 * ranks, array + 3 * ranks };
		array += 4 * ranks;
	}
	return 0;
}

static int open_together(struct mpi *m, struct opinion *all, struct err *e)
{
	const struct topo *t = m->topo;
	struct mpi_world w = { 0 };
	int rc;

	rc = concur(t, look_around(m, t, &w, e), 0, all, e);
	if (rc)
		return rc;
	rc = initialise(m, &w, e);
	rc = concur(t, rc, w.rank, all, e);
	if (rc)
		return rc;
	rc = mpi_join(m, &w, all, e);
	if (!rc)
		rc = make_windows(m, e);
	return concur(t, rc, 0, all, e);
}

static int mpi_open(void *self, const struct topo *t, struct err *e)
{
	struct mpi *m = self;
	struct opinion *all;
	int rc;

	if (!t->whole)
		return fail(e, RINGUP_ENOBACKEND, "MPI supports only the group of all ranks");
	if (t->size > 1 && !t->exchange)
		return fail(e, RINGUP_ENOBACKEND, "the ranks have no way to agree on MPI");
	all = calloc((size_t)t->size, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for the back end");
	m->topo = t;
	m->abort = t->abort;
	rc = open_together(m, all, e);
	free(all);
	return rc;
}

/* ---- running ---- */

static bool mpi_can(const void *self, const struct plan *p)
{
	(void)self;
	(void)p;
	return true;
}

/* Returns the longest part to be cut into chunks; sets m->chunk, its elements in a window. */
static uint64_t measure(struct mpi *m, const struct plan *p)
{
	uint64_t size = (uint64_t)m->topo->size, longest = 0, i;
	bool splits = collective_is(p->kind, COLLECTIVE_SPLITS);
	const uint64_t *lengths = splits ? p->matrix : p->counts;
	uint64_t n = splits ? size * size : size;

	m->chunk = m->window_bytes / m->each;
	if (!collective_is(p->kind, COLLECTIVE_ROWS))
		return p->count;
	m->chunk /= size;
	for (i = 0; i < n; i++)
		longest = lengths[i] > longest ? lengths[i] : longest;
	return longest;
}

static int mpi_start(void *self, const struct plan *p, struct err *e)
{
	struct mpi *m = self;
	struct mpi_world w;
	uint64_t length;

	m->mod->world(&w);
	if (w.finalized)
		return fail(e, RINGUP_ESHUTDOWN, "MPI_Finalize was called before ringup_fini");
	m->plan = p;
	m->each = reduce_dtype_bytes(p->dtype);
	length = measure(m, p);
	m->chunks = length ? (length - 1) / m->chunk + 1 : 1;
	m->course = courses[p->kind];
	if (p->kind == PLAN_ALLREDUCE && p->count * m->each <= SMALL_BYTES &&
	    p->count * m->each * (uint64_t)m->topo->size <= m->window_bytes)
		m->course = &course_small;
	m->round = 0;
	m->stage = 0;
	m->idle = 0;
	m->put = (struct pieces_at){ 0 };
	m->take = (struct pieces_at){ 0 };
	return 0;
}

static int mpi_step(void *self, const struct plan *p, struct err *e)
{
	struct mpi *m = self;
	int rc;

	(void)p;
	for (; m->round < m->chunks + WINDOWS - 1; m->round++, m->stage = 0)
		for (; m->stage < WINDOWS; m->stage++) {
			uint64_t k = m->round - (uint64_t)m->stage;

			if (k >= m->chunks)
				continue;
			rc = m->course->stage[m->stage](m, k, e);
			if (rc <= 0)
				return rc;
			m->idle = 0;
		}
	return 1;
}

/* MPI makes progress only when it is called, and has no notification: poll, yield, sleep. */
static bool mpi_wait(void *self, struct wait_on *w)
{
	struct mpi *m = self;
	const struct segment *s = m->topo->segment;
	int polls =
		s && waitset_pauses(&s->waitset) < POLLS ? waitset_pauses(&s->waitset) : POLLS;

	m->idle++;
	if (m->idle <= polls || __atomic_load_n(m->abort, __ATOMIC_RELAXED))
		return false;
	if (m->idle < polls + YIELDS) {
		sched_yield();
		return false;
	}
	w->look_ns = SLEEP_NS;
	return true;
}

/* A window in flight is MPI's until the process ends: see mpi_close(). */
static void mpi_abort(void *self)
{
	(void)self;
}

static void mpi_close(void *self)
{
	struct mpi *m = self;
	bool clean = !m->comm || !__atomic_load_n(m->abort, __ATOMIC_RELAXED);

	for (int i = 0; i < WINDOWS; i++)
		clean &= !m->window[i].busy;
	if (m->comm)
		m->mod->part(m->comm, clean);
	if (clean) {
		/* Without clean, MPI may still write there. */
		free(m->memory);
		free(m->arrays);
	}
	memset(m, 0, sizeof(*m));
}

const struct backend backend_mpi = {
	.name = "mpi",
	.summary = "an MPI of this node, if it is named",
	.named_only = true,
	.size = sizeof(struct mpi),
	.memory = MEMORY_OF_HOST,
	.slots = 1,
	.open = mpi_open,
	.can = mpi_can,
	.start = mpi_start,
	.step = mpi_step,
	.wait = mpi_wait,
	.abort = mpi_abort,
	.close = mpi_close,
};
