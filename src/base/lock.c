/* lock.c - a lock for a few dozen instructions, which costs one atomic operation. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <sched.h>

/* Looks before giving way: about what somebody needs who is running. */
enum { LOOKS = 100 };

void lock_wait(struct lock *l)
{
	int i;

	do {
		for (i = 0; i < LOOKS && __atomic_load_n(&l->shut, __ATOMIC_RELAXED); i++)
			;
		/* Its holder may not be running. */
		if (i == LOOKS)
			sched_yield();
	} while (__atomic_exchange_n(&l->shut, 1, __ATOMIC_ACQUIRE));
}
