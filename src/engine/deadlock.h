/* deadlock.h - detect and end jobs whose ranks all wait for each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_DEADLOCK_H
#define ENGINE_DEADLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/liveness.h"

struct engine;
struct err;
struct heartbeat_rules;

/*
 * A stall (stall.h) may end: the rank that is missing may only be slow.  It never ends if no
 * rank can go on.  A rank stands still while
 *
 *   - each of its threads that has ever started an operation is blocked in a wait without a
 *     deadline (callers.h), at each look in the same wait;
 *   - it carries nothing out, nothing is ready, and no message moves;
 *   - no host is silent, so that nothing is on its way to it.
 *
 * If all ranks stand still at the same time, for as long as RINGUP_DEADLOCK_MS says, none can
 * start what another waits for.  One thing is not known: a thread that has never started an
 * operation may start its first one.  It has that time to do so.
 *
 * Each rank counts for how long it stands still, and publishes that in shared memory with what
 * it waits for.  When all ranks of a host have stood still for long enough, its leader reports
 * them to rank 0, which ends the job when all ranks of the world are reported.
 *
 * All run in the watch's thread, except deadlock_take().
 */
enum { DEADLOCK_BOARD = 8 };

struct deadlock {
	int64_t grace_ns, tick_ns; /* grace_ns 0: never */
	int size;                  /* of the world */
	/* This rank's. */
	int64_t still_ns, looked_ns;
	uint64_t state; /* a hash of what it waits for, and how far that is */
	/* Rank 0's. */
	pthread_mutex_t lock;
	struct liveness_wait board[DEADLOCK_BOARD];
	int64_t *heard_ns;    /* of each rank of the world: its last report; 0: none */
	unsigned char *where; /* likewise: its place on the board               */
	int64_t all_ns;       /* since when all are reported; 0: not all are    */
};

/* deadlock_open - for a rank of a world of @size.  deadlock_close() is safe on a zeroed struct.
 */
int deadlock_open(struct deadlock *d, const struct heartbeat_rules *r, int size, struct err *e);
void deadlock_close(struct deadlock *d);

/* deadlock_look - one look, at @now_ns.  @rank_of: the ranks of this host in the world.
 * @silence: as for stall_look(). */
void deadlock_look(struct deadlock *d, struct engine *g, const int *rank_of, bool silence,
		   int64_t now_ns);

/* deadlock_take - at rank 0: handle a leader's report; false if it is none.  Any thread; a
 * malformed report is dropped. */
bool deadlock_take(struct deadlock *d, const void *data, size_t len);

#endif
