/* cmd_net_agent.c - `ringup net agent`: the agent that `ringup net check` starts on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "probe/agent.h"
#include "probe/manual.h"
#include "settle/writer.h"

static const char *connect_to, *name;

static const struct opt opts[] = {
	{ OPT_STR, 0, "connect", "ADDRESS", &connect_to,
	  "join the check at this address; read its secret from stdin" },
	{ OPT_STR, 0, "name", "NODE", &name, "this node's name in the check (its host name)" },
	{ 0 },
};

static int read_secret(struct secret *s, struct err *e)
{
	char line[2 * MANUAL_HEX] = "";
	int rc;

	if (!fgets(line, sizeof(line), stdin))
		*line = 0;
	rc = manual_read(s, line, e);
	sodium_memzero(line, sizeof(line));
	return rc;
}

/* Runs an agent that the user started by hand: joins the check, and says so on stderr. */
static int check_join(struct err *e)
{
	char self[256] = "";
	struct secret s;
	struct talk t;
	int rc = read_secret(&s, e);

	gethostname(self, sizeof(self) - 1);
	if (!rc)
		rc = manual_join(&t, connect_to, name ? name : self, &s, e);
	if (!rc) {
		out_note("joined the check at %s\n", connect_to);
		rc = agent_run(&t, cmd_conf()->root, &s, NULL, e);
		talk_close(&t);
	}
	secret_wipe(&s);
	return rc;
}

static int cmd_net_agent_run(int argc, char **argv, struct err *e)
{
	struct agent_orders orders;
	struct writer writer;
	struct talk t;
	int rc;

	(void)argc;
	(void)argv;
	if (connect_to)
		return check_join(e);
	if (name || isatty(STDIN_FILENO))
		return cmd_misuse(e, "needs --connect, unless `ringup net check` starts it");
	talk_open(&t, STDIN_FILENO, STDOUT_FILENO);
	writer_open(&writer, cmd_conf()->root);
	orders = writer_orders(&writer);
	rc = agent_run(&t, cmd_conf()->root, NULL, &orders, e);
	/* Changes that were not kept are undone before the conversation ends. */
	if (!rc)
		rc = writer_close(&writer, e);
	else
		writer_close(&writer, NULL);
	talk_close(&t);
	return rc;
}

const struct cmd cmd_net_agent = {
	.name = "agent",
	.operands = "",
	.summary = "take part in a check; `ringup net check` starts this on each node",
	.examples = "echo SECRET | ringup net agent --connect 10.0.0.1:40123",
	.opts = opts,
	.run = cmd_net_agent_run,
};
