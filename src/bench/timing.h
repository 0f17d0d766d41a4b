/* timing.h - time a task: how many calls and samples, and how long they took. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/task.h"

struct err;
struct measure;

enum { TIMING_SAMPLES = 1000000000 };

struct timing_options {
	int samples;    /* up to TIMING_SAMPLES; 0: as many as fit into seconds */
	double seconds; /* about */
	bool check;
};

/* Microseconds of one call, on its slowest rank. */
struct timing {
	double least, median, most;
	int64_t wrong;      /* elements of all ranks; -1: not checked */
	int samples, calls; /* calls per sample                       */
};

/* timing_take - time @t on all ranks of @m; each calls it with the same arguments and gets the
 * same result. */
int timing_take(struct measure *m, const struct task *t, const struct timing_options *how,
		struct timing *to, struct err *e);

#endif
