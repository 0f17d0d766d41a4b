/* timing.c - time a task: how many calls and samples, and how long they took. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing.h"

#include <limits.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/stats.h"
#include "bench/measure.h"
#include "ringup.h"

/* Calls below this size are too short to be timed singly, and their data is in the nearest
 * cache whether or not it has just been written. */
enum { SINGLE_BYTES = 256 << 10, SAMPLE_US = 200, CALLS_PER_US = 5 };

/* The length of a block, in samples or time; the clock is read after each block. */
enum { LEAST_BLOCK = 3, MOST_BLOCK = 16, BLOCK_US = 40000 };

/* Where ranks share processors, a single call would show the time that the other ranks take to
 * write their input: rows of short calls have at least so many, as far as a block has room for
 * them. */
enum { LEAST_CALLS = 8 };

/* Uncounted calls bring processors that slept to their speed. */
enum { WARM_US = 5000 };

enum { TRIES = 6, GROWTH = 16, LEAST_SAMPLES = 9, MOST_SAMPLES = 1600 };

static int clamp(double x, int least, int most)
{
	return x < least ? least : x > most ? most : (int)x;
}

/* The number of calls in a sample if one call takes @one. */
static int calls_for(double one)
{
	double want = SAMPLE_US / one, room = (double)BLOCK_US / LEAST_BLOCK / one;
	double least = room < LEAST_CALLS ? room : LEAST_CALLS;

	return clamp(want > least ? want : least, 1, SAMPLE_US * CALLS_PER_US);
}

static double least_of(const double *us, int n)
{
	double least = us[0];

	for (int i = 1; i < n; i++)
		least = us[i] < least ? us[i] : least;
	return least > 0.01 ? least : 0.01;
}

/*
 * Finds the number of calls in a sample by trying: a single call first, then rows of calls,
 * until the row takes the wanted time.  The first is cold: it never decides.  Disturbances make
 * calls longer, so the shortest time counts.  *@onep: what a sample takes.
 */
static int calibrate(struct measure *m, const struct task *t, struct timing *to, double *onep,
		     struct err *e)
{
	bool is_short = t->bytes < SINGLE_BYTES;
	struct dose d = { 1, is_short ? LEAST_BLOCK : 1, 1, to->wrong >= 0 };
	double us[LEAST_BLOCK], one = 1, spent;
	int64_t wrong;
	int rc = 0, want;

	for (int tries = 0; tries < TRIES; tries++) {
		rc = measure_play_all(m, t, &d, us, &wrong, &spent, e);
		if (rc)
			return rc;
		to->wrong += to->wrong >= 0 ? wrong : 0;
		one = least_of(us, d.samples);
		want = is_short ? calls_for(one) : 1;
		if ((tries || !is_short) && want <= 2 * d.calls && d.calls <= 2 * want)
			break;
		d.calls = clamp(want, 1, GROWTH * d.calls);
	}
	to->calls = d.calls;
	*onep = one * d.calls;
	return 0;
}

/* After twice the time, few samples are enough.  The times are the same on all ranks, and so is
 * the answer. */
static bool is_late(const struct timing_options *how, int samples, double spent_us)
{
	return !how->samples && samples >= LEAST_SAMPLES && spent_us > 2e6 * how->seconds;
}

int timing_take(struct measure *m, const struct task *t, const struct timing_options *how,
		struct timing *to, struct err *e)
{
	struct dose d = { .check = how->check };
	double one, us[MOST_BLOCK], *all, spent, total = 0;
	int rc, wanted, block;
	int64_t wrong;

	*to = (struct timing){ .wrong = how->check ? 0 : -1 };
	rc = calibrate(m, t, to, &one, e);
	if (rc)
		return rc;
	/* Writing the input takes about as long as the timed part. */
	wanted = how->samples
			 ? how->samples
			 : clamp(how->seconds * 1e6 / (2 * one), LEAST_SAMPLES, MOST_SAMPLES);
	block = clamp(BLOCK_US / one, LEAST_BLOCK, MOST_BLOCK);
	all = calloc((size_t)wanted, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for %d samples", wanted);
	d.calls = to->calls;
	d.warm = clamp(WARM_US / one, 1, INT_MAX);
	while (!rc && to->samples < wanted && !is_late(how, to->samples, total)) {
		d.samples = wanted - to->samples < block ? wanted - to->samples : block;
		rc = measure_play_all(m, t, &d, us, &wrong, &spent, e);
		to->wrong += to->wrong >= 0 ? wrong : 0;
		total += spent;
		for (int i = 0; i < d.samples; i++)
			all[to->samples++] = us[i];
		d.warm = 0;
	}
	if (!rc) {
		to->median = stats_median(all, to->samples);
		to->least = all[0];
		to->most = all[to->samples - 1];
	}
	free(all);
	return rc;
}
