/* callback.c - threads that run completion callbacks and do nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/callback.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "ringup.h"

enum { FIRST_THREADS = 2 };

static const int64_t late_ns = CALLBACK_LATE_MS * (int64_t)1000000;

static void *callback_thread(void *arg);

/* With the lock.  If no thread can be started now, the next callback tries again. */
static int add_thread(struct callbacks *c)
{
	int rc;

	rc = thread_start(&c->thread[c->threads], callback_thread, c);
	c->threads += !rc;
	return rc;
}

static void wait_until(struct callbacks *c, int64_t ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	pthread_cond_timedwait(&c->work, &c->lock, &t);
}

/* With the lock: the next callback to run; NULL at the end. */
static struct callback *take_next(struct callbacks *c)
{
	struct callback *one;

	for (;;) {
		one = c->first;
		if (!one && c->stop && !c->running)
			return NULL;
		if (!one)
			pthread_cond_wait(&c->work, &c->lock);
		else if (c->running && clock_ns() < one->queued_ns + late_ns)
			wait_until(c, one->queued_ns + late_ns);
		else
			break;
	}
	c->first = one->next;
	if (!c->first)
		c->end = &c->first;
	return one;
}

static void *callback_thread(void *arg)
{
	struct callbacks *c = arg;
	struct callback *one;

	pthread_mutex_lock(&c->lock);
	while ((one = take_next(c))) {
		c->running++;
		if (c->running == c->threads && c->threads < CALLBACK_THREADS)
			(void)add_thread(c);
		pthread_mutex_unlock(&c->lock);
		if (c->prepare)
			c->prepare(&one->why);
		one->fn(one->ctx, one->why.code);
		free(one);
		pthread_mutex_lock(&c->lock);
		c->running--;
		/* After stop, other threads wait for the last callback. */
		if (c->stop && !c->running)
			pthread_cond_broadcast(&c->work);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void callbacks_open(struct callbacks *c)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, &a);
	pthread_condattr_destroy(&a);
	c->end = &c->first;
	c->open = true;
}

int callbacks_start(struct callbacks *c, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (c->threads < FIRST_THREADS && !rc)
		rc = add_thread(c);
	/* One is enough as long as no callback waits for another. */
	rc = c->threads ? 0 : fail(e, RINGUP_ESYSTEM, "callback thread: %s", strerror(rc));
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void callbacks_push(struct callbacks *c, struct callback *one)
{
	one->queued_ns = clock_ns();
	one->next = NULL;
	pthread_mutex_lock(&c->lock);
	*c->end = one;
	c->end = &one->next;
	/* After stop, callbacks_stop() waits, too, and would not take the callback. */
	if (c->stop)
		pthread_cond_broadcast(&c->work);
	else
		pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
}

void callbacks_expect(struct callbacks *c)
{
	__atomic_fetch_add(&c->expected, 1, __ATOMIC_RELAXED);
}

void callbacks_pushed(struct callbacks *c)
{
	__atomic_fetch_sub(&c->expected, 1, __ATOMIC_RELEASE);
}

void callbacks_stop(struct callbacks *c)
{
	int threads;

	if (!c->open)
		return;
	while (__atomic_load_n(&c->expected, __ATOMIC_ACQUIRE))
		sched_yield();
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->work);
	/* Callbacks that run may still need more threads. */
	while (c->first || c->running)
		pthread_cond_wait(&c->work, &c->lock);
	threads = c->threads;
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < threads; i++)
		pthread_join(c->thread[i], NULL);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->work);
	memset(c, 0, sizeof(*c));
}
