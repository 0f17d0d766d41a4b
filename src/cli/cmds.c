/* cmds.c - the list of subcommands. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"

/* In the order of `ringup help`. */
#define CMDS(X)     \
	X(bench)    \
	X(cache)    \
	X(detect)   \
	X(diagnose) \
	X(doctor)   \
	X(env)      \
	X(hang)     \
	X(hello)    \
	X(net)      \
	X(plan)     \
	X(rankd)    \
	X(rebuild)  \
	X(run)      \
	X(timeline) \
	X(top)      \
	X(help)

#define X(name) extern const struct cmd cmd_##name;
CMDS(X)
#undef X

const struct cmd *const cmds[] = {
#define X(name) &cmd_##name,
	CMDS(X) NULL,
#undef X
};
