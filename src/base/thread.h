/* thread.h - threads that leave the process's signals to the program's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/*
 * thread_start - pthread_create() with all signals blocked in the new thread.
 *
 * A signal of the process is for the program's threads; the caller's mask is as it was
 * afterwards.  Returns 0 or an error number, as pthread_create() does.
 */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
