/* gather.h - samples a job on this host: observation pages, /proc and stacks become rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_GATHER_H
#define HANG_GATHER_H

#include <stdbool.h>

#include "hang/look.h"

struct hang_job;

/* gather_look - fill @l from observation pages and /proc; attaches to no process.
 * look_free(). */
void gather_look(struct look *l, const struct hang_job *j);

/*
 * gather_stacks - add the stacks of those ranks of which the pages do not say enough: of the
 * ranks that others wait for, and of all where there are no pages.
 *
 * py-spy reads Python's stacks without pausing; eu-stack pauses a process for some
 * milliseconds.
 */
void gather_stacks(struct look *l, const struct hang_job *j);

/* gather_moves - until @until_ns: take stacks of up to four ranks again and again; @now, as
 * gather_stacks() left it, learns whether any has moved.  Only if the job has no pages, whose
 * counts tell that better. */
void gather_moves(struct look *now, const struct hang_job *j, int64_t until_ns);

/* gather_ras - if the job uses NCCL, ask its RAS and add the answer; @force: also where that is
 * known to crash the job.  What hinders it becomes l->unseen, l->fix and l->run. */
void gather_ras(struct look *l, const struct hang_job *j, bool force);

#endif
