/* forks.c - detect fork(): count forks, and run hooks in the child. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/forks.h"

#include <pthread.h>

uint32_t forks_number;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of hooks; held across fork() */
static struct forks_hook *hooks;

static void before(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	void (*fn)(void *arg);
	struct forks_hook *h;

	__atomic_fetch_add(&forks_number, 1, __ATOMIC_RELAXED);
	/* Hooks are the parent's; this process may add its own for its children. */
	while ((h = hooks)) {
		hooks = h->next;
		fn = h->fn;
		h->fn = NULL;
		fn(h->arg);
	}
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	/* Without memory for the handlers the count stays 0, and forks go unnoticed. */
	if (pthread_atfork(before, in_parent, in_child))
		return;
}

uint32_t forks_count(void)
{
	pthread_once(&once, watch_forks);
	return forks_seen();
}

void forks_add(struct forks_hook *h)
{
	forks_count();
	pthread_mutex_lock(&lock);
	h->prev = NULL;
	h->next = hooks;
	if (hooks)
		hooks->prev = h;
	hooks = h;
	pthread_mutex_unlock(&lock);
}

void forks_remove(struct forks_hook *h)
{
	if (!h->fn)
		return;
	pthread_mutex_lock(&lock);
	if (h->prev)
		h->prev->next = h->next;
	else
		hooks = h->next;
	if (h->next)
		h->next->prev = h->prev;
	pthread_mutex_unlock(&lock);
	h->fn = NULL;
}
