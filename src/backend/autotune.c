/* autotune.c - online autotuning: choose the fastest of a few algorithms by timing calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/autotune.h"

#include <stdbool.h>

/*
 * The quickest of a batch of calls tells an algorithm's time; the others were disturbed.  A
 * trial has to beat the best so far as measured before it and after it, since processors may
 * have become faster meanwhile.  A batch of short calls is larger, since they take up to twice
 * as long until the caches are warm.  Callers pay for trials, so in a steady job a hundredth
 * of the calls are trials.  If times change all the time, and the best way never, the changes
 * are noise, and trials become rarer.
 */
enum { LEAST = 8, MOST = 64, ENOUGH_NS = 2000000 }; /* calls of a batch, and their time */
enum { SPARE = 256, RARELY = 16384 };
static const int64_t rarely_ns = 2000000000; /* or RARELY calls, the sooner of both */
enum { CLEARLY = 12, CHANGED = 4 };          /* a twelfth, a quarter */
enum { REFUSALS = 4, WAYS = 32 };

static bool has_changed(const struct autotune *t)
{
	int64_t much = t->known / CHANGED;

	return t->least > t->known + much || t->least < t->known - much;
}

/* Is it time for trials of the other ways, one after the other? */
static bool is_time(const struct autotune *t)
{
	if (!t->known)
		return t->calls > t->samples; /* the first batch found cold caches */
	return t->calls >= RARELY || t->age >= rarely_ns ||
	       (t->calls >= t->spare && has_changed(t));
}

static void begin_trial(struct autotune *t, unsigned ways)
{
	do
		t->last = (t->last + 1) % WAYS;
	while (t->last == t->home || !(ways >> t->last & 1));
	t->asks = t->last;
	t->against = t->least;
}

static void end_trial(struct autotune *t, bool better)
{
	if (better) {
		t->home = t->last;
		t->known = t->tried;
		t->spare = SPARE;
	} else {
		t->known = t->against;
		t->spare = t->spare < SPARE ? SPARE : t->spare < RARELY ? 2 * t->spare : RARELY;
	}
	t->asks = t->home;
	t->tried = 0;
	t->calls = 0;
	t->age = 0;
	t->round--;
}

static bool autotune_is_better(const struct autotune *t, int64_t than)
{
	return t->tried < than - than / CLEARLY;
}

/* The present batch is complete. */
static void conclude(struct autotune *t, unsigned ways)
{
	int others;

	if (t->asks != t->home) {
		t->tried = t->least;
		t->asks = t->home;
		if (!autotune_is_better(t, t->against))
			end_trial(t, false);
		return;
	}
	if (t->tried) {
		t->against = t->least;
		end_trial(t, autotune_is_better(t, t->against));
		return;
	}
	t->calls += t->samples;
	t->age += t->spent;
	others = __builtin_popcount(ways & ~(1U << t->home));
	if (!t->round && is_time(t))
		t->round = others;
	if (t->round && others)
		begin_trial(t, ways);
}

int autotune_add(struct autotune *t, unsigned ways, int way, int64_t ns)
{
	if (way != t->asks)
		return t->asks;
	t->refusals = 0;
	t->least = t->samples && t->least < ns ? t->least : ns;
	t->spent = t->samples ? t->spent + ns : ns;
	t->samples++;
	if (t->samples >= MOST || (t->samples >= LEAST && t->spent >= ENOUGH_NS)) {
		conclude(t, ways);
		t->samples = 0;
	}
	return t->asks;
}

int autotune_refused(struct autotune *t, int way)
{
	if (way != t->asks || ++t->refusals < REFUSALS)
		return t->asks;
	if (t->asks != t->home) {
		end_trial(t, false);
	} else {
		t->home = t->asks = 0;
		t->known = t->calls = 0;
	}
	t->refusals = 0;
	t->samples = 0;
	return t->asks;
}
