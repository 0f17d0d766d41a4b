/* cmd_rankd.c - `ringup rankd`: what `ringup run` starts on each host of a job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "cli/cmd.h"
#include "launch/rankd.h"

static const struct opt opts[] = { { 0 } };

static int run(int argc, char **argv, struct err *e)
{
	(void)argc;
	(void)argv;
	if (isatty(STDIN_FILENO))
		return cmd_misuse(e,
				  "this is for `ringup run` to start, on each host of a job");
	return rankd_run(STDIN_FILENO, STDOUT_FILENO, e);
}

const struct cmd cmd_rankd = {
	.name = "rankd",
	.operands = "",
	.summary = "start ranks for `ringup run`, which starts this on each host",
	.opts = opts,
	.run = run,
};
