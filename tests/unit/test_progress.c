/* test_progress.c - a progress thread sleeps until its rank is notified, unless that drives. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "engine/progress.h"
#include "tap.h"
#include "wire/waitset.h"

enum { ROUNDS = 2000 };

static struct progress progress[3];
static uint32_t work, done; /* atomic */

static void *work_off(void *arg)
{
	struct progress *p = arg;
	uint32_t seen;

	while (__atomic_load_n(&done, __ATOMIC_RELAXED) < ROUNDS) {
		seen = progress_seen(p);
		if (__atomic_exchange_n(&work, 0, __ATOMIC_ACQ_REL))
			__atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
		else
			progress_sleep(p, seen);
	}
	return NULL;
}

int main(void)
{
	static const int places[] = { 2, 0 };
	const struct waitset host = { .count = 3 }, group = { .count = 2, .place_of = places };
	pthread_t thread;
	uint32_t i;

	alarm(250);
	progress_set_driving(&progress[1], true);
	progress_notify(progress, &host, 1);
	ok(progress[1].word == 0, "a rank that drives is not notified");
	progress_set_driving(&progress[1], false);
	progress_notify(progress, &host, 1);
	ok(progress[1].word == 1, "one that does not, is");
	progress_sleep(&progress[1], 0);
	ok(!progress[1].asleep, "a notification before the sleep ends it");
	progress_set_driving(&progress[1], true);
	progress_wake(&progress[1]);
	ok(progress[1].word == 2, "it can be woken whatever the rank does");
	progress_notify(progress, &group, 0);
	ok(progress[2].word == 1 && progress[0].word == 0,
	   "ranks of a group have their places");

	pthread_create(&thread, NULL, work_off, &progress[0]);
	for (i = 0; i < ROUNDS; i++) {
		__atomic_store_n(&work, 1, __ATOMIC_RELEASE);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		progress_notify(progress, &host, 0);
		while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) == i)
			sched_yield();
	}
	pthread_join(thread, NULL);
	ok(done == ROUNDS && !progress[0].asleep, "no notification is lost");
	return tap_done();
}
