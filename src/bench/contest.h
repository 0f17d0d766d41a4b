/* contest.h - run players in turn, block by block, and evaluate their times. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/placement.h"
#include "bench/player.h"

struct err;

enum { CONTEST_PLAYERS = 8, CONTEST_SAMPLES = 1000000000 };

struct contest {
	struct player *players; /* the first is the reference of the others */
	int count;
	const struct task *task;
	struct placement *placement; /* or NULL */
	int samples;                 /* of each player, up to CONTEST_SAMPLES;
				      * 0: as many as fit into seconds         */
	double seconds;              /* for all players together                      */
	/* Duration of a timed row of short calls.  Beside processes that never sleep, it has to
	 * be many slices of the scheduler, which serves a rank that has slept at once for the
	 * first slice. */
	double sample_us;
	bool check;
	/* Called before each turn, if not NULL; @turns is the same throughout a contest. */
	void (*progress)(void *ctx, int turn, int turns);
	void *ctx;
};

/* Microseconds of one call, on its slowest rank. */
struct contest_score {
	bool played;
	double least, median, most;
	double ratio;                 /* median of the turns' ratios to the first player */
	double ratio_low, ratio_high; /* its quartiles                                */
	int64_t wrong;                /* elements; -1: not checked                       */
	int samples, calls;           /* calls per sample                                */
};

/* The results in one placement of the processors. */
struct contest_result {
	enum placement_kind place;
	double hop_ns; /* median of its probes; negative: unknown */
	int turns;
	struct contest_score score[CONTEST_PLAYERS];
};

/*
 * contest_run - let all players play the task.
 *
 * Time is divided into turns; in each, every player has one block of a few samples, and the
 * first player changes.  While one plays the others sleep.  The processors' placement is probed
 * around each block, and turns are sorted by it: *@count results, near before far, are written
 * to @results; turns in which it changed count only if there are hardly any others.
 *
 * A player that cannot do the task is left out with a warning, and score.played is false; if it
 * is the first, the contest fails.
 */
int contest_run(const struct contest *c, struct contest_result results[PLACEMENT_KINDS],
		int *count, struct err *e);

#endif
