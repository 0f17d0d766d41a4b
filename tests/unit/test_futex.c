/* test_futex.c - sleepers wake when told, or in time. */
#include <pthread.h>

#include "base/clock.h"
#include "base/futex.h"
#include "tap.h"

static uint32_t word;

static void *sleeper(void *arg)
{
	int64_t *woken = arg;

	while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
		futex_wait(&word, 0, INT64_MAX);
	*woken = clock_ns();
	return NULL;
}

int main(void)
{
	pthread_t t;
	int64_t start = clock_ns(), woken = 0;

	futex_wait(&word, 1, INT64_MAX);
	ok(1, "another value does not put to sleep");
	futex_wait(&word, 0, clock_deadline(20));
	ok(clock_ns() - start >= 20 * 1000000, "a deadline ends the sleep, not before");
	pthread_create(&t, NULL, sleeper, &woken);
	clock_sleep_ms(20);
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&word);
	pthread_join(t, NULL);
	ok(woken != 0, "a wake ends it");
	return tap_done();
}
