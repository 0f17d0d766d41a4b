/* progress.h - the progress threads of a host's ranks: asleep until they are notified. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_PROGRESS_H
#define ENGINE_PROGRESS_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

struct waitset;

/* In shared memory, one for each rank of the host, in the order of their waiters; by atomics.
 */
struct progress {
	alignas(64) uint32_t word; /* futex: the progress thread of the rank sleeps here */
	uint32_t asleep;
	uint32_t driving; /* a thread of the rank makes progress already */
};

/*
 * progress_notify - wake the progress thread of rank @rank of @w, unless a thread there makes
 *                   progress.  @of_host: of all ranks of the host.  The caller has stored the
 *                   work before, with a full fence in between.
 * progress_set_driving - a thread of this rank begins or ends to make progress; at the end it
 *                   looks for work once more, after a full fence.
 */
void progress_notify(struct progress *of_host, const struct waitset *w, int rank);

static inline void progress_set_driving(struct progress *p, bool driving)
{
	__atomic_store_n(&p->driving, driving, __ATOMIC_RELAXED);
}

/*
 * The progress thread reads progress_seen(), looks for work, and without any calls
 * progress_sleep(), which returns once there has been a notification since then.
 * progress_wake - notify whatever the rank does.
 */
static inline uint32_t progress_seen(const struct progress *p)
{
	return __atomic_load_n(&p->word, __ATOMIC_SEQ_CST);
}

void progress_sleep(struct progress *p, uint32_t seen);
void progress_wake(struct progress *p);

#endif
