/* wait.h - the news that a back end waits for, and how to wait for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_WAIT_H
#define BACKEND_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct waitset;
struct wake_fd;

/*
 * What may let a plan go on: a notification of a rank of this host, a descriptor, both, or
 * nothing that could be waited for.  Pointers are borrowed until the next step().
 */
struct wait_on {
	struct waitset *waitset;       /* a notification for this rank; NULL: none */
	int rank;                      /* of the set, that notifies, or WAITSET_ANY */
	bool (*ready)(void *self);     /* with waitset: may step() do more now? */
	void *self;                    /* for ready()                                    */
	struct pollfd *fd;             /* descriptors, and room for one more behind them */
	int fds;                       /* so many; 0: none                               */
	const struct wake_fd *wake_fd; /* with waitset and fd: on which poll(2) hears it */
	int64_t look_ns; /* look again after so long at most; 0: at the deadline */
};

/*
 * wait_news - wait for what @w says, until @deadline_ns of the monotonic clock.
 *
 * Returns false at the deadline, if only a notification is waited for; else true, also early.
 * Threads: the one that makes progress.
 */
bool wait_news(const struct wait_on *w, int64_t deadline_ns);

/* wait_until - the earlier of @deadline_ns and in @w->look_ns. */
int64_t wait_until(const struct wait_on *w, int64_t deadline_ns);

#endif
