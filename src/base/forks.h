/* forks.h - tell a child of fork() from its parent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

#include <stdint.h>

/*
 * forks_count - how many forks lie between the first process that asked and this one.
 *
 * A child of fork() has copies of locks that nobody will open and of threads
 * that do not run.  Who keeps the count of its birth can tell, at the price of
 * a load.  The first call must come before the fork.  Threads: any.
 */
uint32_t forks_count(void);

#endif
