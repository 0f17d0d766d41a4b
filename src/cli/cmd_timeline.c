/* cmd_timeline.c - `ringup timeline`: the family of commands about recorded timelines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"

/* In the order of `ringup help timeline`. */
#define SUBS(X) X(merge)

#define X(name) extern const struct cmd cmd_timeline_##name;
SUBS(X)
#undef X

static const struct cmd *const subs[] = {
#define X(name) &cmd_timeline_##name,
	SUBS(X) NULL,
#undef X
};

const struct cmd cmd_timeline = {
	.name = "timeline",
	.operands = "",
	.summary = "work with the timelines of several ranks",
	.subs = subs,
};
