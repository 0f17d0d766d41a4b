/* backend.h - the interface of a back end, which carries collectives out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/collectives.h"
#include "ringup.h"

struct err;
struct mesh;
struct segment;
struct staging_copy;
struct wait_on;

enum { BACKEND_SLOTS = 8 };

/* PLAN_KINDS is not one of them, so that a switch without a default names all and no other. */
enum plan_kind {
#define X(kind, word, activity, traits) PLAN_##kind,
	COLLECTIVES(X)
#undef X
};

enum { PLAN_KINDS = COLLECTIVE_KINDS };

/* Kinds of memory, as bits: RINGUP_HOST is 1 << RINGUP_HOST. */
enum {
	MEMORY_HOST = 1 << RINGUP_HOST,
	MEMORY_PINNED = 1 << RINGUP_PINNED,
	MEMORY_CUDA = 1 << RINGUP_CUDA,
	MEMORY_OF_HOST = MEMORY_HOST | MEMORY_PINNED, /* that the CPU can read and write */
};

/*
 * One tensor of a plan.  An allgather's out has room for all blocks.  A
 * reduce-scatter's in holds the parts of all ranks, one after the other, and its
 * out has room for this rank's.  An all-to-all's in holds the blocks to rank 0,
 * rank 1 ..., its out has room for the blocks from rank 0, rank 1 ...
 */
struct piece {
	const void *in;
	void *out;
	uint64_t count;            /* elements at in, on this rank */
	enum ringup_memory memory; /* where in and out are: the plan's kind, or RINGUP_HOST */
	void *stream;              /* of a device, or NULL; see struct ringup_reduce */
	void *ready;               /* mark()'s, on the stream; NULL without a stream */
};

/*
 * One collective, agreed by all ranks and ready to run.  Several tensors of one
 * dtype, operation, scale and kind of memory run as their concatenation (allreduce
 * only; the others have one piece).  The counts of the pieces are the same on all
 * ranks, except in an allgather, where counts[] tells every rank's.
 *
 * The ranks have agreed on memory.  A rank that has joined gives neutral elements (zeros to a
 * sum) from the host in a plan of any kind of memory; its piece says so.
 *
 * Plans of one back end have the serials 0, 1 ... on all ranks alike; plans in flight at the
 * same time have different slots, serial % slots, on all ranks alike.
 */
struct plan {
	const char *name; /* of its first operation, for messages; or NULL */
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
	enum ringup_memory memory;
	int slot;
	uint64_t serial;
};

/* Whether the kernel copies large moves between the buffers of two ranks of a host (CMA); the
 * default is LEARNED: where that is found to be faster. */
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
	bool whole;                   /* all ranks of the job                        */
	enum single_copy single_copy; /* the same on all ranks */

	/* For open() only: as in struct ringup_init, among the ranks of the group; a
	 * back end that uses it does so on all of them alike.  NULL: there is none. */
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *exchange_ctx;

	/* For a back end of a device. */
	const char *nccl; /* RINGUP_NCCL */
	int start_ms;     /* RINGUP_START_TIMEOUT_MS, RINGUP_DEVICE_MS */
	int device_ms;
	uint64_t serial; /* of the group, the same on all ranks; 0: the world */
};

/*
 * Additional functions of a back end for device memory. Its plans end when they are
 * queued, so a thread must poll the queued work, and the work queued before it.
 */
struct backend_device {
	/* An operation with data at @at, if it is not NULL, is submitted: checks that the
	 * memory is the device's, and sets *@ready to a mark on @stream, unless that is NULL.
	 * Any thread.  unmark() gives the mark back when the operation is complete. */
	int (*mark)(void *self, const void *at, void *stream, void **ready, struct err *e);
	void (*unmark)(void *self, void *ready);

	/* Copies between the host's memory and the device's, when what is before the mark
	 * @ready (or NULL) has run: 1 when that is done, 0: call again, negative on failure.
	 * drop() begins no more of it: is the caller's memory free of the device?  The thread
	 * that makes progress. */
	int (*copy)(void *self, void *to, const void *from, uint64_t bytes, void *ready,
		    struct staging_copy *c, struct err *e);
	bool (*drop)(void *self, const struct staging_copy *c);

	/* For a plan whose pieces have streams, when it is done: flight() numbers what is
	 * queued, UINT64_MAX if it has run; the thread that makes progress.  hold() makes
	 * @stream wait for that, or fails if that was given up; any thread, before close(). */
	uint64_t (*flight)(void *self);
	int (*hold)(void *self, uint64_t flight, void *stream, struct err *e);

	/* Waits until all that is queued has run, false if it fails or takes too long.  Before
	 * close(), while no plan is in flight; any thread. */
	bool (*settle)(void *self);

	/* The watch thread looks: 0 if nothing is queued, 1 if something is, negative once it
	 * has failed or is late.  Beside the thread that makes progress. */
	int (*watch)(void *self, struct err *e);
};

/*
 * Seven functions, all mandatory, so callers do not test for NULL.  The thread that makes
 * progress calls them, one at a time, so no locks are needed.  Only open(), abort() and
 * close() may block.  After any failure close() must still be safe to call.
 *
 * A communicator has a list of back ends: for each kind of memory the first that opens, so a
 * second one for the host's memory is not opened.  It asks them in this order, for each plan,
 * with can().  A back end with several slots carries out several plans at a time, each
 * independent: plans that wait for each other are never in flight together.
 */
struct backend {
	const char *name;    /* as in RINGUP_BACKEND        */
	const char *summary; /* one line for `ringup help`  */
	size_t size;         /* of *self, which comes zeroed */
	unsigned int memory; /* MEMORY_HOST and so on: kinds whose plans it may carry out */
	int slots;           /* plans in flight at a time: 1 to BACKEND_SLOTS */
	bool by_host;        /* adds up each host's ranks first, then hosts in order     */
	bool named_only;     /* serves only where RINGUP_BACKEND names it                */
	bool ordered; /* plans of several groups start in one order: see turns.h; 1 slot */
	const struct backend_device *device; /* NULL: it takes the host's memory only     */

	/* Get ready to serve @t, which outlives it, or fail: this build or machine cannot, on
	 * all ranks alike.  With RINGUP_ENOMEM this rank alone cannot, and the job ends. */
	int (*open)(void *self, const struct topo *t, struct err *e);

	/* Does this back end carry out @p?  Pure: same answer every time and on every
	 * rank, since ranks choose without talking; so it looks at no piece, slot or serial. */
	bool (*can)(const void *self, const struct plan *p);

	/* Begin @p, which can() has taken; it stays valid until it is done or aborted. */
	int (*start)(void *self, const struct plan *p, struct err *e);

	/* Do all that can be done for @p now: 1 when the plan is done, 0 when it has to
	 * wait, negative on failure.  A piece with a stream is done when it is queued there:
	 * see hold().  After a failure only abort() and close() may be called. */
	int (*step)(void *self, const struct plan *p, struct err *e);

	/* step() returned 0 for all plans in flight: put into @w, which comes zeroed, what to
	 * wait for.  False if step() is to be called again; it may have yielded meanwhile. */
	bool (*wait)(void *self, struct wait_on *w);

	/* Give up all plans in flight: no buffer of theirs is touched after it.  Only
	 * close() is called afterwards. */
	void (*abort)(void *self);

	/* Release everything; safe after a failed open(). */
	void (*close)(void *self);
};

/* All back ends of this build, in order of preference; ends with NULL. */
extern const struct backend *const backends[];

/* backend_is_named - is @name in @list, names with commas between? */
static inline bool backend_is_named(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; at && *at; at = *at ? at + 1 : at) {
		size_t n = strcspn(at, ",");

		if (n == len && !strncmp(at, name, n))
			return true;
		at += n;
	}
	return false;
}

/* backend_find - by name, or NULL. */
static inline const struct backend *backend_find(const char *name)
{
	for (int i = 0; backends[i]; i++)
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	return NULL;
}

#endif
