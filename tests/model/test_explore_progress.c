/* test_explore_progress.c - no interleaving leaves work that no thread does; seeded bugs do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/shadow.h"
#include "model/verdict.h"

/* The real code, seen through the shadow. */
#include "engine/progress.c"

enum { NONE, SUBMITTED, DONE };
enum { DRIVER, SUBMITTER, PROGRESS_THREAD }; /* threads: two of one rank, and another rank */

static struct progress progress[1];
static uint32_t work;
/* Seeded bugs of the thread that ends to drive. */
static bool looks_no_more;

static void reset(void)
{
	memset(progress, 0, sizeof(progress));
	work = NONE;
	explore_name(&progress[0].word, "word");
	explore_name(&progress[0].asleep, "asleep");
	explore_name(&progress[0].driving, "driving");
	explore_name(&work, "work");
}

static bool work_take(void)
{
	uint32_t is = SUBMITTED;

	return __atomic_compare_exchange_n(&work, &is, DONE, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* As progress_thread() in engine.c. */
static void sleep_until_done(void)
{
	uint32_t seen;

	for (;;) {
		seen = progress_seen(&progress[0]);
		if (work_take() || __atomic_load_n(&work, __ATOMIC_ACQUIRE) == DONE)
			return;
		progress_sleep(&progress[0], seen);
	}
}

/* As progress_take() and progress_give() there; the end of the work ends the other thread. */
static void drive_once(const struct waitset *set)
{
	bool took;

	progress_set_driving(&progress[0], true);
	took = work_take();
	progress_set_driving(&progress[0], false);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (took)
		progress_wake(&progress[0]);
	else if (!looks_no_more && __atomic_load_n(&work, __ATOMIC_RELAXED) == SUBMITTED)
		progress_notify(progress, set, 0);
}

static void body(int thread)
{
	const struct waitset set = { .count = 1 };

	switch (thread) {
	case DRIVER:
		drive_once(&set);
		break;
	case SUBMITTER:
		__atomic_store_n(&work, SUBMITTED, __ATOMIC_RELEASE);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		progress_notify(progress, &set, 0);
		break;
	default:
		sleep_until_done();
	}
}

static void all_done(void)
{
	explore_require(work == DONE, "work is left");
	explore_require(!progress[0].asleep, "a thread still says asleep");
}

static void run(const char *what, struct explore x, const char *bug)
{
	explore_judge(what, &x, bug);
}

int main(void)
{
	const struct explore all = { .reset = reset,
				     .body = body,
				     .check = all_done,
				     .threads = 3,
				     .preemptions = 2,
				     .stale = 1 };
	struct explore x = all;

	run("a rank that submits while another stops driving", x, NULL);
	x.no_fences = true;
	run("the same without fences", x, "nobody wakes it");
	x = all;
	looks_no_more = true;
	run("a driver that does not look again", x, "nobody wakes it");
	looks_no_more = false;
	x.lost = &progress[0].asleep;
	run("a thread that does not say that it sleeps", x, "nobody wakes it");
	x.lost = &progress[0].word;
	run("a notification that changes nothing", x, "nobody wakes it");
	return tap_done();
}
