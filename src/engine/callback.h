/* callback.h - threads that run completion callbacks and do nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_CALLBACK_H
#define ENGINE_CALLBACK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* One completion callback.  It is allocated by the caller and freed by the thread that has run
 * it. */
struct callback {
	void (*fn)(void *ctx, int status);
	void *ctx;
	struct err why; /* of a failure; its code is the status */
	bool is_eager;  /* counted in struct engine's eager_callbacks    */
	int64_t queued_ns;
	struct callback *next;
};

/*
 * Callbacks run in the order in which they were pushed, one at a time as long as each ends
 * soon.  A callback that has waited CALLBACK_LATE_MS for earlier ones, which may wait for its
 * effect, gets another thread: there is always one thread more than there are callbacks
 * running, up to CALLBACK_THREADS.
 */
enum { CALLBACK_THREADS = 64, CALLBACK_LATE_MS = 1 };

struct callbacks {
	/* Set before the first is pushed, or NULL: called in the thread of a callback before
	 * its fn, with the error of its operation. */
	void (*prepare)(const struct err *why);
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct callback *first, **end;
	pthread_t thread[CALLBACK_THREADS];
	int threads, running;
	int expected; /* atomic: see callbacks_expect() */
	bool open, stop;
};

/* callbacks_open - prepare @c, without threads.  callbacks_start - start the first threads,
 * unless they run; any thread. */
void callbacks_open(struct callbacks *c);
int callbacks_start(struct callbacks *c, struct err *e);

/* callbacks_push - queue @one, whose operation is complete; after callbacks_start().  Never
 * blocks; any thread, whatever locks it holds. */
void callbacks_push(struct callbacks *c, struct callback *one);

/* callbacks_expect - this thread will push one, and then call callbacks_pushed(): meanwhile
 * callbacks_stop() does not return. */
void callbacks_expect(struct callbacks *c);
void callbacks_pushed(struct callbacks *c);

/* callbacks_stop - run all callbacks that have been pushed, wait for them, and end the threads;
 * safe on a zeroed struct. */
void callbacks_stop(struct callbacks *c);

#endif
