/* cmd_env.c - `ringup env`: show every setting, its value and its meaning. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"

static int names_only;

static const struct opt opts[] = {
	{ OPT_FLAG, 'n', "names", NULL, &names_only, "print the names only" },
	{ 0 },
};

static void print_upper(const char *s)
{
	for (; *s; s++)
		putchar(toupper((unsigned char)*s));
}

static int run(int argc, char **argv, struct err *e)
{
	const struct setting *s;
	struct conf c;
	int rc;

	(void)argc;
	(void)argv;
	rc = names_only ? 0 : conf_load(&c, CONF_FORBID, e);
	if (rc)
		return rc;
	for (s = settings; s->name; s++) {
		print_upper(s->env);
		if (!names_only)
			printf("=%s\t%s", s->def, s->help);
		putchar('\n');
	}
	return 0;
}

const struct cmd cmd_env = {
	.name = "env",
	.operands = "",
	.summary = "show every setting and what it means",
	.opts = opts,
	.run = run,
};
