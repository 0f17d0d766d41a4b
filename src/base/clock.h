/* clock.h - time that only goes forward. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* clock_ns - CLOCK_MONOTONIC in nanoseconds; never compared between hosts. */
int64_t clock_ns(void);

/* clock_sleep_ms - sleep through signals. */
void clock_sleep_ms(int64_t ms);

/* clock_left_ms - milliseconds until @deadline_ns, for poll(2): at least 0, and
 * -1 for the deadline INT64_MAX, which is never. */
int clock_left_ms(int64_t deadline_ns);

/* clock_deadline - @ms from now; negative means never. */
int64_t clock_deadline(int64_t ms);

/* clock_sooner - move the time *@until forward to @ns, if that is earlier. */
static inline void clock_sooner(int64_t *until, int64_t ns)
{
	if (ns < *until)
		*until = ns;
}

#endif
