/* later.c - a thread that waits for collectives, for operations that must not block. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/later.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "frameworks/bridge.h"

/* So long the thread waits for the oldest collective before it looks at the others. */
#define LOOK_MS 1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct later *added, **last = &added; /* since the thread has looked; guarded by lock */
static int running;                          /* guarded by lock                               */

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
					"%s: this process leaves the job",
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

/* Call done(), or put @l on @held until the job is closed. */
static void later_end(struct later *l, struct later **held)
{
	if (l->frees && later_is_used(l)) {
		l->job = bridge_number();
		l->next = *held;
		*held = l;
	} else {
		l->done(l);
	}
	bridge_leave();
}

/* Call done() for those on @held whose job is closed; their collectives are no more. */
static void later_release(struct later **held)
{
	struct later *l;

	while ((l = *held)) {
		if (!bridge_is_closed(l->job)) {
			held = &l->next;
			continue;
		}
		*held = l->next;
		for (int i = 0; i < l->count; i++)
			l->runs[i]->op = NULL;
		l->done(l);
	}
}

/* Sleep until there is something to do: for a moment only if some wait for a job to be closed.
 * The caller has the lock. */
static void later_sleep(bool holds)
{
	struct timespec until;

	if (!holds) {
		pthread_cond_wait(&more, &lock);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += LOOK_MS * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&more, &lock, &until);
}

/* Move what has been added behind the end of @list; sleep first if the list is empty. */
static struct later **later_take(struct later **list, struct later **end, bool holds)
{
	pthread_mutex_lock(&lock);
	if (!*list && !added)
		later_sleep(holds);
	if (added) {
		*end = added;
		end = last;
		added = NULL;
		last = &added;
	}
	pthread_mutex_unlock(&lock);
	return end;
}

static void *later_run(void *unused)
{
	struct later *list = NULL, **end = &list, **at, *l, *held = NULL;
	int ended;

	for (;;) {
		end = later_take(&list, end, held != NULL);
		later_release(&held);
		for (at = &list, ended = 0; (l = *at);) {
			if (!later_try(l, 0)) {
				at = &l->next;
				continue;
			}
			*at = l->next;
			later_end(l, &held);
			ended = 1;
		}
		end = at;
		if (list && !ended)
			later_try(list, LOOK_MS);
	}
	return unused;
}

int later_add(struct later *l)
{
	sigset_t all, before;
	pthread_t thread;
	int rc = 0;

	l->next = NULL;
	pthread_mutex_lock(&lock);
	if (!running) {
		sigfillset(&all); /* signals are for the program's threads */
		pthread_sigmask(SIG_SETMASK, &all, &before);
		rc = pthread_create(&thread, NULL, later_run, NULL);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (!rc)
			pthread_detach(thread);
		running = !rc;
	}
	if (!rc) {
		*last = l;
		last = &l->next;
		pthread_cond_signal(&more);
	}
	pthread_mutex_unlock(&lock);
	return rc ? RINGUP_ESYSTEM : 0;
}
