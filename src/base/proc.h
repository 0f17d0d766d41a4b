/* proc.h - child processes that never outlive their parent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* How to start a child.  Zero-initialise, then set the fields that are needed. */
struct proc_how {
	char *const *argv; /* argv[0] is looked up in PATH; NULL-terminated     */
	char *const *envp; /* NULL: the parent's                                */
	const char *dir;   /* working directory; NULL: the parent's             */
	const int *fds;    /* nfds descriptors that become 0, 1, ... in the child;
			    * -1 means /dev/null.  All others are closed on exec
			    * unless named in keep                              */
	int nfds;          /* 0: the child inherits 0, 1 and 2                  */
	int keep[5];       /* more descriptors for the child, if > 2; keep their numbers */
	int session;       /* 1: a session, and so a process group, of its own  */
	int group;         /* 1: a process group of its own                     */
};

/*
 * proc_start - fork and exec; the child dies with the calling *thread*.
 *
 * SIGKILL is delivered when the parent ends (PR_SET_PDEATHSIG); signal mask
 * and dispositions are reset to their defaults.  A program that cannot be
 * executed is an error here, not an exit status of the child.
 *
 * Returns 0 and sets *@pid and *@pidfd (close-on-exec, the caller's), or
 * RINGUP_ESYSTEM with a sentence that names the program.
 */
int proc_start(const struct proc_how *how, pid_t *pid, int *pidfd, struct err *e);

/*
 * proc_start_all - @n children in one new session, each a process group of its own.
 *
 * Linux may share processors out by session (sched_autogroup): then sched_yield() yields
 * to processes of the same session only.  Children that wait for each other by yielding
 * have to share a session.
 *
 * Like proc_start() for each.  The session's leader has ended when this returns; it
 * stays a zombie, so that its number *@session is not used again, until the caller
 * waits for it.  After a failure children whose @pid is not 0 may run.
 */
int proc_start_all(const struct proc_how *how, int n, pid_t *pid, int *pidfd, pid_t *session,
		   struct err *e);

/*
 * proc_run - run a program to its end, which comes after @timeout_ms at the latest.
 *
 * It gets a session of its own; processes of its group that are left when it ends, or when its
 * time is over, are killed.  Sets *@status to its wait status.
 * Returns 0, RINGUP_ESYSTEM or RINGUP_ETIMEDOUT.
 */
int proc_run(const struct proc_how *how, int64_t timeout_ms, int *status, struct err *e);

/*
 * proc_capture - run a short program and keep its output on stdout.
 *
 * stdin and stderr are /dev/null.  The program is killed after @timeout_ms, and
 * output beyond @cap bytes is dropped.  Sets *@status to its wait status.
 *
 * Ownership: *@outp, NUL-terminated, is the caller's to free().
 */
int proc_capture(char *const *argv, size_t cap, int64_t timeout_ms, char **outp, int *status,
		 struct err *e);

#endif
