/* forks.h - detect fork(): count forks, and run hooks in the child. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

#include <stdint.h>

/*
 * forks_count - the number of forks since the first process that called it.
 *
 * A child of fork() has copies of locks that no thread will release and of threads
 * that do not run.  An object that keeps the count of its creation can tell, at the
 * price of a load.  The first call must come before the fork.  Threads: any.
 *
 * forks_seen - the same, faster, for a process that has called forks_count() before.
 */
uint32_t forks_count(void);

extern uint32_t forks_number;

static inline uint32_t forks_seen(void)
{
	return __atomic_load_n(&forks_number, __ATOMIC_RELAXED);
}

/*
 * A hook that runs in a child, right after fork(): a child that lives on must not
 * keep connections open, since their end tells others that its parent has died.
 * @fn may call only async-signal-safe functions.  The child removes the hook
 * first and sets its fn to NULL.
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
