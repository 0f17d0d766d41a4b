/* pair.c - data movement between two ranks of a host with CMA, from buffer to buffer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/pair.h"

#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/self_block.h"
#include "base/err.h"
#include "base/num.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "wire/cma.h"
#include "wire/quiesce.h"
#include "wire/segment.h"

/*
 * A copy by the kernel finds each page first, and then moves strings.  A rank that has data
 * for the other writes it (process_vm_writev) rather than being read from: so lines are
 * overwritten without being fetched.  The rank's own block is copied piece by piece in
 * between, while its source is in the nearest caches.
 */
enum {
	PIECE_BYTES = 256 << 10, /* between two checks for an abort, at most */
	PIECE_LEAST = 64 << 10,
	PAGE_BYTES = 4096,
};

/* Bytes from which on CMA is faster than slots: of a broadcast, of others. */
enum { LEAST_SPREAD = 32 << 10, LEAST_BYTES = 128 << 10 };

struct move {
	const struct topo *topo;
	const struct pair_other *other;
	struct self_block self_block;
	bool streaming;
};

static uint64_t goes(const struct plan *p, int from, int to)
{
	return p->matrix[2 * from + to];
}

uint64_t pair_bytes(const struct plan *p, size_t element_bytes)
{
	uint64_t count = 0;

	switch (p->kind) {
	case PLAN_BROADCAST:
		count = p->count;
		break;
	case PLAN_ALLGATHER:
		count = p->counts[0] + p->counts[1];
		break;
	case PLAN_ALLTOALL:
		count = goes(p, 0, 0) + goes(p, 0, 1) + goes(p, 1, 0) + goes(p, 1, 1);
		break;
	/* The ranks' processors have to read all data anyway, or there are none. */
	case PLAN_ALLREDUCE:
	case PLAN_REDUCESCATTER:
	case PLAN_BARRIER:
		break;
	}
	return count * element_bytes;
}

bool pair_pays(const struct plan *p, size_t element_bytes)
{
	return pair_bytes(p, element_bytes) >=
	       (p->kind == PLAN_BROADCAST ? LEAST_SPREAD : LEAST_BYTES);
}

/* The elements that @rank gets. */
static uint64_t out_count(const struct plan *p, int rank)
{
	if (p->kind == PLAN_ALLGATHER)
		return p->counts[0] + p->counts[1];
	if (p->kind == PLAN_ALLTOALL)
		return goes(p, 0, rank) + goes(p, 1, rank);
	return rank == p->root ? 0 : p->count;
}

bool pair_can(const struct plan *p, size_t element_bytes, int rank)
{
	bool root = p->kind == PLAN_BROADCAST && rank == p->root;

	return cma_mine(root ? p->piece->in : p->piece->out,
			(root ? p->count : out_count(p, rank)) * element_bytes);
}

/* Quarters are small enough to share the work; each call costs as much as some KiB. */
static size_t piece_of(size_t size)
{
	size_t piece = size / 4 > PIECE_LEAST ? size / 4 : num_least(size / 2, PIECE_LEAST);

	return (num_least(piece, PIECE_BYTES) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Claims one more piece; returns the number claimed before. */
static uint64_t claim(const struct pair_other *other)
{
	return __atomic_fetch_add(other->claimed, 1, __ATOMIC_RELAXED);
}

static bool is_over(const struct move *m)
{
	return __atomic_load_n(m->topo->abort, __ATOMIC_RELAXED);
}

/* 0 if the other process has ended, which the watch reports, or the job was aborted. */
static int failed(const struct move *m, int why, struct err *e)
{
	if (why == ESRCH || is_over(m))
		return 0;
	return fail(e, RINGUP_ESYSTEM,
		    "the kernel does not copy between two ranks' buffers: %s; set "
		    "RINGUP_SINGLE_COPY=off",
		    strerror(why));
}

/* Writes @size bytes into the other rank's memory. */
static int give(struct move *m, uint64_t at, const unsigned char *in, size_t size,
		struct err *e)
{
	const struct waitset *waitset = &m->topo->segment->waitset;
	int why;

	if (!quiesce_enter(waitset, m->topo->abort, &m->topo->segment->head->left))
		return 0;
	why = cma_write(m->other->pid, at, in, size);
	quiesce_leave(waitset);
	return why ? failed(m, why, e) : 1;
}

static int pair_fetch(struct move *m, unsigned char *out, uint64_t at, size_t size,
		      struct err *e)
{
	int why = is_over(m) ? ESRCH : cma_read(m->other->pid, out, at, size);

	return why ? failed(m, why, e) : 1;
}

/* Writes all, and copies this rank's own block in between. */
static int give_all(struct move *m, uint64_t at, const unsigned char *in, size_t size,
		    struct err *e)
{
	size_t n;
	int rc = 1;

	for (size_t done = 0; done < size && rc > 0; done += n) {
		n = num_least(size - done, PIECE_BYTES);
		rc = give(m, at + done, in + done, n, e);
		self_block_copy(&m->self_block, n, m->streaming);
	}
	self_block_copy(&m->self_block, m->self_block.left, m->streaming);
	return rc;
}

/* The root writes from the front, the other reads from the back, until no piece is left.  A
 * root that wants a copy makes it first. */
static int broadcast(struct move *m, const struct plan *p, size_t bytes, struct err *e)
{
	size_t size = p->count * bytes, piece = piece_of(size), at;
	uint64_t pieces = (size - 1) / piece + 1, mine;
	bool root = m->topo->rank == p->root;
	unsigned char *out = p->piece->out;
	int rc = 1;

	if (root && out) {
		m->self_block = self_block_of(out, p->piece->in, size);
		self_block_copy(&m->self_block, size, m->streaming);
	}
	for (mine = 0; rc > 0 && claim(m->other) < pieces; mine++) {
		at = (root ? mine : pieces - 1 - mine) * piece;
		rc = root ? give(m, m->other->out + at,
				 (const unsigned char *)p->piece->in + at,
				 num_least(size - at, piece), e)
			  : pair_fetch(m, out + at, m->other->in + at,
				       num_least(size - at, piece), e);
	}
	return rc;
}

static int pair_gather(struct move *m, const struct plan *p, size_t bytes, struct err *e)
{
	int me = m->topo->rank;
	size_t before = me ? p->counts[0] * bytes : 0, size = p->counts[me] * bytes;
	const unsigned char *in = p->piece->in;

	m->self_block = self_block_of((unsigned char *)p->piece->out + before, in, size);
	return give_all(m, m->other->out + before, in, size, e);
}

/* The block from rank 1 lies behind that from rank 0. */
static int exchange(struct move *m, const struct plan *p, size_t bytes, struct err *e)
{
	int me = m->topo->rank, you = 1 - me;
	const unsigned char *in = p->piece->in, *own, *theirs;
	unsigned char *out = p->piece->out;

	own = in + (me ? goes(p, me, 0) * bytes : 0);
	theirs = in + (me ? 0 : goes(p, me, 0) * bytes);
	m->self_block = self_block_of(out + (me ? goes(p, 0, me) * bytes : 0), own,
				      goes(p, me, me) * bytes);
	return give_all(m, m->other->out + (me ? goes(p, 0, you) * bytes : 0), theirs,
			goes(p, me, you) * bytes, e);
}

int pair_move(const struct plan *p, const struct topo *t, const struct pair_other *other,
	      bool streaming, struct err *e)
{
	struct move m = { .topo = t, .other = other, .streaming = streaming };
	size_t bytes = reduce_dtype_bytes(p->dtype);
	int rc = 1;

	switch (p->kind) {
	case PLAN_BROADCAST:
		rc = broadcast(&m, p, bytes, e);
		break;
	case PLAN_ALLGATHER:
		rc = pair_gather(&m, p, bytes, e);
		break;
	case PLAN_ALLTOALL:
		rc = exchange(&m, p, bytes, e);
		break;
	case PLAN_ALLREDUCE:
	case PLAN_REDUCESCATTER:
	case PLAN_BARRIER:
		break;
	}
	if (streaming)
		copy_settle();
	return rc;
}
