/* cmd_net_agent.c - `ringup net agent`: what `ringup net check` starts on each node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "probe/agent.h"

static const struct opt opts[] = {
	{ 0 },
};

static int run(int argc, char **argv, struct err *e)
{
	struct talk t;
	int rc;

	(void)argc;
	(void)argv;
	if (isatty(STDIN_FILENO))
		return cmd_misuse(e, "this is for `ringup net check` to start");
	talk_open(&t, STDIN_FILENO, STDOUT_FILENO);
	rc = agent_run(&t, cmd_conf()->root, e);
	talk_close(&t);
	return rc;
}

const struct cmd cmd_net_agent = {
	.name = "agent",
	.operands = "",
	.summary = "take part in a check; `ringup net check` starts this on each node",
	.opts = opts,
	.run = run,
};
