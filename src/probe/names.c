/* names.c - resolve many names at once, with a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/names.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "host/netconf.h"
#include "ringup.h"

enum { THREADS = 16 };

/* Shared by the resolving threads and the caller; the last user frees it. */
struct desk {
	pthread_mutex_t lock;
	pthread_cond_t done;
	char (*name)[256];
	struct netconf *answer; /* one for each name */
	bool *is_done;
	int n, next, finished, users;
};

static void leave(struct desk *d)
{
	int i;

	pthread_mutex_lock(&d->lock);
	i = --d->users;
	pthread_mutex_unlock(&d->lock);
	if (i)
		return;
	for (i = 0; i < d->n; i++)
		netconf_free(&d->answer[i]);
	pthread_cond_destroy(&d->done);
	pthread_mutex_destroy(&d->lock);
	free(d->name);
	free(d->answer);
	free(d->is_done);
	free(d);
}

static void *names_ask(void *arg)
{
	struct desk *d = arg;
	int i;

	pthread_mutex_lock(&d->lock);
	while (d->next < d->n) {
		i = d->next++;
		pthread_mutex_unlock(&d->lock);
		netconf_resolve(&d->answer[i], d->name[i], NULL);
		pthread_mutex_lock(&d->lock);
		d->is_done[i] = true;
		d->finished++;
		pthread_cond_signal(&d->done);
	}
	pthread_mutex_unlock(&d->lock);
	leave(d);
	return NULL;
}

static struct desk *open_desk(const char *const *names, int n)
{
	struct desk *d = calloc(1, sizeof(*d));
	pthread_condattr_t attr;

	if (!d)
		return NULL;
	d->name = calloc((size_t)n + 1, sizeof(*d->name));
	d->answer = calloc((size_t)n + 1, sizeof(*d->answer));
	d->is_done = calloc((size_t)n + 1, sizeof(*d->is_done));
	d->users = 1;
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->done, &attr);
	pthread_condattr_destroy(&attr);
	if (!d->name || !d->answer || !d->is_done) {
		leave(d);
		return NULL;
	}
	d->n = n;
	for (int i = 0; i < n; i++)
		snprintf(d->name[i], sizeof(d->name[i]), "%s", names[i]);
	return d;
}

static void names_start(struct desk *d)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < THREADS && i < d->n; i++) {
		d->users++;
		if (pthread_create(&t, &attr, names_ask, d))
			d->users--;
	}
	pthread_attr_destroy(&attr);
}

/* Copies the answers received so far.  Call with the lock held. */
static int collect(const struct desk *d, struct netconf_host *out)
{
	const struct netconf_host *h;
	int n = 0;

	for (int i = 0; i < d->n; i++) {
		h = d->is_done[i] ? netconf_host_find(&d->answer[i], d->name[i]) : NULL;
		if (h)
			out[n++] = *h;
	}
	return n;
}

int names_resolve(struct netconf_host *out, const char *const *names, int n, int64_t ms,
		  struct err *e)
{
	struct desk *d = open_desk(names, n);
	int64_t end_ns = clock_deadline(ms);
	struct timespec until;
	int rc = 0;

	if (!d)
		return fail(e, RINGUP_ENOMEM, "no memory for names");
	until.tv_sec = end_ns / 1000000000;
	until.tv_nsec = end_ns % 1000000000;
	pthread_mutex_lock(&d->lock);
	names_start(d);
	while (!rc && d->finished < d->n && d->users > 1)
		rc = pthread_cond_timedwait(&d->done, &d->lock, &until);
	rc = collect(d, out);
	d->next = d->n; /* threads that come back later take no more names */
	pthread_mutex_unlock(&d->lock);
	leave(d);
	return rc;
}
