/* stepline.h - find the step that a line of a training run or simulation states. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_STEPLINE_H
#define DIAGNOSE_STEPLINE_H

#include <stdbool.h>

/*
 * stepline_read - the step that the line reports as done, or -1.
 *
 * "step 120 loss 1.0", "Epoch [3/10]", "'epoch': 1.22", "iter=7", a progress bar's
 * "366/903 [5:15:39<6:53:09", and Spark's "Finished task 3.0" are steps.  A line that
 * complains, or that says that something waits, is not.
 */
long stepline_read(const char *line, const char *end);

/*
 * stepline_total - the number of steps after which the job of that step line ends, or 0.
 *
 * It is behind the step of the line: "step 240/1000", "Epoch [3/10]".
 */
long stepline_total(const char *line, const char *end);

/* stepline_plan - the number of steps that a line before the first step announces: "total steps
 * 1000", "max_steps=1000", "--train-iters 1000"; or 0. */
long stepline_plan(const char *line, const char *end);

/* stepline_is_drawn - is the step that of a progress bar? */
bool stepline_is_drawn(const char *line, const char *end);

/* stepline_counts - does the line call its step a step, not an epoch or another part? */
bool stepline_counts(const char *line, const char *end);

/* stepline_within - a second number of a line with a step, as the batch of an epoch, or 0. */
long stepline_within(const char *line, const char *end);

/* stepline_percent - the part of its job, or of an epoch, that a step line states in percent,
 * "complete 50.00%"; or -1. */
int stepline_percent(const char *line, const char *end);

/* stepline_is_done - does the line say that the whole program is done: "done", "training
 * finished", "embedding job complete"? */
bool stepline_is_done(const char *line, const char *end);

/* stepline_sets_up - is the line one of a job that sets up its processes, or whose processes
 * look for each other? */
bool stepline_sets_up(const char *line, const char *end);

/* stepline_begins - does the line say that its process begins something that ends, other than a
 * step: "saving checkpoint", "running evaluation"? */
bool stepline_begins(const char *line, const char *end);

/* stepline_waits - does the line say that its process waits or stands still? */
bool stepline_waits(const char *line, const char *end);

/* stepline_is_about_failure - does the line tell of a failure, a wait or another start? */
bool stepline_is_about_failure(const char *line, const char *end);

/*
 * stepline_is_calm - can the line be one that a process writes again and again while all is
 * well: it has a number, and is about no failure, wait, restart or step of NCCL's?
 */
bool stepline_is_calm(const char *line, const char *end);

#endif
