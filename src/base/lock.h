/* lock.h - a spin lock that yields, for a few dozen instructions: one atomic operation. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * All zero is open.  A thread that waits yields the processor but does not sleep, so
 * the holder need not check for sleepers when it opens the lock: that saves the second
 * of the two atomic operations of a pthread_mutex_t.  So no code inside the lock may
 * wait for a user, a disk or a network.
 */
struct lock {
	uint32_t shut; /* atomic */
};

/* lock_wait - the slow path of lock_take(). */
void lock_wait(struct lock *l) __attribute__((cold));

static inline void lock_take(struct lock *l)
{
	if (__atomic_exchange_n(&l->shut, 1, __ATOMIC_ACQUIRE))
		lock_wait(l);
}

/* lock_try - take the lock if it is open; returns whether it was. */
static inline bool lock_try(struct lock *l)
{
	return !__atomic_exchange_n(&l->shut, 1, __ATOMIC_ACQUIRE);
}

static inline void lock_give(struct lock *l)
{
	__atomic_store_n(&l->shut, 0, __ATOMIC_RELEASE);
}

#endif
