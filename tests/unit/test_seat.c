/* test_seat.c - nobody sleeps through a ring. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "tap.h"
#include "wire/seat.h"

enum { ROUNDS = 20000 };

static struct seat seats[2];
static uint32_t sleepers;
static uint64_t turn; /* whose: even 0, odd 1 */

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
	int i;

	for (i = 0; i < ROUNDS; i++) {
		p->want = (uint64_t)i * 2 + (uint64_t)p->row.me;
		if (!seat_wait(&p->row, i % 2 ? SEAT_ANYBODY : 1 - p->row.me, my_turn, p,
			       INT64_MAX))
			return (void *)1;
		__atomic_store_n(&turn, p->want + 1, __ATOMIC_RELEASE);
		seat_ring(&p->row, p->row.me);
	}
	return NULL;
}

static void match(const char *what, int pauses, int away, bool patient)
{
	struct player p[2];
	pthread_t t[2];
	void *bad[2];
	int i;

	turn = 0;
	for (i = 0; i < 2; i++) {
		p[i] = (struct player){ .row = { .seats = seats,
						 .sleepers = &sleepers,
						 .count = 2,
						 .me = i,
						 .pauses = pauses,
						 .away = away,
						 .patient = patient } };
		pthread_create(&t[i], NULL, play, &p[i]);
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i], &bad[i]);
	ok(!bad[0] && !bad[1] && turn == 2 * ROUNDS, "%s: %d rounds", what, ROUNDS);
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

/* Each yield that takes long makes more waits skip it; those that do not, fewer. */
static void test_stranger(void)
{
	struct row row = { .seats = seats, .sleepers = &sleepers, .count = 2, .patient = true };
	int who = 1, skipped = 0;

	row.hurt = 3;
	while (row.hurt && skipped < 10) {
		ok(!seat_linger(&row, &who, never, NULL), "a wait that does not yield");
		skipped++;
	}
	ok(skipped == 3, "as many as had to skip it did");
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
	match("spinning first", 1000, 0, true);
	match("yielding first", 0, 0, true);
	match("giving way to who is here", 20, 50, true);
	match("asleep at once", 0, 0, false);
	test_here();
	test_stranger();
	seats[1].driving = 1;
	seat_kick(&row, 1);
	ok(seats[1].kick == 0, "who drives is not kicked");
	seats[1].driving = 0;
	seat_kick(&row, 1);
	ok(seats[1].kick == 1, "who does not, is");
	test_doze();
	return tap_done();
}
