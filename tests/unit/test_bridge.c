/* test_bridge.c - nobody is inside a job when it is left. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/bridge.h"

#include <pthread.h>
#include <sched.h>

#include "rounds.h"
#include "tap.h"

enum { THREADS = 4, TIMES = 50 };

/* The bridge does not look into a job; these have no other use. */
static struct ringup *const first = (struct ringup *)0x1000, *const second =
								     (struct ringup *)0x2000;

static int stop, wrong, entered; /* atomic */
static struct ringup *present;   /* atomic; NULL while the main thread has left the job */

static void *enter(void *arg)
{
	struct ringup *r;
	int i;

	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		r = bridge_enter();
		if (!r) {
			sched_yield();
			continue;
		}
		__atomic_add_fetch(&entered, 1, __ATOMIC_SEQ_CST);
		for (i = 0; i < 100 && !bridge_is_closing(); i++)
			;
		if (__atomic_load_n(&present, __ATOMIC_SEQ_CST) != r)
			__atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
		bridge_leave();
	}
	return arg;
}

int main(void)
{
	pthread_t thread[THREADS];
	int i, started = 0;

	ok(!bridge_enter(), "there is no job");
	bridge_attach(first);
	ok(bridge_enter() == first, "a job is there for who enters");
	bridge_leave();
	ok(bridge_number() == 1 && !bridge_is_closed(1), "the job has a number");
	bridge_attach(NULL);
	ok(!bridge_enter() && !bridge_is_closed(1), "it is gone, but not closed");
	bridge_closed();
	ok(bridge_is_closed(1) && !bridge_is_closed(2), "it is closed, others are not");
	bridge_attach(first);
	ok(bridge_number() == 2 && bridge_is_closed(1) && !bridge_is_closed(2), "the next job");
	bridge_attach(NULL);
	bridge_attach(first);
	ok(bridge_is_closed(2), "a job is closed when there is another one");
	bridge_attach(NULL);
	for (i = 0; i < THREADS; i++)
		started += !pthread_create(&thread[i], NULL, enter, NULL);
	ok(started == THREADS, "threads");
	for (i = 0; i < rounds_of(TIMES); i++) {
		__atomic_store_n(&present, i % 2 ? first : second, __ATOMIC_SEQ_CST);
		__atomic_store_n(&entered, 0, __ATOMIC_SEQ_CST);
		bridge_attach(i % 2 ? first : second);
		while (!__atomic_load_n(&entered, __ATOMIC_SEQ_CST))
			sched_yield();
		bridge_attach(NULL);
		__atomic_store_n(&present, (struct ringup *)NULL, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	ok(!wrong, "nobody is inside a job that has been left");
	return tap_done();
}
