/* scoreboard.h - the results of a contest as a table, or as lines of JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SCOREBOARD_H
#define CLI_SCOREBOARD_H

#include <jansson.h>
#include <stdbool.h>

#include "bench/contest.h"

struct err;

/* What is the same in all rows. */
struct scoreboard {
	bool json, shared; /* shared: buffers are from ringup_alloc() */
	int ranks, nodes;
	int groups, group_ranks; /* of the first group; else 1 and ranks */
	const char *backend;
	const struct player *players;
	int count;
};

/* scoreboard_head - the first lines of the table, written at once; nothing with json. */
int scoreboard_head(const struct scoreboard *s, const struct task *t, struct err *e);

/* scoreboard_json - one result as the row of --json; the caller's reference, or NULL. */
json_t *scoreboard_json(const struct scoreboard *s, const struct task *t,
			const struct contest_result *r);

/* scoreboard_row - one result; written at once, so that one can watch. */
int scoreboard_row(const struct scoreboard *s, const struct task *t,
		   const struct contest_result *r, struct err *e);

#endif
