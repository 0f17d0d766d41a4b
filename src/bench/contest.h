/* contest.h - players in turn, block by block, and what their times mean. */
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
	struct player *players; /* the first is the one that others are compared with */
	int count;
	const struct task *task;
	struct placement *placement; /* or NULL */
	int samples;                 /* of each player, up to CONTEST_SAMPLES;
				      * 0: as many as fit into seconds         */
	double seconds;              /* for all players together                      */
	/* How long rows of short calls that are timed together take.  Beside processes that
	 * never sleep, many slices of the scheduler: a rank that has slept before is served
	 * at once for the first. */
	double sample_us;
	bool check;
	/* Told before each turn, if not NULL; the same number for all of a contest. */
	void (*progress)(void *ctx, int turn, int turns);
	void *ctx;
};

/* Microseconds of one call, of its slowest rank. */
struct contest_score {
	bool played;
	double least, median, most;
	double ratio;                 /* median of the turns' ratios to the first player */
	double ratio_low, ratio_high; /* its quartiles                                */
	int64_t wrong;                /* elements; -1: nobody looked                     */
	int samples, calls;           /* calls per sample                                */
};

/* What was seen in one placement of the processors. */
struct contest_result {
	enum placement_kind place;
	double hop_ns; /* median of its probes; negative: unknown */
	int turns;
	struct contest_score score[CONTEST_PLAYERS];
};

/*
 * contest_run - everybody plays the task.
 *
 * Time goes in turns; in each, every player has one block of a few samples, and who
 * begins changes.  While one plays the others sleep.  The processors' placement is
 * probed around each block, and turns are sorted by it: *@count results, near
 * before far, are written to @results; turns in which it changed count only if
 * there are hardly any others.
 *
 * A player that cannot do the task is left out with a warning, score.played is false;
 * unless it is the first.
 */
int contest_run(const struct contest *c, struct contest_result results[PLACEMENT_KINDS],
		int *count, struct err *e);

#endif
