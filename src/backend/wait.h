/* wait.h - the news that a back end waits for, and how to wait for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_WAIT_H
#define BACKEND_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct row;
struct seat_knob;

/*
 * What may let a plan go on: a ring of a rank of this host, a descriptor, both, or nothing
 * that could be waited for.  Pointers are borrowed until the next step().
 */
struct wait_on {
	struct row *row;           /* a ring at this process's seat; NULL: none      */
	int who;                   /* the rank of the row whose ring it is, or SEAT_ANYBODY */
	bool (*ready)(void *self); /* with row: may step() do more now?              */
	void *self;                /* for ready()                                    */
	struct pollfd *fd;         /* descriptors, and room for one more behind them */
	int fds;                   /* so many; 0: none                               */
	const struct seat_knob *knob; /* with row and fd: by which poll(2) hears the ring */
	int64_t look_ns;              /* look again after so long at most; 0: at the deadline */
};

/*
 * wait_news - wait for what @w says, until @deadline_ns of the monotonic clock.
 *
 * Returns false at the deadline, if only a ring is waited for; else true, also early.
 * Threads: the one that makes progress.
 */
bool wait_news(const struct wait_on *w, int64_t deadline_ns);

/* wait_until - the earlier of @deadline_ns and in @w->look_ns. */
int64_t wait_until(const struct wait_on *w, int64_t deadline_ns);

#endif
