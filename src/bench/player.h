/* player.h - whoever takes part in a contest: this library, or a peer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PLAYER_H
#define BENCH_PLAYER_H

#include <stdint.h>

#include "bench/task.h"

struct err;

enum { PLAYER_NAME = 32, PLAYER_ABOUT = 96, PLAYER_SAMPLES = 1000 };

struct player {
	char name[PLAYER_NAME];
	char about[PLAYER_ABOUT]; /* version and such; may be empty */

	/*
	 * Carry @t out as @d says, while nobody else runs.  Sets @us[0..samples-1] to
	 * microseconds of the slowest rank, and *@wrong to how many elements were
	 * wrong, -1 if nobody looked.
	 *
	 * Returns 0; 1 if the player cannot do such a task, with the reason in *@e;
	 * or a negative code.
	 */
	int (*play)(void *self, const struct task *t, const struct dose *d, double *us,
		    int64_t *wrong, struct err *e);

	/* Give the task's buffers back: others need the memory until the next play(). */
	int (*rest)(void *self, struct err *e);
	void *self;
};

#endif
