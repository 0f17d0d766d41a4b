/* measure.h - carry out a task as one rank, through ringup.h alone, and time it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/task.h"
#include "ringup.h"

struct err;
struct groups;
struct measure;

/* Zero-initialise, then set what you need. */
struct measure_options {
	/* NULL or none: the world.  Else the task is carried out in all of these groups that
	 * have this rank, at the same time. */
	const struct groups *groups;
	bool shared; /* buffers are from ringup_alloc() */
};

/*
 * measure_open - get ready to measure as a rank of @r.
 *
 * Ownership: *@mp is the caller's, for measure_close(), before ringup_fini().  *@how is needed
 * only during the call.
 */
int measure_open(struct ringup *r, const struct measure_options *how, struct measure **mp,
		 struct err *e);
void measure_close(struct measure *m);

/*
 * measure_play - carry out @d of task @t; every rank calls it with the same arguments.
 *
 * Sets @us[0..d->samples-1] to the microseconds of one call on this rank.  Input is written
 * anew and ranks meet before each sample; results are checked after it, outside of the timed
 * part.  *@wrong is the number of elements that are wrong on this rank.
 *
 * Buffers are kept until the task changes, so that the first sample of a later dose has warm
 * pages.
 */
int measure_play(struct measure *m, const struct task *t, const struct dose *d, double *us,
		 int64_t *wrong, struct err *e);

/* measure_rest - free the buffers; the next play makes new ones. */
void measure_rest(struct measure *m);

/*
 * measure_play_all - the same on all ranks: @us of the slowest one, *@wrong of all together,
 * and
 * *@spent_us, the time that all of it has taken; -1 wrong without d->check.
 */
int measure_play_all(struct measure *m, const struct task *t, const struct dose *d, double *us,
		     int64_t *wrong, double *spent_us, struct err *e);

#endif
