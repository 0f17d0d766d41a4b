/* stall.h - tensors that some ranks have submitted and others have not. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_STALL_H
#define ENGINE_STALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct engine;
struct comm;
struct heartbeat_rules;
struct ringup_op;
struct heartbeat_peer;

/*
 * A rank that never submits a tensor is alive and well; the others wait for it,
 * and would for ever.  After a while each such tensor is reported, with those who
 * wait and those who are missing, then again after twice that time, and so on; if
 * asked, the job ends.
 *
 * Submitting costs nothing for it: age counts from the first time that something was
 * seen waiting, so it is up to one tick younger than it is.
 *
 * In a group on one host, each rank looks at its own operations, and the first of those
 * that wait speaks.  In one that spans hosts, each leader looks at the ledger of its
 * host and reports what waits there to the root of the group's own tree, which knows by
 * then who has not reported, and speaks.  Either way ranks go by their numbers in the
 * world.
 *
 * One thread, the watch's; but for stall_take().
 */
enum { STALL_NAME = 96, STALL_BOARD = 8 };

/* The root's: a tensor that somebody waits for. */
struct stall_topic {
	uint64_t group; /* its communicator's serial */
	char name[STALL_NAME];
	uint32_t kind, warnings;
	int64_t since_ns, first_ns, last_ns; /* it has waited; was reported first, last */
	bool *in;                            /* ranks that wait, as the world counts */
};

struct stall {
	int64_t warn_ns, abort_ns, tick_ns; /* INT64_MAX: never */
	const struct heartbeat_peer *peer;
	int size; /* of the world */
	pthread_mutex_t lock;
	struct stall_topic board[STALL_BOARD];
};

/* A leader's, for each number of its communicator's ledger. */
struct stall_seen {
	uint64_t arrived;
	int64_t since_ns;
};

/* stall_open - for a rank of a world of @size.  stall_close() is safe on a zeroed struct. */
int stall_open(struct stall *s, const struct heartbeat_rules *r,
	       const struct heartbeat_peer *peer, int size, struct err *e);
void stall_close(struct stall *s);

/*
 * stall_describe - what @op of @l, which is not complete in time, waits for, to @out.
 *
 * Names the operation, the ranks of this host that have not started it, by their numbers in the
 * world, with process and host, and what the system says of the first of them.  Ranks of other
 * hosts are asked, for P2P_ASK_MS at most.  Any thread that waits for @op.
 */
void stall_describe(const struct stall *s, struct comm *l, const struct ringup_op *op,
		    char *out, size_t len);

/* stall_look - warn of, or end the job for, what has waited too long at @now_ns.
 * @silence: the network stands still, or a host does, or did.  Then what waits for other hosts
 * has a reason that is told already; its age counts from when all goes on. */
void stall_look(struct stall *s, struct engine *g, bool silence, int64_t now_ns);

/* stall_take - at the root of a group: a leader's report has come.  Any thread; what makes
 * no sense is dropped. */
void stall_take(struct stall *s, const void *data, size_t len);

#endif
