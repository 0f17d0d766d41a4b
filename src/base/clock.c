/* clock.c - time that only goes forward. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void clock_sleep_ms(int64_t ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

int clock_left_ms(int64_t deadline_ns)
{
	int64_t left;

	if (deadline_ns == INT64_MAX)
		return -1;
	left = deadline_ns - clock_ns();
	if (left <= 0)
		return 0;
	left = (left + 999999) / 1000000;
	return left > INT_MAX ? INT_MAX : (int)left;
}

int64_t clock_deadline(int64_t ms)
{
	int64_t now;

	if (ms < 0)
		return INT64_MAX;
	now = clock_ns();
	return ms > (INT64_MAX - now) / 1000000 ? INT64_MAX : now + ms * 1000000;
}
