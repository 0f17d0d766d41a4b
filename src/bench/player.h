/* player.h - a participant in a contest: this library, or a peer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PLAYER_H
#define BENCH_PLAYER_H

#include <stdint.h>

#include "bench/task.h"

struct err;

enum { PLAYER_NAME = 32, PLAYER_ABOUT = 96, PLAYER_SAMPLES = 1000 };

struct player {
	char name[PLAYER_NAME];
	char about[PLAYER_ABOUT]; /* such as the version; may be empty */

	/*
	 * Carries out @t as @d says, while no other player runs.  Sets @us[0..samples-1] to
	 * microseconds of the slowest rank, and *@wrong to the number of wrong elements, -1 if
	 * unchecked.
	 *
	 * Returns 0; 1 if the player cannot do such a task, with the reason in *@e; or a
	 * negative code.
	 */
	int (*play)(void *self, const struct task *t, const struct dose *d, double *us,
		    int64_t *wrong, struct err *e);

	/* Frees the task's buffers: other players need the memory until the next play(). */
	int (*rest)(void *self, struct err *e);
	void *self;
};

#endif
