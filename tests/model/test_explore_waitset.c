/* test_explore_waitset.c - no interleaving loses a notification; seeded bugs do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/shadow.h"
#include "model/verdict.h"

/* The real code, seen through the shadow. */
#include "wire/waitset.c"
#include "wire/wake_fd.c"

enum { RANKS = 3 };

static struct waiter waiters[RANKS];
static struct waitset set[RANKS];
static uint32_t sleepers;
static uint32_t turn;    /* whose turn it is, counted                     */
static uint32_t payload; /* written before turn, and to be seen with it   */
static int ranks, rounds;
/* Seeded bugs of the code that uses a waiter. */
static bool notifies_first, looks_once;
/* Wait for the notification of one rank only. */
static bool by_name;

static void reset(void)
{
	int i;

	memset(waiters, 0, sizeof(waiters));
	sleepers = turn = payload = 0;
	for (i = 0; i < RANKS; i++)
		set[i] = (struct waitset){
			.waiters = waiters, .sleepers = &sleepers, .count = ranks, .me = i
		};
	explore_name(&sleepers, "sleepers");
	explore_name(&turn, "turn");
	explore_name(&payload, "payload");
	for (i = 0; i < RANKS; i++) {
		static const char *const words[] = { "word 0", "word 1", "word 2" };
		static const char *const asleep[] = { "asleep 0", "asleep 1", "asleep 2" };

		explore_name(&waiters[i].word, words[i]);
		explore_name(&waiters[i].asleep, asleep[i]);
	}
}

struct visit {
	int rank;
	uint32_t want;
	int looks;
};

static bool my_turn(void *arg)
{
	struct visit *v = arg;

	/* The bug: the look between "I sleep" and the futex is left out. */
	if (looks_once && v->looks++ == 1)
		return false;
	return __atomic_load_n(&turn, __ATOMIC_ACQUIRE) >= v->want;
}

/* The ranks take turns: each waits for the one before it. */
static void take_turns(int rank)
{
	struct visit v = { .rank = rank };
	int i, before = (rank + ranks - 1) % ranks;

	for (i = 0; i < rounds; i++) {
		v.want = (uint32_t)(i * ranks + rank);
		v.looks = 0;
		explore_require(waitset_wait(&set[rank], by_name ? before : WAITSET_ANY,
					     my_turn, &v, INT64_MAX),
				"no deadline was given");
		explore_require(__atomic_load_n(&payload, __ATOMIC_RELAXED) == v.want,
				"what was written before is not seen");
		__atomic_store_n(&payload, v.want + 1, __ATOMIC_RELAXED);
		if (notifies_first)
			waitset_notify(&set[rank], rank);
		__atomic_store_n(&turn, v.want + 1, __ATOMIC_RELEASE);
		if (!notifies_first)
			waitset_notify(&set[rank], rank);
	}
}

static void all_awake(void)
{
	int i;

	explore_require(!sleepers, "somebody is still counted as asleep");
	for (i = 0; i < ranks; i++)
		explore_require(!waiters[i].asleep, "a waiter still says asleep");
}

/* Two ranks end something that a third waits for, each with a store of its own. */
static uint32_t ended[RANKS];

static bool both_ended(void *arg)
{
	(void)arg;
	return __atomic_load_n(&ended[1], __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&ended[2], __ATOMIC_ACQUIRE);
}

static void end_both(int rank)
{
	if (rank == 0) {
		waitset_wait(&set[0], WAITSET_ANY, both_ended, NULL, INT64_MAX);
		return;
	}
	__atomic_store_n(&ended[rank], 1, __ATOMIC_RELEASE);
	waitset_notify(&set[rank], rank);
}

static void reset_ended(void)
{
	reset();
	memset(ended, 0, sizeof(ended));
}

/* waitset_notify_one(): what an alarm does, from a thread that has no turn. */
static void alarm_one(int rank)
{
	struct visit v = { .want = 1 };

	if (rank == 0) {
		waitset_wait(&set[0], 1, my_turn, &v, INT64_MAX);
		return;
	}
	__atomic_store_n(&turn, 1, __ATOMIC_RELEASE);
	waitset_notify_one(&set[1], 0);
}

/* A rank that also waits for sockets sleeps in poll(). */
static void poll_too(int rank)
{
	struct wake_fd wake_fd = { .fd = 1000 };
	struct visit v = { .want = 1 };
	struct pollfd p[1];

	if (rank == 0) {
		while (!my_turn(&v))
			waitset_poll(&set[0], &wake_fd, my_turn, &v, p, 0, INT64_MAX);
		return;
	}
	__atomic_store_n(&turn, 1, __ATOMIC_RELEASE);
	waitset_notify(&set[rank], rank);
}

static struct explored run(const char *what, int n, struct explore x, const char *bug)
{
	ranks = x.threads = n;
	return explore_judge(what, &x, bug);
}

int main(void)
{
	const struct explore turns = { .reset = reset,
				       .body = take_turns,
				       .check = all_awake,
				       .preemptions = 2,
				       .stale = 1 };
	const struct explore both = { .reset = reset_ended,
				      .body = end_both,
				      .check = all_awake,
				      .preemptions = 2,
				      .stale = 1 };
	struct explore x;

	rounds = 2;
	run("two ranks take turns", 2, turns, NULL);
	by_name = true;
	run("two ranks, each waits for the other's notification only", 2, turns, NULL);
	by_name = false;
	rounds = 1;
	run("three ranks", 3, turns, NULL);
	run("two notify, one waits for both", 3, both, NULL);
	x = turns;
	x.body = alarm_one;
	run("an alarm", 2, x, NULL);
	x = turns;
	x.body = poll_too;
	x.preemptions = 3;
	x.stale = 2;
	run("a rank that waits for sockets, too", 2, x, NULL);
	run("the same, and two that notify", 3, x, NULL);
	x.lost = &waiters[0].polling;
	run("a rank that does not say that it polls", 2, x, "nobody wakes it");
	x.lost = NULL;
	x.no_fences = true;
	run("a rank that polls, no fences", 2, x, "nobody wakes it");
	x = turns;
	rounds = 2;
	x.preemptions = 4;
	x.stale = 2;
	run("two ranks, wider bounds", 2, x, NULL);
	rounds = 1;

	x = turns;
	x.no_fences = true;
	run("no fences", 2, x, "nobody wakes it");
	x = turns;
	x.stale = 0;
	looks_once = true;
	run("no look between saying so and sleeping", 2, x, "nobody wakes it");
	looks_once = false;
	notifies_first = true;
	run("notifying before storing", 2, x, "nobody wakes it");
	notifies_first = false;
	x.lost = &waiters[1].word;
	run("a notification that does not change the word", 2, x, "nobody wakes it");
	x.lost = &sleepers;
	run("a sleeper that is not counted", 2, x, "nobody wakes it");
	x.lost = &waiters[1].asleep;
	run("a sleeper that does not say for whom", 2, x, "nobody wakes it");
	x.lost = NULL;
	x.torn = &sleepers;
	run("counting sleepers without atomicity", 3, x, "nobody wakes it");
	x = turns;
	x.weak = &turn;
	run("a turn that is passed on without release", 2, x, "written before");
	return tap_done();
}
