/* cmds.c - the list of subcommands. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"

#include <string.h>

/* In the order `ringup help` shows them. */
#define CMDS(X) \
	X(env)  \
	X(help)

#define X(name) extern const struct cmd cmd_##name;
CMDS(X)
#undef X

const struct cmd *const cmds[] = {
#define X(name) &cmd_##name,
	CMDS(X) NULL,
#undef X
};

const struct cmd *cmd_find(const char *name)
{
	int i;

	for (i = 0; cmds[i]; i++)
		if (!strcmp(cmds[i]->name, name))
			return cmds[i];
	return NULL;
}

void cmd_usage(const struct cmd *c, FILE *f)
{
	fprintf(f, "usage: ringup %s%s%s%s\n%s\n", c->name,
		c->opts->kind == OPT_END ? "" : " [OPTION]...", *c->operands ? " " : "",
		c->operands, c->summary);
	if (c->opts->kind != OPT_END)
		fputc('\n', f);
	opt_usage(c->opts, f);
}
