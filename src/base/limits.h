/* limits.h - name the process limit that made a fork or a new thread fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stddef.h>

#include "base/err.h"

/*
 * limits_fail - as fail_os() with @why as errno; if that is EAGAIN, of fork(2), clone(2) or
 * pthread_create(3), it also tells which limit allows no more processes and threads, its value,
 * and what to do.
 */
int limits_fail(struct err *e, int why, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), cold));

/* limits_of_processes - that sentence; "" if no limit is known.  @root stands before each path;
 * @most is the limit for this process's user (RLIMIT_NPROC), or -1. */
void limits_of_processes(const char *root, long long most, char *text, size_t size);

#endif
