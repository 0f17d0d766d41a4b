/* later.c - background threads that wait for collectives, so that operations need not block. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One thread at a time leads: it waits for the collectives that are under way.  A thread that
 * calls done() does not lead meanwhile; mostly the same one leads again afterwards.  Where
 * done() may wait for work that the done() of another collective begins (struct later, apart),
 * another thread leads at once, so there is one thread more than were ever in done() at a
 * time.
 */
#include "frameworks/later.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "frameworks/bridge.h"

/* Milliseconds that the leader waits for the oldest collective before it checks the others. */
#define LOOK_MS 1

/* A list whose end is known. */
struct queue {
	struct later *first, **end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

/* Guarded by lock. */
static struct queue added = { .end = &added.first }; /* since the leader has looked  */
static struct queue ready = { .end = &ready.first }; /* done() may be called         */
static bool led, apart, started;
static int idle; /* threads that sleep until there is something to lead or to call */

/* The leader's. */
static struct queue waited = { .end = &waited.first };
static struct later *held; /* until the job is closed */

static void queue_put(struct queue *q, struct later *l)
{
	l->next = NULL;
	*q->end = l;
	q->end = &l->next;
}

/* Move all of @from behind the end of @to. */
static void queue_move(struct queue *to, struct queue *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	from->first = NULL;
	from->end = &from->first;
}

/* Wait for each collective that has not ended, for @ms milliseconds; 1 if all have. */
static int later_try(struct later *l, int ms)
{
	int rc, ended = 1;

	for (int i = 0; i < l->count; i++) {
		if (!l->runs[i]->op)
			continue;
		rc = ms || ringup_poll(l->runs[i]->op) ? collective_wait(l->runs[i], ms)
						       : RINGUP_ETIMEDOUT;
		if (rc == RINGUP_ETIMEDOUT && !bridge_is_closing())
			ended = 0;
		else if (rc == RINGUP_ETIMEDOUT)
			collective_fail(l->runs[i], RINGUP_ESHUTDOWN,
					"%s: this process is leaving the job",
					collective_word(l->runs[i]->plan.kind));
	}
	return ended;
}

/* Does the library still use the memory of one of the collectives? */
static bool later_is_used(const struct later *l)
{
	for (int i = 0; i < l->count; i++)
		if (l->runs[i]->op)
			return true;
	return false;
}

/* The collectives of @l have ended: let done() be called, or hold it until the job is closed.
 */
static void later_end(struct later *l, struct queue *ended)
{
	l->left = l->frees && later_is_used(l);
	if (!l->left) {
		queue_put(ended, l);
		return;
	}
	l->job = bridge_number();
	l->next = held;
	held = l;
	bridge_leave();
}

/* Move held ones whose job is closed to @ended; their collectives no longer exist. */
static void later_release(struct queue *ended)
{
	struct later **at = &held, *l;

	while ((l = *at)) {
		if (!bridge_is_closed(l->job)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		for (int i = 0; i < l->count; i++)
			l->runs[i]->op = NULL;
		queue_put(ended, l);
	}
}

/* Move those that have ended to @ended; if none has, wait for a moment. */
static void later_look(struct queue *ended)
{
	struct later **at, *l;

	later_release(ended);
	for (at = &waited.first; (l = *at);) {
		if (!later_try(l, 0)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		later_end(l, ended);
	}
	waited.end = at;
	if (waited.first && !ended->first)
		later_try(waited.first, LOOK_MS);
}

/* Sleep until there is something to do: for a moment only if some wait for a job to be closed.
 * The caller has the lock. */
static void later_sleep(void)
{
	struct timespec until;

	idle++;
	if (led || !held) {
		pthread_cond_wait(&more, &lock);
	} else {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_MS * 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&more, &lock, &until);
	}
	idle--;
}

static void *later_run(void *unused);

/* Wake or start another thread.  The caller has the lock.  Returns 0, or an error number if
 * there is no thread. */
static int later_wake(void)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	if (idle) {
		pthread_cond_signal(&more);
		return 0;
	}
	sigfillset(&all); /* signals are for the program's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, later_run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		pthread_detach(thread);
	return rc;
}

/* Lead for a while.  The caller has the lock. */
static void later_lead(void)
{
	struct queue ended = { .end = &ended.first };

	led = true;
	queue_move(&waited, &added);
	pthread_mutex_unlock(&lock);
	later_look(&ended);
	pthread_mutex_lock(&lock);
	led = false;
	queue_move(&ready, &ended);
}

/* Call the first done() that may be called.  The caller has the lock. */
static void later_call(void)
{
	struct later *l = ready.first;
	bool left = l->left;

	ready.first = l->next;
	if (!ready.first)
		ready.end = &ready.first;
	if (apart && !led && (ready.first || added.first || waited.first))
		later_wake();
	pthread_mutex_unlock(&lock);
	l->done(l);
	if (!left)
		bridge_leave();
	pthread_mutex_lock(&lock);
}

static void *later_run(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		if (ready.first)
			later_call();
		else if (!led && (added.first || waited.first || held))
			later_lead();
		else
			later_sleep();
	}
	return unused;
}

int later_add(struct later *l)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	apart |= l->apart;
	if (!started)
		rc = later_wake();
	else if (!led && (apart || idle))
		later_wake();
	if (!rc) {
		started = true;
		queue_put(&added, l);
	}
	pthread_mutex_unlock(&lock);
	return rc ? RINGUP_ESYSTEM : 0;
}
