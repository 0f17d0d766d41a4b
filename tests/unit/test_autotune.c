/* test_autotune.c - which way calls go, by what they take. */
#include "backend/autotune.h"

#include <stdlib.h>

#include "tap.h"

/* What a call takes, and so many parts of a hundred more by chance. */
struct world {
	int64_t us[4]; /* each way; 0: there is none */
	int noise;
};

static unsigned seed = 5;

/* @calls calls; how many of them did not go way 0. */
static int go(struct autotune *t, const struct world *w, int calls)
{
	unsigned ways = 3 | (w->us[2] ? 4 : 0) | (w->us[3] ? 8 : 0);
	int i, n = 0;

	for (i = 0; i < calls; i++) {
		int64_t ns = 1000 * w->us[t->asks];

		n += t->asks != 0;
		if (w->noise)
			ns += ns * (int)(rand_r(&seed) % (unsigned)w->noise) / 100;
		autotune_add(t, ways, t->asks, ns);
	}
	return n;
}

static void steady(void)
{
	const struct world good = { { 30, 20 }, 60 }, bad = { { 20, 40 }, 60 },
			   third = { { 30, 40, 20 }, 60 }, fourth = { { 30, 40, 0, 20 }, 60 },
			   same = { { 20, 20, 20 }, 0 }, large = { { 3000, 2000 }, 0 };
	struct autotune t = { 0 };
	int n;

	n = go(&t, &good, 10000);
	ok(t.home == 1 && n > 9700, "the faster way is found, and kept: %d of 10000", n);
	t = (struct autotune){ 0 };
	n = go(&t, &bad, 10000);
	ok(!t.home && n > 0 && n < 300, "the slower one is tried seldom: %d of 10000", n);
	t = (struct autotune){ 0 };
	go(&t, &third, 400);
	ok(t.home == 2, "of three ways the third is found as well");
	t = (struct autotune){ 0 };
	go(&t, &fourth, 400);
	ok(t.home == 3, "and one behind a gap");
	t = (struct autotune){ 0 };
	go(&t, &same, 5000);
	ok(!t.home, "without a reason nothing changes");
	t = (struct autotune){ 0 };
	n = go(&t, &large, 32);
	ok(t.home == 1 && n == 8, "of long calls a few will do");
}

static void changing(void)
{
	static const struct world worlds[] = { { { 30, 20, 40 }, 30 },
					       { { 25, 50, 35 }, 30 },
					       { { 25, 50, 15 }, 30 } };
	static const int best[] = { 1, 0, 2 };
	struct autotune t = { 0 };
	int i, right = 0;

	for (i = 0; i < 30; i++) {
		go(&t, &worlds[i % 3], 12000);
		right += t.home == best[i % 3];
	}
	ok(right == 30, "it follows a world that changes: %d of 30", right);
}

/* A machine that wakes up while calls go on. */
static void waking(void)
{
	struct world w = { 0 };
	struct autotune t = { 0 };
	int i, k, n = 0;

	for (i = 0; i < 100; i++)
		for (k = 0; k < 30; k++) {
			w.us[0] = 60 - k;
			w.us[1] = 66 - k;
			go(&t, &w, 10);
			n += t.home == 1;
		}
	ok(!n, "what is only tried later is not taken to be faster: %d of 3000", n);
}

/* Times that change all the time and mean nothing. */
static void noisy(void)
{
	struct world w = { 0 };
	struct autotune t = { 0 };
	int n = 0, i;

	for (i = 0; i < 2000; i++) {
		w.us[0] = 20 << rand_r(&seed) % 2;
		w.us[1] = w.us[2] = 2 * w.us[0];
		n += go(&t, &w, 10);
	}
	ok(n < 1600, "it tires of a world that only seems to change: %d of 20000", n);
}

/* Calls that could not go as asked. */
static void refused(void)
{
	const struct world good = { { 30, 20, 25 }, 0 };
	struct autotune t = { 0 };
	int i, n = 0;

	while (!t.asks)
		autotune_add(&t, 7, 0, 20000);
	for (i = 0; i < 1000; i++)
		n += autotune_add(&t, 7, 0, 20000) == 1;
	ok(n == 1000 && !t.samples, "what began before it was asked for does not count");
	for (i = 0; i < 4; i++)
		n = autotune_refused(&t, 1);
	ok(!n && !t.home, "what is not possible is given up");
	t = (struct autotune){ 0 };
	go(&t, &good, 1000);
	for (n = 0; t.home == 1 && n < 10; n++)
		autotune_refused(&t, 1);
	ok(!t.home && !t.asks && n == 4, "even if it was the best");
	go(&t, &good, 4000);
	ok(t.home == 1, "and found again once it can be");
	t = (struct autotune){ 0 };
	for (n = 0, i = 0; i < 40000; i++)
		n += autotune_add(&t, 1, t.asks, 20000 << (i >> 9 & 1));
	ok(!n, "where there is only one way, that is it");
}

int main(void)
{
	steady();
	changing();
	waking();
	noisy();
	refused();
	return tap_done();
}
