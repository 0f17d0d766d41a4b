/* scoreboard.h - results of a benchmark as a table, or as lines of JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SCOREBOARD_H
#define CLI_SCOREBOARD_H

#include <stdbool.h>

#include "bench/task.h"
#include "bench/timing.h"

struct err;

/* Fields that all rows share. */
struct scoreboard {
	bool json, shared; /* shared: buffers are from ringup_alloc() */
	int ranks, nodes;
	int groups, group_ranks; /* of the first group; else 1 and ranks */
	const char *backend;
};

/* scoreboard_head - print the table's heading at once; with json nothing. */
int scoreboard_head(const struct scoreboard *s, const struct task *t, struct err *e);

/* scoreboard_row - print one result at once, so that the user sees the progress. */
int scoreboard_row(const struct scoreboard *s, const struct task *t, const struct timing *x,
		   struct err *e);

#endif
