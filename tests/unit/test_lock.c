/* test_lock.c - one at a time, whoever comes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "base/lock.h"
#include "tap.h"

enum { THREADS = 4, TIMES = 20000 };

static struct lock lock;
static long count; /* not atomic: the lock guards it */

static void *add(void *arg)
{
	int i;

	for (i = 0; i < TIMES; i++) {
		lock_take(&lock);
		count++;
		lock_give(&lock);
	}
	return arg;
}

int main(void)
{
	pthread_t thread[THREADS];
	int i, started = 0;

	for (i = 0; i < THREADS; i++)
		started += !pthread_create(&thread[i], NULL, add, NULL);
	ok(started == THREADS, "threads");
	for (i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	ok(count == (long)started * TIMES, "nothing is lost when all add at once");
	ok(!lock.shut, "open in the end");
	lock_take(&lock);
	ok(lock.shut, "shut while somebody has it");
	lock_give(&lock);
	return tap_done();
}
