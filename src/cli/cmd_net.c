/* cmd_net.c - `ringup net`: the family of commands about the network. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"

/* In the order of `ringup help net`. */
#define SUBS(X)     \
	X(agent)    \
	X(check)    \
	X(explain)  \
	X(fix)      \
	X(lint)     \
	X(record)   \
	X(snapshot) \
	X(watch)

#define X(name) extern const struct cmd cmd_net_##name;
SUBS(X)
#undef X

static const struct cmd *const subs[] = {
#define X(name) &cmd_net_##name,
	SUBS(X) NULL,
#undef X
};

const struct cmd cmd_net = {
	.name = "net",
	.operands = "",
	.summary = "check the network; predict and set the interface that libraries use",
	.subs = subs,
};
