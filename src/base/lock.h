/* lock.h - a lock for a few dozen instructions, which costs one atomic operation. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * All zero is open.  Who has to wait gives way to others but does not sleep, so the
 * one that opens it need not ask whether to wake anybody: that saves the second of
 * the two atomic operations of a pthread_mutex_t, and is why nothing that waits for
 * a person, a disk or a network is done inside.
 */
struct lock {
	uint32_t shut; /* atomic */
};

/* lock_wait - the long way of lock_take(). */
void lock_wait(struct lock *l) __attribute__((cold));

static inline void lock_take(struct lock *l)
{
	if (__atomic_exchange_n(&l->shut, 1, __ATOMIC_ACQUIRE))
		lock_wait(l);
}

/* lock_try - only if it is open; true if it was. */
static inline bool lock_try(struct lock *l)
{
	return !__atomic_exchange_n(&l->shut, 1, __ATOMIC_ACQUIRE);
}

static inline void lock_give(struct lock *l)
{
	__atomic_store_n(&l->shut, 0, __ATOMIC_RELEASE);
}

#endif
