/* cmd_net_snapshot.c - `ringup net snapshot`: record the facts that choices depend on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "detect/netfacts.h"
#include "ringup.h"

static const char *file;

static const struct opt opts[] = {
	{ OPT_STR, 'o', "output", "FILE", &file,
	  "write to FILE; on an error, leave it unchanged" },
	{ 0 },
};
static const struct opt none[] = { { 0 } };

/* Mode 600: addresses and names of a network are confidential. */
static int write_file(json_t *json, struct err *e)
{
	char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL, *end;
	size_t len = text ? strlen(text) : 0;
	int rc;

	json_decref(json);
	if (!text)
		return fail(e, RINGUP_ENOMEM, "no memory for the snapshot");
	end = text + len;
	*end = '\n'; /* replaces the NUL, which no file needs */
	rc = file_save(file, 0600, text, len + 1, e);
	free(text);
	return rc;
}

static int cmd_net_snapshot_run(int argc, char **argv, struct err *e)
{
	struct netfacts_from from = { .root = cmd_conf()->root, .resolve = true };
	struct snapshot s;
	int rc = netfacts_read(&s, &from, e);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = file ? write_file(snapshot_json(&s), e) : out_json(snapshot_json(&s), e);
	snapshot_free(&s);
	return rc;
}

const struct cmd cmd_net_snapshot = {
	.name = "snapshot",
	.operands = "",
	.summary = "print interfaces, routes and settings as JSON",
	.examples = "ringup net snapshot -o node.json\n"
		    "ringup net snapshot | jq .interfaces",
	.opts = opts,
	.run = cmd_net_snapshot_run,
};

const struct cmd cmd_net_record = {
	.name = "record",
	.operands = "",
	.summary = "former name of snapshot",
	.examples = "ringup net record > node.json",
	.opts = none,
	.run = cmd_net_snapshot_run,
};
