/* wait.c - how a back end waits: for a notification, for descriptors, or for a fixed time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/wait.h"

#include <time.h>

#include "base/clock.h"
#include "wire/waitset.h"

int64_t wait_until(const struct wait_on *w, int64_t deadline_ns)
{
	int64_t look = w->look_ns ? clock_ns() + w->look_ns : INT64_MAX;

	return look < deadline_ns ? look : deadline_ns;
}

bool wait_news(const struct wait_on *w, int64_t deadline_ns)
{
	int64_t until = wait_until(w, deadline_ns);

	if (w->fds && w->waitset)
		waitset_poll(w->waitset, w->wake_fd, w->ready, w->self, w->fd, w->fds, until);
	else if (w->fds)
		(void)poll(w->fd, (nfds_t)w->fds, clock_left_ms(until));
	else if (w->waitset)
		return waitset_wait(w->waitset, w->rank, w->ready, w->self, until);
	else
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
				&(struct timespec){ until / 1000000000, until % 1000000000 },
				NULL);
	return true;
}
