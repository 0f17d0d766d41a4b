/* later.c - a thread that waits for collectives, for operations that must not block. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/later.h"

#include <pthread.h>
#include <signal.h>

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
	int i, rc, ended = 1;

	for (i = 0; i < l->count; i++) {
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

static void later_end(struct later *l)
{
	l->done(l);
	bridge_leave();
}

/* Move what has been added behind the end of @list; sleep first if the list is empty. */
static struct later **later_take(struct later **list, struct later **end)
{
	pthread_mutex_lock(&lock);
	while (!*list && !added)
		pthread_cond_wait(&more, &lock);
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
	struct later *list = NULL, **end = &list, **at, *l;
	int ended;

	for (;;) {
		end = later_take(&list, end);
		for (at = &list, ended = 0; (l = *at);) {
			if (!later_try(l, 0)) {
				at = &l->next;
				continue;
			}
			*at = l->next;
			later_end(l);
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
