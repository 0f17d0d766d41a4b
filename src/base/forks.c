/* forks.c - tell a child of fork() from its parent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/forks.h"

#include <pthread.h>

static uint32_t count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
	__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
}

static void watch_forks(void)
{
	/* Without memory for it the count stays 0: no worse than not to ask. */
	if (pthread_atfork(NULL, NULL, in_child))
		return;
}

uint32_t forks_count(void)
{
	pthread_once(&once, watch_forks);
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}
