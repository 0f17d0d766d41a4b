/* wait.h - how a back end waits: for a notification, for descriptors, or for a fixed time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_WAIT_H
#define BACKEND_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct waitset;
struct wake_fd;

/*
 * An event that a plan waits for: a notification by
 * a rank of this host, a descriptor, both, or none.  Pointers are borrowed until the next
 * step().
 */
struct wait_on {
	struct waitset *waitset;       /* a notification for this rank; NULL: none */
	int rank;                      /* the rank of the set that notifies, or WAITSET_ANY */
	bool (*ready)(void *self);     /* with waitset: may step() do more now? */
	void *self;                    /* for ready()                                    */
	struct pollfd *fd;             /* descriptors, and room for one more behind them */
	int fds;                       /* number of descriptors                          */
	const struct wake_fd *wake_fd; /* with waitset and fd: notifications for poll(2) */
	int64_t look_ns; /* longest wait before another step(); 0: until the deadline */
};

/*
 * wait_news - wait for what @w says, until @deadline_ns of the monotonic clock.
 *
 * Returns false at the deadline, if only a notification is waited for; else true, also early.
 * Threads: the one that makes progress.
 */
bool wait_news(const struct wait_on *w, int64_t deadline_ns);

/* wait_until - the earlier of @deadline_ns and @w->look_ns from now. */
int64_t wait_until(const struct wait_on *w, int64_t deadline_ns);

#endif
