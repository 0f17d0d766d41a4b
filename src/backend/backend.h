/* backend.h - what a back end provides: whoever carries a collective out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ringup.h"

struct err;
struct mesh;
struct segment;

enum plan_kind {
	PLAN_ALLREDUCE,
	PLAN_BROADCAST,
	PLAN_ALLGATHER,
	PLAN_BARRIER,
	PLAN_REDUCESCATTER,
	PLAN_ALLTOALL,
	PLAN_KINDS,
};

/*
 * One tensor of a plan.  An allgather's out has room for all blocks.  A
 * reduce-scatter's in holds the parts of all ranks, one after the other, and its
 * out has room for this rank's.  An all-to-all's in holds what goes to rank 0,
 * rank 1 ..., its out has room for what comes from rank 0, rank 1 ...
 */
struct piece {
	const void *in;
	void *out;
	uint64_t count; /* elements at in, on this rank */
};

/*
 * One collective, agreed by all ranks and ready to run.  Several tensors of one
 * dtype, operation and scale run as their concatenation (allreduce only; the
 * others have one piece).  The counts of the pieces are the same on all ranks,
 * except in an allgather, where counts[] tells every rank's.
 */
struct plan {
	enum plan_kind kind;
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	double pre, post; /* 1 means nothing to do */
	int root;         /* broadcast             */
	const struct piece *piece;
	int pieces;
	uint64_t count;         /* elements of all pieces together      */
	const uint64_t *counts; /* allgather, reduce-scatter: elements of rank 0, 1 ... */
	const uint64_t *matrix; /* all-to-all: [i * size + j] elements go from i to j */
};

/* Of two ranks of a host: does the kernel copy between their buffers what is large?  Where that
 * has been found to be faster, if not said otherwise. */
enum single_copy { SINGLE_COPY_OFF, SINGLE_COPY_ON, SINGLE_COPY_LEARNED };

/*
 * The ranks of a group, and what they have in common.  Hosts are numbered by
 * their lowest rank.  The ranks of this host share the segment, in the order of
 * their ranks; a rank that is alone on its host has one for itself.
 */
struct topo {
	int rank, size;
	int host, hosts;              /* this rank's host; how many there are        */
	int local_rank, local_size;   /* place among the ranks of this host          */
	const int *host_of;           /* of every rank; NULL: all are on one host    */
	const int *local_of;          /* local rank of every rank; NULL: same as rank */
	struct segment *segment;      /* shared memory of this host's ranks, or NULL */
	struct mesh *mesh;            /* connections, or NULL                        */
	const uint32_t *abort;        /* not 0 once the job has failed; any thread sets it */
	bool asked;                   /* this back end was asked for by name         */
	enum single_copy single_copy; /* all say the same */

	/* For open() only: as in struct ringup_init, among the ranks of the group; a
	 * back end that uses it does so on all of them alike.  NULL: there is none. */
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *exchange_ctx;
};

/*
 * Six functions, all mandatory, so nobody tests for NULL.  They are called by
 * whoever holds the baton, one thread at a time, so no locks are needed.  Only
 * open(), block() and close() may block.  After any failure close() must still
 * be safe to call.
 */
struct backend {
	const char *name;    /* as in RINGUP_BACKEND        */
	const char *summary; /* one line for `ringup help`  */
	size_t size;         /* of *self, which comes zeroed */
	bool seated;         /* block() waits at the seat: for nothing but ranks of this host */
	bool by_host;        /* adds up each host's ranks first, then the hosts in a row */

	/* Get ready to serve @t, which outlives it, or fail: this build or machine cannot. */
	int (*open)(void *self, const struct topo *t, struct err *e);

	/* Does this back end carry out @p?  Pure: same answer every time and
	 * on every rank, since ranks choose without talking. */
	bool (*can)(const void *self, const struct plan *p);

	/* Begin @p, which stays valid until it is done.  One plan at a time. */
	int (*start)(void *self, const struct plan *p, struct err *e);

	/* Do all that can be done now: 1 when the plan is done, 0 when it has to
	 * wait for a peer, negative on failure.  After a failure the back end is
	 * good for close() only, and no buffer of the plan is touched again. */
	int (*step)(void *self, struct err *e);

	/* step() said 0: wait until it may have more to do, or the job is
	 * aborted, or @deadline_ns has passed.  May return early. */
	void (*block)(void *self, int64_t deadline_ns);

	/* Release everything; safe after a failed open(). */
	void (*close)(void *self);
};

/* All back ends of this build, in order of preference; ends with NULL. */
extern const struct backend *const backends[];

/* backend_find - by name, or NULL. */
const struct backend *backend_find(const char *name);

#endif
