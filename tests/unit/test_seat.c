/* test_seat.c - nobody sleeps through a ring. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "rounds.h"
#include "tap.h"
#include "wire/seat.h"

enum { ROUNDS = 20000, PLAY_MS = 15000 };

static struct seat seats[2];
static uint32_t sleepers;
static uint64_t turn; /* whose: even 0, odd 1 */
static int rounds;    /* fewer where it takes too long; atomic */

struct player {
	struct row row;
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
		if (!p->row.me && i % 64 == 0 && clock_ns() > deadline)
			__atomic_store_n(&rounds, i + 2, __ATOMIC_RELAXED);
		p->want = (uint64_t)i * 2 + (uint64_t)p->row.me;
		if (!seat_wait(&p->row, i % 2 ? SEAT_ANYBODY : 1 - p->row.me, my_turn, p,
			       INT64_MAX))
			return (void *)1;
		__atomic_store_n(&turn, p->want + 1, __ATOMIC_RELEASE);
		seat_ring(&p->row, p->row.me);
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
		p[i] = (struct player){ .row = { .seats = seats,
						 .sleepers = &sleepers,
						 .count = 2,
						 .me = i,
						 .pauses = pauses,
						 .away = away,
						 .patient = patient } };
		pthread_create(&t[i], NULL, how, &p[i]);
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i], &bad[i]);
	ok(!bad[0] && !bad[1] && turn == 2 * (uint64_t)rounds, "%s: %d rounds", what, rounds);
	ok(!sleepers && !seats[0].asleep && !seats[1].asleep, "%s: nobody is left asleep",
	   what);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

/* A rank that sleeps in poll(2): the bell wakes it as a descriptor would. */
static void *doze(void *arg)
{
	struct row *row = arg;
	struct seat_knob knob = { 0 };
	struct pollfd p[1];
	struct err e = { 0 };

	if (seat_knob_open(&knob, &e))
		printf("# %s\n", e.text);
	else
		seat_doze(row, &knob, never, NULL, p, 0, clock_deadline(30000));
	seat_knob_close(&knob);
	return NULL;
}

static void test_doze(void)
{
	struct row mine = { .seats = seats, .sleepers = &sleepers, .count = 2 };
	struct row other = { .seats = seats, .sleepers = &sleepers, .count = 2, .me = 1 };
	int64_t start = clock_ns();
	pthread_t thread;

	pthread_create(&thread, NULL, doze, &mine);
	while (!__atomic_load_n(&seats[0].dozing, __ATOMIC_ACQUIRE) &&
	       clock_ns() - start < 20000000000LL)
		sched_yield();
	seat_ring(&other, 1);
	pthread_join(thread, NULL);
	ok(clock_ns() - start < 20000000000LL, "a ring wakes who sleeps in poll");
	ok(!sleepers && !seats[0].asleep && !seats[0].dozing, "and he is awake");
}

/* Where there are enough processors, nobody is in anybody's way. */
static void test_here(void)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2, .away = 50 };

	seats[0].cpu = seats[1].cpu = 3;
	ok(seat_is_here(&row, 1), "a rank that was last seen on our processor is in our way");
	ok(!seat_is_here(&row, 0), "we are not in our own");
	seats[1].cpu = 4;
	ok(!seat_is_here(&row, 1), "a rank on another processor is not");
	seats[1].cpu = 3;
	row.away = 0;
	ok(!seat_is_here(&row, 1), "nor is one where there are enough processors");
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
	struct seat four[4];
	struct row row = { .seats = four, .sleepers = &sleepers, .count = 4 };
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
		ok(seat_better_cpu(&row, &may) == cases[i].better, "%s", cases[i].what);
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

/* What seat 0 says while its rank is sent to a processor, and which one that is; atomic. */
static uint32_t said, sent;

/* libc's, for this program. */
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
	int i = 0;

	if (CPU_COUNT(mask) == 1) {
		while (!CPU_ISSET(i, mask))
			i++;
		__atomic_store_n(&said, __atomic_load_n(&seats[0].cpu, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
		__atomic_store_n(&sent, (uint32_t)i + 1, __ATOMIC_RELAXED);
	}
	return (int)syscall(SYS_sched_setaffinity, pid, size, mask);
}

/* Who goes says so before: it may be long until it runs over there, and those who stay would
 * follow. */
static void test_announced(void)
{
	struct row row = { .seats = seats,
			   .sleepers = &sleepers,
			   .count = 2,
			   .pauses = 1000,
			   .patient = true };
	cpu_set_t may;
	int who = 1, tries;

	if (sched_getaffinity(0, sizeof(may), &may) || CPU_COUNT(&may) < 2) {
		ok(1, "# SKIP one processor");
		return;
	}
	/* The scheduler may move us between these lines. */
	for (sent = 0, tries = 0; !sent && tries < 1000; tries++) {
		row.parted_ns = 0;
		seats[0].cpu = seats[1].cpu = (uint32_t)sched_getcpu() + 1;
		seat_linger(&row, &who, never, NULL);
	}
	ok(sent && said == sent, "sent to processor %u, has said %u", sent, said);
}

/* Each yield that takes long makes more waits skip it; those that do not, fewer. */
static void test_stranger(void)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2, .patient = true };
	int who = 1, skipped = 0;

	row.skips = 3;
	while (row.skips && skipped < 10) {
		ok(!seat_linger(&row, &who, never, NULL), "a wait that does not yield");
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
static void yields(struct row *row, int ms, int count)
{
	int who = 1;

	for (away_ns = ms * 1000000; count > 0; count--) {
		back = false;
		seat_linger(row, &who, is_back, NULL);
	}
	away_ns = -1;
}

/* A sibling that computes takes long once; a stranger each time, though all are there then. */
static void test_suspicion(void)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2, .patient = true };

	yields(&row, 2, 1);
	ok(row.skips == 0, "one that takes long is no stranger yet");
	yields(&row, 0, 2);
	yields(&row, 2, 1);
	ok(row.skips == 0, "nor is one a while later");
	yields(&row, 2, 1);
	ok(row.skips == 16, "two in a row are: %d waits skip it", row.skips);
	yields(&row, 2, 17);
	ok(row.skips == 32, "one of them, and it is still there: %d", row.skips);
}

/* Writes to the other's memory until all is over; nothing after that has been settled. */
static void *visit(void *arg)
{
	uint32_t *over = arg;
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2, .me = 1 };

	while (seat_go_abroad(&row, over)) {
		__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);
		seat_come_home(&row);
	}
	return NULL;
}

static void test_abroad(void)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2 };
	int i, late = 0;
	uint32_t over;
	pthread_t who;
	uint64_t seen;

	for (i = 0; i < 300; i++) {
		over = 0;
		seen = turn = 0;
		pthread_create(&who, NULL, visit, &over);
		while (__atomic_load_n(&turn, __ATOMIC_RELAXED) < 10)
			sched_yield();
		__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
		seat_settle(&row);
		seen = __atomic_load_n(&turn, __ATOMIC_RELAXED);
		pthread_join(who, NULL);
		late += turn != seen;
	}
	ok(!late, "once all is over and settled nobody writes to what is not his: %d did",
	   late);
	turn = 0;
}

static int naps; /* how often this program has slept; atomic */

/* libc's, for this program. */
int clock_nanosleep(clockid_t clock, int how, const struct timespec *t, struct timespec *left)
{
	__atomic_fetch_add(&naps, 1, __ATOMIC_RELAXED);
	return syscall(SYS_clock_nanosleep, clock, how, t, left) ? errno : 0;
}

/* A rank that is abroad for longer than many writes take, though nothing has stopped it. */
static void *dawdle(void *arg)
{
	uint32_t *over = arg, quiet = 0;
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2, .me = 1 };
	int64_t until;

	seat_go_abroad(&row, &quiet);
	__atomic_store_n(over, 1, __ATOMIC_SEQ_CST);
	for (until = clock_deadline(300); clock_ns() < until;)
		;
	__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);
	seat_come_home(&row);
	return NULL;
}

static void test_dawdler(void)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2 };
	uint32_t over = 0;
	pthread_t who;

	turn = 0;
	pthread_create(&who, NULL, dawdle, &over);
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST))
		sched_yield();
	seat_settle(&row);
	ok(__atomic_load_n(&turn, __ATOMIC_RELAXED) == 1,
	   "who is abroad and waits for a processor is waited for");
	pthread_join(who, NULL);
	turn = 0;
}

/* Abroad is a process that @how stops. */
static void not_waited_for(const char *what, int how)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2 };
	pid_t child = fork();
	int before;

	if (!child) {
		raise(how);
		_exit(1);
	}
	while (waitid(P_PID, (id_t)child, &(siginfo_t){ 0 }, WSTOPPED | WEXITED | WNOWAIT))
		;
	seats[1].abroad = (uint32_t)child;
	before = naps;
	seat_settle(&row);
	ok(naps == before, "%s: slept %d times", what, naps - before);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	seats[1].abroad = 0;
}

static void test_gone(void)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2 };
	int yields_before;

	not_waited_for("who is stopped abroad is not waited for", SIGSTOP);
	not_waited_for("nor who has died there", SIGKILL);
	seats[1].abroad = (uint32_t)syscall(SYS_gettid);
	seat_gone(&row, 1);
	yields_before = yields_made;
	seat_settle(&row);
	ok(yields_made == yields_before, "who is known to have ended is not, at all");
}

int main(void)
{
	struct row row = {
		.seats = seats, .sleepers = &sleepers, .count = 2, .pauses = 10, .patient = true
	};
	int64_t start = clock_ns();

	alarm(250);
	ok(!seat_wait(&row, SEAT_ANYBODY, never, NULL, clock_deadline(30)), "a deadline");
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
	test_abroad();
	test_dawdler();
	test_gone();
	seats[1].driving = 1;
	seat_kick(&row, 1);
	ok(seats[1].kick == 0, "who drives is not kicked");
	seats[1].driving = 0;
	seat_kick(&row, 1);
	ok(seats[1].kick == 1, "who does not, is");
	test_doze();
	return tap_done();
}
