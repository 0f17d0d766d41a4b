/* forks.h - tell a child of fork() from its parent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

#include <stdint.h>

/*
 * forks_count - how many forks lie between the first process that asked and this one.
 *
 * A child of fork() has copies of locks that nobody will open and of threads
 * that do not run.  Who keeps the count of its birth can tell, at the price of
 * a load.  The first call must come before the fork.  Threads: any.
 *
 * forks_seen - the same, for whoever has called that before.
 */
uint32_t forks_count(void);

extern uint32_t forks_number;

static inline uint32_t forks_seen(void)
{
	return __atomic_load_n(&forks_number, __ATOMIC_RELAXED);
}

/*
 * Something to be done in a child, right after fork(): a child that goes on
 * living must not keep connections open whose end tells others that its parent
 * has died.  @fn may do only what a signal handler may.  In the child the hook is
 * gone then, its fn NULL.
 *
 * Ownership: *@h is the caller's, from forks_add() to forks_remove().
 */
struct forks_hook {
	void (*fn)(void *arg);
	void *arg;
	struct forks_hook *prev, *next;
};

void forks_add(struct forks_hook *h);
void forks_remove(struct forks_hook *h); /* may be all zero */

#endif
