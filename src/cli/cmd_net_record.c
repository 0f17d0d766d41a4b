/* cmd_net_record.c - `ringup net record`: write down what a choice of interface rests on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/netfacts.h"
#include "cli/out.h"

static const struct opt opts[] = {
	{ 0 },
};

static int run(int argc, char **argv, struct err *e)
{
	struct netfacts_from from = { .root = cmd_conf()->root, .resolve = true };
	struct snapshot s;
	int rc = netfacts_read(&s, &from, e);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = out_json(snapshot_json(&s), e);
	snapshot_free(&s);
	return rc;
}

const struct cmd cmd_net_record = {
	.name = "record",
	.operands = "",
	.summary = "record interfaces, routes and settings as JSON",
	.examples = "ringup net record > node.json",
	.opts = opts,
	.run = run,
};
