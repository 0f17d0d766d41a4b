/* test_waitset.c - no rank sleeps through a notification. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "rounds.h"
#include "tap.h"
#include "wire/waitset.h"
#include "wire/wake_fd.h"

enum { ROUNDS = 20000, PLAY_MS = 15000 };

static struct waiter waiters[2];
static uint32_t sleepers;
static uint64_t turn; /* whose: even 0, odd 1 */
static int rounds;    /* fewer where it takes too long; atomic */

struct player {
	struct waitset set;
	uint64_t want;
};

static bool my_turn(void *arg)
{
	struct player *p = arg;

	return __atomic_load_n(&turn, __ATOMIC_ACQUIRE) >= p->want;
}

/* Ping-pong: each waits for the other's store. */
static void *play(void *arg)
{
	struct player *p = arg;
	int64_t deadline = clock_deadline(PLAY_MS);
	int i;

	for (i = 0; i < __atomic_load_n(&rounds, __ATOMIC_RELAXED); i++) {
		/* Before the turn is the other's, who so does not miss it. */
		if (!p->set.me && i % 64 == 0 && clock_ns() > deadline)
			__atomic_store_n(&rounds, i + 2, __ATOMIC_RELAXED);
		p->want = (uint64_t)i * 2 + (uint64_t)p->set.me;
		if (!waitset_wait(&p->set, i % 2 ? WAITSET_ANY : 1 - p->set.me, my_turn, p,
				  INT64_MAX))
			return (void *)1;
		__atomic_store_n(&turn, p->want + 1, __ATOMIC_RELEASE);
		waitset_notify(&p->set, p->set.me);
	}
	return NULL;
}

static void match(const char *what, void *(*how)(void *), int pauses, int away, bool patient)
{
	struct player p[2];
	pthread_t t[2];
	void *bad[2];
	int i;

	turn = 0;
	rounds = rounds_few(ROUNDS, 8000);
	for (i = 0; i < 2; i++) {
		p[i] = (struct player){ .set = { .waiters = waiters,
						 .sleepers = &sleepers,
						 .count = 2,
						 .me = i,
						 .policy = { .pauses = pauses,
							     .away = away,
							     .patient = patient } } };
		pthread_create(&t[i], NULL, how, &p[i]);
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i], &bad[i]);
	ok(!bad[0] && !bad[1] && turn == 2 * (uint64_t)rounds, "%s: %d rounds", what, rounds);
	ok(!sleepers && !waiters[0].asleep && !waiters[1].asleep, "%s: nobody is left asleep",
	   what);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

/* A rank that sleeps in poll(2): a notification wakes it as a descriptor would. */
static void *poll_once(void *arg)
{
	struct waitset *set = arg;
	struct wake_fd wake_fd = { 0 };
	struct pollfd p[1];
	struct err e = { 0 };

	if (wake_fd_open(&wake_fd, &e))
		printf("# %s\n", e.text);
	else
		waitset_poll(set, &wake_fd, never, NULL, p, 0, clock_deadline(30000));
	wake_fd_close(&wake_fd);
	return NULL;
}

static void test_poll(void)
{
	struct waitset mine = { .waiters = waiters, .sleepers = &sleepers, .count = 2 };
	struct waitset other = {
		.waiters = waiters, .sleepers = &sleepers, .count = 2, .me = 1
	};
	int64_t start = clock_ns();
	pthread_t thread;

	pthread_create(&thread, NULL, poll_once, &mine);
	while (!__atomic_load_n(&waiters[0].polling, __ATOMIC_ACQUIRE) &&
	       clock_ns() - start < 20000000000LL)
		sched_yield();
	waitset_notify(&other, 1);
	pthread_join(thread, NULL);
	ok(clock_ns() - start < 20000000000LL,
	   "a notification wakes a rank that sleeps in poll");
	ok(!sleepers && !waiters[0].asleep && !waiters[0].polling, "and it is awake");
}

/* Where there are enough processors, nobody is in anybody's way. */
static void test_here(void)
{
	struct waitset set = {
		.waiters = waiters, .sleepers = &sleepers, .count = 2, .policy.away = 50
	};

	waiters[0].cpu = waiters[1].cpu = 3;
	ok(waitset_is_here(&set, 1),
	   "a rank that was last seen on our processor is in our way");
	ok(!waitset_is_here(&set, 0), "we are not in our own");
	waiters[1].cpu = 4;
	ok(!waitset_is_here(&set, 1), "a rank on another processor is not");
	waiters[1].cpu = 3;
	set.policy.away = 0;
	ok(!waitset_is_here(&set, 1), "nor is one where there are enough processors");
}

/* Where ranks were seen, which processors there are, and which is better than that of rank 0.
 */
static void test_better(void)
{
	static const struct {
		const char *what;
		uint32_t cpu[4];
		uint64_t may;
		int better;
	} cases[] = {
		{ "two on one, another is empty", { 1, 1 }, 0x3, 1 },
		{ "two on one, there is no other", { 1, 1 }, 0x1, -1 },
		{ "each has its own", { 1, 2 }, 0x3, -1 },
		{ "three and one", { 2, 2, 1, 2 }, 0x3, 0 },
		{ "two and two", { 2, 2, 1, 1 }, 0x3, -1 },
		{ "two and one, and to change would change nothing", { 2, 2, 1 }, 0x3, -1 },
		{ "the next one that is empty, not the first", { 3, 3, 3, 1 }, 0x1f, 3 },
		{ "an empty one that it may not use", { 1, 1, 2 }, 0xb, 3 },
		{ "nobody knows yet", { 0, 0 }, 0x3, -1 },
	};
	struct waiter four[4];
	struct waitset set = { .waiters = four, .sleepers = &sleepers, .count = 4 };
	cpu_set_t may;
	size_t i;
	int k;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(four, 0, sizeof(four));
		CPU_ZERO(&may);
		for (k = 0; k < 4; k++)
			four[k].cpu = cases[i].cpu[k];
		for (k = 0; k < 64; k++)
			if (cases[i].may >> k & 1)
				CPU_SET(k, &may);
		ok(waitset_better_cpu(&set, &may) == cases[i].better, "%s", cases[i].what);
	}
}

/* Two that were driven onto one processor go apart, and may then run where they might before.
 */
static void *part(void *arg)
{
	struct player *p = arg;
	cpu_set_t all, one, after;
	int i = 0;

	sched_getaffinity(0, sizeof(all), &all);
	while (!CPU_ISSET(i, &all))
		i++;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
	sched_setaffinity(0, sizeof(all), &all);
	if (play(arg))
		return arg;
	sched_getaffinity(0, sizeof(after), &after);
	return CPU_EQUAL(&all, &after) ? NULL : p;
}

/* What waiter 0 says while its rank is sent to a processor, and which one that is; atomic. */
static uint32_t said, sent;

/* libc's, for this program. */
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
	int i = 0;

	if (CPU_COUNT(mask) == 1) {
		while (!CPU_ISSET(i, mask))
			i++;
		__atomic_store_n(&said, __atomic_load_n(&waiters[0].cpu, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
		__atomic_store_n(&sent, (uint32_t)i + 1, __ATOMIC_RELAXED);
	}
	return (int)syscall(SYS_sched_setaffinity, pid, size, mask);
}

/* A thread that moves says so before: it may be long until it runs over there, and the threads
 * that stay would follow. */
static void test_announced(void)
{
	struct waitset set = { .waiters = waiters,
			       .sleepers = &sleepers,
			       .count = 2,
			       .policy = { .pauses = 1000, .patient = true } };
	cpu_set_t may;
	int who = 1, tries;

	if (sched_getaffinity(0, sizeof(may), &may) || CPU_COUNT(&may) < 2) {
		ok(1, "# SKIP one processor");
		return;
	}
	/* The scheduler may move us between these lines. */
	for (sent = 0, tries = 0; !sent && tries < 1000; tries++) {
		set.policy.parted_ns = 0;
		waiters[0].cpu = waiters[1].cpu = (uint32_t)sched_getcpu() + 1;
		waitset_spin(&set, &who, never, NULL);
	}
	ok(sent && said == sent, "sent to processor %u, has said %u", sent, said);
}

/* Each yield that takes long makes more waits skip it; those that do not, fewer. */
static void test_stranger(void)
{
	struct waitset set = {
		.waiters = waiters, .sleepers = &sleepers, .count = 2, .policy.patient = true
	};
	int who = 1, skipped = 0;

	set.policy.skips = 3;
	while (set.policy.skips && skipped < 10) {
		ok(!waitset_spin(&set, &who, never, NULL), "a wait that does not yield");
		skipped++;
	}
	ok(skipped == 3, "as many as had to skip it did");
}

static int64_t away_ns = -1; /* how long a yield takes; -1: a real one */
static bool back;            /* since the last one was over */
static int yields_made;      /* atomic */

/* libc's, for this program. */
int sched_yield(void)
{
	int64_t until = clock_ns() + away_ns;

	__atomic_fetch_add(&yields_made, 1, __ATOMIC_RELAXED);
	if (away_ns < 0)
		return (int)syscall(SYS_sched_yield);
	while (clock_ns() < until)
		;
	back = true;
	return 0;
}

static bool is_back(void *arg)
{
	(void)arg;
	return back;
}

/* Waits that are over when a yield is, which takes @ms. */
static void yields(struct waitset *set, int ms, int count)
{
	int who = 1;

	for (away_ns = ms * 1000000; count > 0; count--) {
		back = false;
		waitset_spin(set, &who, is_back, NULL);
	}
	away_ns = -1;
}

/* A sibling that computes takes long once; a stranger each time, though all are there then. */
static void test_suspicion(void)
{
	struct waitset set = {
		.waiters = waiters, .sleepers = &sleepers, .count = 2, .policy.patient = true
	};

	yields(&set, 2, 1);
	ok(set.policy.skips == 0, "one that takes long is no stranger yet");
	yields(&set, 0, 2);
	yields(&set, 2, 1);
	ok(set.policy.skips == 0, "nor is one a while later");
	yields(&set, 2, 1);
	ok(set.policy.skips == 16, "two in a row are: %d waits skip it", set.policy.skips);
	yields(&set, 2, 17);
	ok(set.policy.skips == 32, "one of them, and it is still there: %d", set.policy.skips);
}

int main(void)
{
	struct waitset set = { .waiters = waiters,
			       .sleepers = &sleepers,
			       .count = 2,
			       .policy = { .pauses = 10, .patient = true } };
	int64_t start = clock_ns();

	alarm(250);
	ok(!waitset_wait(&set, WAITSET_ANY, never, NULL, clock_deadline(30)), "a deadline");
	ok(clock_ns() - start >= 30 * 1000000, "is kept");
	match("spinning first", play, 1000, 0, true);
	match("yielding first", play, 0, 0, true);
	match("giving way to who is here", play, 20, 50, true);
	match("asleep at once", play, 0, 0, false);
	match("driven onto one processor", part, 1000, 0, true);
	test_better();
	test_here();
	test_announced();
	test_stranger();
	test_suspicion();
	test_poll();
	return tap_done();
}
