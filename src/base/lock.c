/* lock.c - a spin lock that yields, for a few dozen instructions: one atomic operation. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <sched.h>

/* Spins before sched_yield(): about as long as a running holder needs. */
enum { LOOKS = 100 };

void lock_wait(struct lock *l)
{
	int i;

	do {
		for (i = 0; i < LOOKS && __atomic_load_n(&l->shut, __ATOMIC_RELAXED); i++)
			;
		/* The holder may not be running. */
		if (i == LOOKS)
			sched_yield();
	} while (__atomic_exchange_n(&l->shut, 1, __ATOMIC_ACQUIRE));
}
