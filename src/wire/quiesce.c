/* quiesce.c - after an abort: wait until no rank writes to other ranks' memory any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/quiesce.h"

#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/forks.h"
#include "base/pidstat.h"
#include "wire/segment.h"
#include "wire/waitset.h"

enum {
	SETTLE_MS = 100,      /* many times the microseconds from quiesce_enter() to _leave() */
	UNSETTLED_MS = 10000, /* the most, for a thread that runs but gets no processor */
};

/* The number of this thread; the kernel is asked once for each thread and process. */
static uint32_t thread_number(void)
{
	static _Thread_local uint32_t thread, forks;

	if (!thread || forks != forks_seen()) {
		thread = (uint32_t)syscall(SYS_gettid);
		forks = forks_seen();
	}
	return thread;
}

bool quiesce_enter(const struct waitset *w, const uint32_t *abort, const uint32_t *left)
{
	uint32_t *writing = &waitset_at(w, w->me)->writing;

	/* Either this rank sees the abort, or quiesce_wait() sees this rank. */
	__atomic_store_n(writing, thread_number(), __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(abort, __ATOMIC_RELAXED) &&
	    !(__atomic_load_n(left, __ATOMIC_RELAXED) & SEGMENT_ABORTED))
		return true;
	quiesce_leave(w);
	return false;
}

void quiesce_leave(const struct waitset *w)
{
	quiesce_gone(w, w->me);
}

void quiesce_gone(const struct waitset *w, int rank)
{
	__atomic_store_n(&waitset_at(w, rank)->writing, 0, __ATOMIC_RELEASE);
}

/* Has the thread ended, or been stopped?  One that only waits for a processor has not. */
static bool thread_has_stopped(uint32_t thread)
{
	struct pidstat p;

	return pidstat_read((pid_t)thread, &p) || strchr("TtZX", p.state);
}

void quiesce_wait(const struct waitset *w)
{
	int64_t look = clock_deadline(SETTLE_MS), enough = clock_deadline(UNSETTLED_MS);
	uint32_t thread;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (int r = 0; r < w->count; r++)
		while (r != w->me && (thread = __atomic_load_n(&waitset_at(w, r)->writing,
							       __ATOMIC_ACQUIRE))) {
			if (clock_ns() < look)
				sched_yield();
			else if (thread_has_stopped(thread) || clock_ns() >= enough)
				break;
			else
				clock_sleep_ms(1);
		}
}
