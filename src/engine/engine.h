/* engine.h - Horovod's semantics: submit by name, complete when all ranks have. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "engine/agree.h"
#include "engine/tensor.h"
#include "wire/alarm.h"
#include "wire/seat.h"

struct ledger;

/*
 * Whoever waits, drives.  The baton belongs to one thread of this rank at a
 * time: it takes the next batch from the agreement, cuts it into plans, and
 * moves the plans along until the operation that it waits for is complete.
 * Other waiting threads sleep and are woken when their operations complete or
 * the baton is free.  The engine thread takes it only when there is work and
 * nobody waits; it is kicked by the rank that submitted last.
 *
 * submit ---> agreement ---> batch ---> plans ---> back end ---> complete
 *  (any thread, lock)         (holder of the baton, no lock)
 *
 * Eager operations need none of this: see ledger.h.
 */
struct engine {
	/* Set before engine_start(), by start.c or a test. */
	struct team team;
	struct alarm *alarm;
	struct row *row;
	uint32_t *left; /* 0, or 1 + a rank that has left; atomic */
	const struct agree *agree;
	void *agreement;
	struct ledger *ledger; /* the agreement, if it can carry eager operations */
	const struct backend *backend;
	void *carrier; /* the back end's own memory */
	uint64_t fusion_bytes, eager_bytes;
	void (*on_alarm)(void *ctx, int code, const char *why); /* tell others */
	void *on_alarm_ctx;

	/* From here on engine.c's own. */
	pthread_mutex_t lock; /* tensors, the lists of operations, post() */
	struct tensors tensors;
	struct ringup_op *flying, *pool, *blocks;
	struct ringup_op *spare; /* for engine_submit()'s short way; atomic */
	uint64_t unnamed;        /* operations without a name so far            */
	uint32_t eager_count;    /* eager ones in flight; atomic                */

	uint32_t baton;   /* atomic                                          */
	uint32_t waiting; /* threads asleep because another has the baton    */
	uint32_t done;    /* futex: an operation completed, or the baton is free */

	/* The holder of the baton's. */
	struct item items[BATCH_ITEMS];
	int item_count, item_at;
	struct plan plan;
	struct piece pieces[BATCH_ITEMS];
	struct ringup_op *ops[BATCH_ITEMS];
	const char *plan_bad;
	uint64_t *counts; /* of an allgather, an entry a rank */
	bool running;     /* the plan has been started        */
	bool dead;        /* everything in flight has failed  */

	pthread_t thread;
	bool has_thread, stop;
	uint32_t forks; /* of the process that started it */
};

/* What a caller asks for. */
struct request {
	const char *name; /* NULL: by order */
	struct want want;
	const void *in;
	void *out;
	uint64_t rows;    /* allgather */
	void **outp;      /* allgather */
	uint64_t *counts; /* allgather */
};

/* engine_start - with the fields above set; starts the engine thread. */
int engine_start(struct engine *g, struct err *e);

/* engine_is_mine - false in a child of fork(), which is no rank. */
bool engine_is_mine(const struct engine *g);

/* engine_flying - operations that are not complete. */
int engine_flying(struct engine *g);

/* engine_stop - end the thread, free everything of its own, also operations.
 * Safe on a zeroed engine. */
void engine_stop(struct engine *g);

/* engine_submit - start an operation; with @opp NULL carry it out and return
 * what engine_wait() would. */
int engine_submit(struct engine *g, const struct request *r, struct ringup_op **opp,
		  struct err *e);

/* engine_poll - 1 if @op is done; does a little work if nobody else does. */
int engine_poll(struct ringup_op *op);

/* engine_wait - see ringup_wait(). */
int engine_wait(struct ringup_op *op, int64_t deadline_ns, struct err *e);

/* engine_alarm - end the job; the first sentence counts.  Any thread. */
void engine_alarm(struct engine *g, int code, const char *why);

/* engine_news - the agreement or the alarm has changed: look again.  Any thread. */
void engine_news(struct engine *g);

#endif
