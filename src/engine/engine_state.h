/* engine_state.h - the state of a rank's engine, which drives all its communicators. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_ENGINE_STATE_H
#define ENGINE_ENGINE_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/forks.h"
#include "engine/callback.h"
#include "engine/callers.h"
#include "trace/trace.h"
#include "wire/alarm.h"
#include "wire/waitset.h"

enum { ENGINE_COMMS = 256 };

struct cause;
struct comm;
struct heartbeat_peer;
struct liveness;
struct op_late;
struct p2p;
struct progress;
struct ringup_op;

/*
 * A thread that waits makes the progress.  The baton belongs to one thread of this rank at a
 * time: that thread moves all communicators along until the operation that it waits for is
 * complete.  Other waiting threads sleep and are woken when their operations complete or the
 * baton is free.  The progress thread takes the baton only when there is work and no thread
 * waits; the rank that submitted last notifies it.
 *
 * One thread drives all communicators: a rank that drove one group only could wait for a rank
 * that waits, in another group, for a third rank that waits for the first.
 */
struct engine {
	/* Set before engine_start(), by context.c or a test. */
	struct alarm *alarm;
	struct waitset *waitset;   /* all ranks of this host; this rank sleeps in it */
	struct progress *progress; /* of each of these ranks, in their order */
	struct liveness *liveness; /* likewise */
	struct p2p *p2p;           /* messages between two ranks; NULL: there are none */
	/* Tells other hosts of the alarm; called at least once, by any thread. */
	void (*on_alarm)(void *ctx, int culprit, int code, const char *why);
	void *on_alarm_ctx;
	/* Something may be queued on a device: the watch thread looks, and is woken so; 0:
	 * there is no such thread. */
	int device_fd; /* atomic, as is device_busy */
	bool device_busy;
	struct cause *cause; /* for this rank's report to its launcher; NULL: none */
	const int *launched; /* of every rank: its number there, or -1; NULL likewise */
	const struct heartbeat_peer *self; /* this rank's process and host; NULL: unknown */
	/* Describes what an operation waits for that is not complete in time; or NULL. */
	void (*describe)(void *ctx, struct comm *comm, const struct op_late *late, char *out,
			 size_t len);
	void *describe_ctx;
	struct trace trace; /* see timeline.h; all zero: off */

	/* From here on the engine's own: engine.c, comms.c, notify.c. */
	struct comm *comms[ENGINE_COMMS]; /* atomic; NULL where there is none  */
	int comm_end;                     /* all communicators are below; atomic       */
	uint32_t looking;         /* threads that go through the communicators; atomic */
	uint32_t baton;           /* atomic                            */
	uint32_t waiting;         /* threads asleep because another thread has the baton */
	uint32_t done;            /* futex: an operation completed, or the baton is free */
	bool dead;                /* everything in flight has failed; atomic         */
	uint32_t eager_callbacks; /* eager operations with a callback; atomic */
	bool tending;             /* the progress thread waits for those; atomic          */
	struct callbacks callbacks;
	struct callers callers;
	struct engine *next_live; /* list of running engines, for engine_describe() */
	pthread_t thread;
	bool has_thread, stop;
	struct pollfd *poll; /* rest.c's: room for poll_room descriptors */
	int poll_room;
	uint64_t turns_clock; /* turns.c's */
	uint32_t forks;       /* forks_count() of the process that started it */
};

/* engine_is_mine - false in a child of fork(), which is no rank. */
static inline bool engine_is_mine(const struct engine *g)
{
	return g->forks == forks_seen();
}

/* engine_is_alarmed - has a rank ended the job?  engine_is_dead - has all that was in flight
 * failed because of that? */
static inline bool engine_is_alarmed(const struct engine *g)
{
	return __atomic_load_n(&g->alarm->word, __ATOMIC_RELAXED);
}

static inline bool engine_is_dead(const struct engine *g)
{
	return __atomic_load_n(&g->dead, __ATOMIC_RELAXED);
}

#endif
