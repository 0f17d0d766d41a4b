/* stray.h - find and end processes that a job's ranks have left behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_STRAY_H
#define LAUNCH_STRAY_H

#include <stdint.h>
#include <sys/types.h>

struct err;

/*
 * A process belongs to a job if it is in the session of the job's ranks, or has
 * the job's mark in its environment, which children inherit even if they change
 * their session, group or parent.
 */
struct stray {
	const char *mark; /* "RINGUP_JOB=...", unique among jobs       */
	uint64_t since;   /* nothing that started earlier belongs to it */
	pid_t session;    /* of the ranks; 0: not known yet            */
	pid_t guard;      /* 0: none                                   */
	int guard_fd;
};

/*
 * stray_open - also start the guard: a process that waits for the launcher's
 * end, and then kills the processes that the ranks leave behind.
 *
 * @mark stays the caller's and alive.
 */
int stray_open(struct stray *s, const char *mark, struct err *e);

/* stray_keep - start another guard if it was killed: 1 if so, 0 if it lives; call it after
 * a child has ended. */
int stray_keep(struct stray *s, struct err *e);

/* stray_add - set the ranks' session. */
void stray_add(struct stray *s, pid_t session);

/* stray_signal - send @sig (0: nothing) to each process of the job that is
 * alive, but not to this one nor to guards; returns how many there are. */
int stray_signal(const struct stray *s, int sig);

/* stray_close - dismiss the guard; @s may be all zero. */
void stray_close(struct stray *s);

#endif
