/* contest.c - run players in turn, block by block, and evaluate their times. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/contest.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/stats.h"
#include "ringup.h"

/* Calls below this size are too short to be timed singly, and their data is in the nearest
 * cache whether or not it has just been written. */
enum { SINGLE_BYTES = 256 << 10, CALLS_PER_US = 5 };

enum { LEAST_BLOCK = 3, MOST_BLOCK = 16, BLOCK_US = 40000 };

/* Where ranks share processors, a single call would show the time that the other ranks take to
 * write their input: rows of short calls have at least so many, as far as a block has room for
 * them. */
enum { LEAST_CALLS = 8 };

/* Each player makes uncounted calls for so long before its block: beside a player that waits by
 * sleeping, processors slow down, and need milliseconds to regain their speed. */
enum { WARM_US = 5000 };

enum { TRIES = 6, GROWTH = 16 };
enum { LEAST_TURNS = 3, MOST_TURNS = 100 };

/* From this size on, the buffers of all players together are too large for small machines. */
enum { REST_BYTES = 16 << 20 };

/* The record of one turn. */
struct turn {
	enum placement_kind place;
	double hop_ns;
	double median[CONTEST_PLAYERS];
};

/* The state of a running contest. */
struct bout {
	const struct contest *c;
	bool out[CONTEST_PLAYERS]; /* cannot do the task */
	int calls[CONTEST_PLAYERS];
	double us[CONTEST_PLAYERS]; /* a sample, approximately */
	int64_t wrong[CONTEST_PLAYERS];
	int block, turns;
	struct turn *turn;
	double *sample[CONTEST_PLAYERS]; /* turns * block */
};

/* Runs one block of player @p; sets @us to microseconds per call. */
static int contest_play(struct bout *b, int p, const struct dose *d, double *us, struct err *e)
{
	struct player *who = &b->c->players[p];
	int64_t wrong = 0;
	int rc = who->play(who->self, b->c->task, d, us, &wrong, e);

	if (rc == 0 && b->c->count > 1 && b->c->task->bytes >= REST_BYTES &&
	    who->rest(who->self, e))
		return fail_in(e, "%s", who->name);
	if (rc < 0)
		return fail_in(e, "%s", who->name);
	if (rc > 0) {
		b->out[p] = true;
		if (p == 0)
			return fail_in(e, "%s", who->name);
		log_warn("%s: %s is left out: %s", task_name(b->c->task), who->name, e->text);
		return 0;
	}
	if (wrong < 0 || b->wrong[p] < 0)
		b->wrong[p] = -1;
	else
		b->wrong[p] += wrong;
	return 0;
}

static int clamp(double x, int least, int most)
{
	return x < least ? least : x > most ? most : (int)x;
}

/* The number of calls in a sample if one call takes @one. */
static int calls_for(const struct bout *b, double one)
{
	double want = b->c->sample_us / one, room = (double)BLOCK_US / LEAST_BLOCK / one;
	double least = room < LEAST_CALLS ? room : LEAST_CALLS;
	int most = clamp(b->c->sample_us * CALLS_PER_US, 1, INT_MAX);

	return clamp(want > least ? want : least, 1, most);
}

static double least_of(const double *us, int n)
{
	double least = us[0];

	for (int i = 1; i < n; i++)
		least = us[i] < least ? us[i] : least;
	return least > 0.01 ? least : 0.01;
}

/*
 * Finds the number of calls in a sample of @p by trying: a single call first, then rows of
 * calls, until the row takes the wanted time.  The first is cold and its ranks have just been
 * woken: it never decides.  Disturbances make calls longer, so the shortest time counts.
 */
static int calibrate(struct bout *b, int p, struct err *e)
{
	bool is_short = b->c->task->bytes < SINGLE_BYTES;
	struct dose d = { 1, is_short ? 3 : 1, 1, b->c->check };
	double us[3], one = 1;
	int rc, want;

	for (int tries = 0; tries < TRIES; tries++) {
		rc = contest_play(b, p, &d, us, e);
		if (rc || b->out[p])
			return rc;
		one = least_of(us, d.samples);
		want = is_short ? calls_for(b, one) : 1;
		if ((tries || !is_short) && want <= 2 * d.calls && d.calls <= 2 * want)
			break;
		d.calls = clamp(want, 1, GROWTH * d.calls);
	}
	b->calls[p] = d.calls;
	b->us[p] = one * d.calls;
	return 0;
}

/* After twice the time, few turns are enough. */
static bool is_late(const struct bout *b, int turns, int64_t begun)
{
	return !b->c->samples && turns >= LEAST_TURNS &&
	       (double)(clock_ns() - begun) > 2e9 * b->c->seconds;
}

static int warm_of(const struct bout *b, int p)
{
	return clamp(WARM_US / b->us[p], 1, INT_MAX);
}

/* Sets the length of blocks and the number of turns, from the times of calls. */
static void contest_settle(struct bout *b)
{
	const struct contest *c = b->c;
	double slowest = 0, all = 0, warm = 0;

	for (int i = 0; i < c->count; i++) {
		if (b->out[i])
			continue;
		slowest = b->us[i] > slowest ? b->us[i] : slowest;
		all += b->us[i];
		warm += warm_of(b, i) * b->us[i];
	}
	b->block = clamp(BLOCK_US / slowest, LEAST_BLOCK, MOST_BLOCK);
	/* Writing the input takes about as long as the timed part. */
	b->turns =
		clamp(c->seconds * 1e6 / (2 * all * b->block + warm), LEAST_TURNS, MOST_TURNS);
	if (c->samples) {
		b->block = clamp(c->samples, 1, MOST_BLOCK);
		b->turns = (c->samples + b->block - 1) / b->block;
	}
}

static enum placement_kind contest_look(const struct contest *c, double *ns)
{
	*ns = c->placement ? placement_probe(c->placement) : -1;
	return placement_kind(*ns);
}

static int run_turn(struct bout *b, int n, struct err *e)
{
	const struct contest *c = b->c;
	struct turn *t = &b->turn[n];
	struct dose d = { .samples = b->block, .check = c->check };
	int rc = 0;

	t->place = contest_look(c, &t->hop_ns);
	for (int i = 0; i < c->count && !rc; i++) {
		int p = (i + n) % c->count;
		double *us = b->sample[p] + (size_t)n * (size_t)b->block, ns;

		if (b->out[p])
			continue;
		d.calls = b->calls[p];
		d.warm = warm_of(b, p);
		rc = contest_play(b, p, &d, us, e);
		t->median[p] = stats_median(us, b->block);
		t->place = placement_both(t->place, contest_look(c, &ns));
	}
	return rc;
}

static int run_turns(struct bout *b, struct err *e)
{
	const struct contest *c = b->c;
	int64_t begun = clock_ns();
	int rc = 0;

	for (int i = 0; i < c->count && !rc; i++)
		rc = calibrate(b, i, e);
	if (rc)
		return rc;
	contest_settle(b);
	b->turn = calloc((size_t)b->turns, sizeof(*b->turn));
	for (int i = 0; i < c->count; i++) {
		b->sample[i] = calloc((size_t)b->turns * (size_t)b->block, sizeof(double));
		if (!b->turn || !b->sample[i])
			return fail(e, RINGUP_ENOMEM, "no memory for %d turns", b->turns);
	}
	for (int n = 0; n < b->turns && !rc; n++) {
		if (c->progress)
			c->progress(c->ctx, n, b->turns);
		rc = run_turn(b, n, e);
		if (is_late(b, n + 1, begun))
			b->turns = n + 1;
	}
	return rc;
}

/* -- afterwards ----------------------------------------------------------- */

/* Computes the samples and ratios of player @p in the turns at @place. */
static int score(const struct bout *b, int p, enum placement_kind place, bool all,
		 struct contest_score *to, struct err *e)
{
	size_t most = (size_t)b->turns * (size_t)b->block;
	double *us = calloc(most, sizeof(*us)), *ratio = calloc(most, sizeof(*ratio));
	int samples = 0, turns = 0;

	if (!us || !ratio) {
		free(us);
		free(ratio);
		return fail(e, RINGUP_ENOMEM, "no memory for %d turns", b->turns);
	}
	for (int n = 0; n < b->turns; n++) {
		if (!all && b->turn[n].place != place)
			continue;
		memcpy(us + samples, b->sample[p] + (size_t)n * (size_t)b->block,
		       (size_t)b->block * sizeof(*us));
		samples += b->block;
		ratio[turns++] = b->turn[n].median[p] / b->turn[n].median[0];
	}
	to->played = true;
	to->samples = samples;
	to->calls = b->calls[p];
	to->wrong = b->c->check ? b->wrong[p] : -1;
	to->median = stats_median(us, samples);
	to->least = us[0];
	to->most = us[samples - 1];
	to->ratio = stats_median(ratio, turns);
	to->ratio_low = stats_quantile(ratio, turns, 0.25);
	to->ratio_high = stats_quantile(ratio, turns, 0.75);
	free(us);
	free(ratio);
	return 0;
}

static double hop_of(const struct bout *b, enum placement_kind place, bool all)
{
	double ns[MOST_TURNS + PLAYER_SAMPLES];
	int count = 0;

	for (int n = 0; n < b->turns && count < MOST_TURNS + PLAYER_SAMPLES; n++)
		if ((all || b->turn[n].place == place) && b->turn[n].hop_ns >= 0)
			ns[count++] = b->turn[n].hop_ns;
	return count ? stats_median(ns, count) : -1;
}

static int add_result(const struct bout *b, enum placement_kind place, int turns, bool all,
		      struct contest_result *to, struct err *e)
{
	int rc = 0;

	memset(to, 0, sizeof(*to));
	to->place = place;
	to->turns = turns;
	to->hop_ns = hop_of(b, place, all);
	for (int i = 0; i < b->c->count && !rc; i++)
		if (!b->out[i])
			rc = score(b, i, place, all, &to->score[i], e);
	return rc;
}

/* A placement that occurred in only a few turns gets no row. */
static int contest_judge(const struct bout *b, struct contest_result *results, int *count,
			 struct err *e)
{
	int seen[PLACEMENT_KINDS] = { 0 }, n, rc = 0, least = (b->turns + 4) / 5;
	enum placement_kind k;

	*count = 0;
	for (n = 0; n < b->turns; n++)
		seen[b->turn[n].place]++;
	for (k = PLACEMENT_NEAR; k <= PLACEMENT_FAR && !rc; k++)
		if (seen[k] >= least)
			rc = add_result(b, k, seen[k], false, &results[(*count)++], e);
	if (!rc && !*count)
		rc = add_result(b,
				seen[PLACEMENT_UNKNOWN] == b->turns ? PLACEMENT_UNKNOWN
								    : PLACEMENT_MIXED,
				b->turns, true, &results[(*count)++], e);
	return rc;
}

int contest_run(const struct contest *c, struct contest_result results[PLACEMENT_KINDS],
		int *count, struct err *e)
{
	struct bout b = { .c = c };
	int rc;

	rc = run_turns(&b, e);
	if (!rc)
		rc = contest_judge(&b, results, count, e);
	for (int i = 0; i < c->count; i++)
		free(b.sample[i]);
	free(b.turn);
	return rc;
}
