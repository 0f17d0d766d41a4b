/* futex.c - sleep until a word changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wait(const uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
	struct timespec t = { (time_t)(deadline_ns / 1000000000),
			      (long)(deadline_ns % 1000000000) };

	/* The bitset form takes an absolute time on CLOCK_MONOTONIC. */
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, deadline_ns == INT64_MAX ? NULL : &t,
		NULL, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(const uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
