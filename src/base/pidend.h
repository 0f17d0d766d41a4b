/* pidend.h - a descriptor that becomes readable when a process ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PIDEND_H
#define BASE_PIDEND_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * pidend_open - a close-on-exec descriptor that poll(2) finds readable once @pid has ended,
 * which a zombie has; -1 with errno: ESRCH if there is no such process.
 *
 * It is a pidfd.  Some sandboxes (gVisor, seccomp profiles older than the call) refuse
 * those; there it is a pipe, and a thread of this process looks at @pid each
 * PIDEND_LOOK_MS.  That thread ends when the last such descriptor is closed.
 *
 * Ownership: the descriptor is the caller's; close(2) is all that ends it.
 * Threads:   any.
 */
enum { PIDEND_LOOK_MS = 20 };
int pidend_open(pid_t pid);

/* pidend_has_ended - has @pid ended, as far as this process may know? */
bool pidend_has_ended(pid_t pid);

/* pidend_signal - send @sig to @pid by its pidfd @fd, so that the number cannot have become
 * another process's; by the number alone if there are no pidfds. */
int pidend_signal(int fd, pid_t pid, int sig);

#endif
