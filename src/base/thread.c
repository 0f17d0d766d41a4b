/* thread.c - the library's own threads: they block signals and tolerate a failing poll(2). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

#include "base/clock.h"
#include "base/stack.h"

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	size_t stack;
	int rc;

	pthread_attr_init(&attr);
	/* The default is what `ulimit -s` says. */
	if (!pthread_attr_getstacksize(&attr, &stack) && stack < STACK_BYTES)
		pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

int thread_poll(struct pollfd *p, int n, int ms)
{
	int64_t until = INT64_MAX;

	for (;;) {
		int ready = poll(p, (nfds_t)n, ms), why = errno;

		if (ready >= 0 || why == EINTR)
			return ready;
		until = until < INT64_MAX ? until : clock_deadline(THREAD_BLIND_MS);
		if (!clock_left_ms(until)) {
			errno = why;
			return -1;
		}
		clock_sleep_ms(10);
	}
}
