/* engine.h - Horovod's semantics: submit by name, complete when all ranks have. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/forks.h"
#include "engine/callback.h"
#include "engine/lane.h"
#include "trace/trace.h"
#include "wire/alarm.h"
#include "wire/seat.h"

enum { ENGINE_LANES = 256 };

struct cause;
struct p2p;
struct p2p_request;
struct request;
struct ringup_op;

/*
 * Whoever waits, drives.  The baton belongs to one thread of this rank at a
 * time: it moves all lanes along until the operation that it waits for is
 * complete.  Other waiting threads sleep and are woken when their operations
 * complete or the baton is free.  The engine thread takes it only when there is
 * work and nobody waits; it is kicked by the rank that submitted last.
 *
 * One thread for all lanes: a rank that only looked at one group could wait for a
 * rank that waits, in another group, for a third that waits for the first.
 */
struct engine {
	/* Set before engine_start(), by member.c or a test. */
	struct alarm *alarm;
	struct row *row; /* all ranks of this host: here this rank sleeps */
	struct p2p *p2p; /* messages between two ranks; NULL: there are none */
	/* Tell other hosts; called at least once, by more than one thread. */
	void (*on_alarm)(void *ctx, int culprit, int code, const char *why);
	void *on_alarm_ctx;
	struct cause *cause; /* what this rank tells its launcher; NULL: nothing */
	/* What an operation waits for that is not complete in time; or NULL. */
	void (*describe)(void *ctx, struct lane *l, const struct ringup_op *op, char *out,
			 size_t len);
	void *describe_ctx;
	struct trace trace; /* see timeline.h; all zero: off */

	/* From here on engine.c's own. */
	struct lane *lanes[ENGINE_LANES]; /* atomic; NULL where there is none  */
	int lane_end;                     /* all lanes are below; atomic       */
	uint32_t looking;                 /* threads that go through the lanes; atomic */
	uint32_t baton;                   /* atomic                            */
	uint32_t waiting;                 /* threads asleep because another has the baton    */
	uint32_t done;   /* futex: an operation completed, or the baton is free */
	bool dead;       /* everything in flight has failed; atomic         */
	uint32_t tended; /* eager operations that a callback waits for; atomic */
	bool tending;    /* the engine thread waits for those; atomic          */
	struct callbacks callbacks;
	struct engine *next_live; /* of those that run, for engine_describe() */
	pthread_t thread;
	bool has_thread, stop;
	uint32_t forks; /* of the process that started it */
};

/* engine_start - with the fields above set; starts the engine thread. */
int engine_start(struct engine *g, struct err *e);

/* engine_add - drive @l, too, from now on; returns its place, or RINGUP_ENOMEM.
 * engine_remove - no longer; the caller then closes it.  Nothing is in flight in it. */
int engine_add(struct engine *g, struct lane *l, struct err *e);
void engine_remove(struct engine *g, struct lane *l);

/* engine_visit - call @fn for every lane; none goes away meanwhile.  Any thread. */
void engine_visit(struct engine *g, void (*fn)(struct lane *l, void *arg), void *arg);

/* engine_is_mine - false in a child of fork(), which is no rank. */
static inline bool engine_is_mine(const struct engine *g)
{
	return g->forks == forks_seen();
}

/* engine_flying - operations that are not complete, in all lanes. */
int engine_flying(struct engine *g);

/* engine_stop - end the thread; who rings or raises the alarm may go on.  Safe on a zeroed
 * engine. */
void engine_stop(struct engine *g);

/* engine_submit - start an operation; with a deadline that is not 0 carry it out and return
 * what engine_wait() would, and set *@opp only if it is still under way. */
int engine_submit(struct lane *l, const struct request *r, int64_t deadline_ns,
		  struct ringup_op **opp, struct err *e);

/* engine_p2p - the same for a send or a receive. */
int engine_p2p(struct lane *l, const struct p2p_request *q, int64_t deadline_ns,
	       struct ringup_op **opp, struct err *e);

/* engine_late - the rest of that, of an operation that submit_again() has left in flight. */
int engine_late(struct ringup_op *op, int64_t deadline_ns, struct ringup_op **opp,
		struct err *e);

/* engine_poll - 1 if @op is done; does a little work if nobody else does. */
int engine_poll(struct ringup_op *op);

/* engine_wait - see ringup_wait(). */
int engine_wait(struct ringup_op *op, int64_t deadline_ns, struct err *e);

/* engine_then - call @fn when @op is complete, in a thread of its own; see ringup_then(). */
int engine_then(struct ringup_op *op, void (*fn)(void *ctx, int status), void *ctx,
		struct err *e);

/* engine_settle - this rank leaves: what is in flight fails now, and all callbacks run to their
 * end.  The job has been ended if anything was in flight. */
void engine_settle(struct engine *g);

/* engine_describe - a sentence about what @op of @g waits for, to @out; nothing is written if
 * it is complete, or @g is not there any more.  It may ask other hosts: see p2p_ask().  Any
 * thread of the process that has started @g. */
void engine_describe(struct engine *g, struct ringup_op *op, char *out, size_t len);

/* engine_alarm - end the job, because of rank @culprit or, if that is -1, of no single rank;
 * the first sentence counts.  Any thread. */
void engine_alarm(struct engine *g, int culprit, int code, const char *why);

/* engine_blame - this rank fails because of rank @culprit of the world; -1 has no effect. */
void engine_blame(struct engine *g, int culprit);

/* engine_news - the agreement or the alarm has changed: look again.  Any thread. */
void engine_news(struct engine *g);

/* ---- for lanes ---- */

/* engine_is_over - has the job failed, or a rank left that @l needs?  Then says so in @e,
 * which may be NULL, and returns true. */
bool engine_is_over(struct lane *l, struct err *e);

/* engine_has_failed - the same, but ranks that have left do not count. */
bool engine_has_failed(struct engine *g, struct err *e);

/* engine_goes_on - is nothing of that so?  For who would ask for no more than that. */
static inline bool engine_goes_on(const struct lane *l)
{
	const struct engine *g = l->engine;

	return !__atomic_load_n(l->left, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&g->alarm->word, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&g->dead, __ATOMIC_RELAXED);
}

/* engine_completed - operations of this rank are complete: wake who waits for them. */
void engine_completed(struct engine *g);

/* engine_announce - something of this rank's is to be seen in shared memory. */
void engine_announce(struct lane *l);

/* engine_call - wake who waits for news in @l, kick who does not. */
void engine_call(struct lane *l);

/* engine_arrived - tell who has to know, after post() of @op, which nobody else has yet, or
 * which is NULL. */
void engine_arrived(struct lane *l, struct ringup_op *op, enum arrival as);

#endif
