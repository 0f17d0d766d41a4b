/* bridge.c - the current job of a framework's operations, and the threads that use it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/bridge.h"

#include <time.h>

static struct ringup *job; /* atomic                                         */
static int inside;         /* atomic: threads that have entered              */
static bool closing;       /* atomic: bridge_attach() waits for them to leave */
static uint64_t begun;     /* atomic: jobs so far; the number of the last one */
static uint64_t ended;     /* atomic: the number of the last that is closed  */

void bridge_attach(struct ringup *r)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	__atomic_store_n(&closing, true, __ATOMIC_SEQ_CST);
	__atomic_store_n(&job, (struct ringup *)NULL, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0)
		nanosleep(&ms, NULL);
	__atomic_store_n(&closing, false, __ATOMIC_SEQ_CST);
	if (!r)
		return;
	bridge_closed(); /* two jobs are never open at once */
	__atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&job, r, __ATOMIC_SEQ_CST);
}

void bridge_closed(void)
{
	__atomic_store_n(&ended, __atomic_load_n(&begun, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
}

uint64_t bridge_number(void)
{
	return __atomic_load_n(&begun, __ATOMIC_SEQ_CST);
}

bool bridge_is_closed(uint64_t number)
{
	return __atomic_load_n(&ended, __ATOMIC_SEQ_CST) >= number;
}

struct ringup *bridge_enter(void)
{
	struct ringup *r;

	__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	r = __atomic_load_n(&job, __ATOMIC_SEQ_CST);
	if (!r)
		__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	return r;
}

void bridge_leave(void)
{
	__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
}

bool bridge_is_closing(void)
{
	return __atomic_load_n(&closing, __ATOMIC_RELAXED);
}
