/* thread.h - the library's own threads: they block signals and tolerate a failing poll(2). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <poll.h>
#include <pthread.h>

/*
 * thread_start - pthread_create() with all signals blocked in the new thread, and a stack of
 * STACK_BYTES or more.
 *
 * A signal of the process is for the program's threads; the caller's mask is as it was
 * afterwards.  Returns 0 or an error number, as pthread_create() does.
 */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * thread_poll - poll(2), which fails only if it has failed for THREAD_BLIND_MS.
 *
 * It does above the limit of open files, which a program may lower for a moment, and without
 * memory.  As from poll(2), -1 with EINTR after a signal.
 */
enum { THREAD_BLIND_MS = 2000 };
int thread_poll(struct pollfd *p, int n, int ms);

#endif
