/* cmd_net_agent.c - `ringup net agent`: what `ringup net check` starts on each node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/netfacts.h"
#include "probe/agent.h"

static const struct opt opts[] = {
	{ 0 },
};

static int run(int argc, char **argv, struct err *e)
{
	/* Names are asked for by the agent itself, which does not wait for them for ever. */
	struct netfacts_from from = { .root = cmd_conf()->root };
	struct snapshot s;
	struct talk t;
	int rc;

	(void)argc;
	(void)argv;
	if (isatty(STDIN_FILENO))
		return cmd_misuse(e, "this is for `ringup net check` to start");
	talk_open(&t, STDIN_FILENO, STDOUT_FILENO);
	rc = netfacts_read(&s, &from, e);
	if (!rc)
		rc = agent_run(&t, &s, e);
	snapshot_free(&s);
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
