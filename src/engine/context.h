/* context.h - this process as a rank, from ringup_init() to ringup_fini(). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_CONTEXT_H
#define ENGINE_CONTEXT_H

#include "base/conf.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/timeline.h"
#include "engine/watch.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/notice.h"
#include "wire/observe.h"
#include "wire/rendezvous.h"
#include "wire/secret.h"

struct context {
	struct engine engine;
	struct watch watch;
	struct group world;
	struct rendezvous meeting;
	struct conf conf;
	/* This rank's place in the job. */
	int rank, size, local_rank, local_size, host_rank, host_count;
	bool homogeneous;
	/* Set in an elastic job; else 0, and nothing is mapped. */
	uint32_t generation, slot;
	struct notice notice;
	struct cause cause; /* all zero: no launcher asks */
	struct observe observe;
	int *launched;      /* the launcher's number of every rank, or -1; or NULL */
	bool met_elsewhere; /* by the program's own exchange */
	struct heartbeat_peer *peers;
	uint64_t groups;  /* opened by all ranks so far                  */
	uint64_t *counts; /* each rank's number in an exchange about groups */
	struct err why;   /* the failure of such an exchange; code 0: none */
	/* For the connections of groups. */
	char address[128];
	struct secret secret;
	char host[HEARTBEAT_HOST_BYTES]; /* the host's name, for messages */
	/* As in struct ringup_init; NULL: none. */
	char *part;
	int *part_ranks;
};

/*
 * context_open - meet the other ranks, share memory or connect, choose a back end, start.
 *
 * All ranks fail together, with the sentence of a rank that failed.
 * @how as in ringup_init(), or NULL.  context_close() is not called after a failure.
 */
int context_open(struct context *c, const struct ringup_init *how, struct err *e);

/* context_self - this rank, for its timeline. */
struct timeline_rank context_self(const struct context *c);

/* context_leave - announce the end to the other ranks; false in a child of fork(), which is no
 * rank and has nothing to close.  Groups are closed after it, and the context after them. */
bool context_leave(struct context *c);
void context_close(struct context *c);

/*
 * context_group_open - make a group of @count ranks of the world.
 *
 * All ranks of the world call it, in the same order and with the same @ranks, which are sorted
 * and distinct.  On a rank outside @ranks the group has no communicator.  The same holds for
 * context_group_close(); RINGUP_EBUSY if operations are in flight on any rank.
 */
int context_group_open(struct context *c, const int *ranks, int count, struct group *g,
		       struct err *e);
int context_group_close(struct context *c, struct group *g, struct err *e);

/* context_group_abort - end all operations of @g, which has a communicator, on all its ranks;
 * it still has to be closed.  That of the world ends the job.  Any thread. */
void context_group_abort(struct context *c, struct group *g);

/* context_state_synced - see ringup_state_synced(). */
void context_state_synced(bool synced);

#endif
