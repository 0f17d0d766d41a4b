/* stall.h - stall inspector: tensors that some ranks have submitted and others have not. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_STALL_H
#define ENGINE_STALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/liveness.h"

struct err;
struct engine;
struct comm;
struct heartbeat_rules;
struct op_late;
struct ringup_op;
struct observe_wait;
struct heartbeat_peer;

/*
 * A rank that never submits a tensor is alive and well; the other ranks wait for it, and would
 * wait for ever.  After a while each such tensor is reported, with the ranks that wait and the
 * ranks that are missing, then again after twice that time, and so on; the job ends if the
 * settings say so.
 *
 * Submitting costs nothing for it: a tensor's age counts from the first look that finds it
 * waiting, so it is up to one tick too small.
 *
 * In a group on one host, each rank looks at its own operations, and the first rank that waits
 * reports.  In a group that spans hosts, each leader looks at the ledger of its host and
 * reports waiting tensors to the root of the group's own tree, which then knows the ranks that
 * have not reported, and warns.  Either way ranks have their numbers in the world.
 *
 * All run in the watch's thread, except stall_take() and stall_describe().
 */
enum { STALL_NAME = LIVENESS_NAME, STALL_BOARD = 8 };

/* The root's: a tensor that a rank waits for. */
struct stall_entry {
	uint64_t group; /* its communicator's serial */
	char name[STALL_NAME];
	uint32_t kind, like, warnings;
	int64_t since_ns, first_ns, last_ns; /* start of the wait; first and last report */
	bool *in;                            /* by world rank: does it wait? */
};

struct stall {
	int64_t warn_ns, abort_ns, tick_ns; /* INT64_MAX: never */
	const struct heartbeat_peer *peer;
	int size;    /* of the world */
	bool hinted; /* the hint about ending a stall was printed */
	pthread_mutex_t lock;
	struct stall_entry board[STALL_BOARD];
};

/* A leader's, for each id of its communicator's ledger. */
struct stall_seen {
	uint64_t arrived;
	int64_t since_ns;
};

/* stall_open - for a rank of a world of @size.  stall_close() is safe on a zeroed struct. */
int stall_open(struct stall *s, const struct heartbeat_rules *r,
	       const struct heartbeat_peer *peer, int size, struct err *e);
void stall_close(struct stall *s);

/*
 * stall_describe - write to @out what the operation @late of @c, which was not complete in
 * time, waited for.
 *
 * Names the operation, the ranks of this host that had not started it then, by their numbers in
 * the world, with process and host, and the process state of the first one.  Ranks of other
 * hosts are asked, for P2P_ASK_MS at most.  If a rank has ended the job meanwhile, ranks of
 * other hosts do not know any more: then the reason of that end counts, which names the missing
 * ranks if it was the same time-out.  Any thread that waits for it.
 */
void stall_describe(const struct stall *s, struct comm *c, const struct op_late *late,
		    char *out, size_t len);

/* stall_look - warn of, or end the job for, operations that have waited too long at @now_ns.
 * @silence: the network or a host stands still, or did.  That is reported elsewhere, so the age
 * of operations that wait for other hosts then starts again. */
void stall_look(struct stall *s, struct engine *g, bool silence, int64_t now_ns);

/* stall_match - what to do if ranks call the same operation @name and otherwise. */
const char *stall_match(const char *name);

/* stall_reported - at the root of a group that spans hosts: copy at most @most of the
 * operations that its hosts report to @out; returns how many. */
int stall_reported(struct stall *s, const struct comm *c, int64_t now_ns,
		   struct observe_wait *out, int most);

/* stall_take - at the root of a group: handle a leader's report.  Any thread; a malformed
 * report is dropped. */
void stall_take(struct stall *s, const void *data, size_t len);

#endif
