/* cmd_net_lint.c - `ringup net lint`: find faults in the network settings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "detect/netfacts.h"
#include "nicpick/lint.h"

static int as_json;
static const char *from;

static const struct opt opts[] = {
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_STR, 'f', "from", "FILE", &from,
	  "check a node that `ringup net snapshot` recorded" },
	/* The former name. */
	{ OPT_STR, 's', "snapshot", "FILE", &from, NULL },
	{ 0 },
};

static enum out_look look_of(enum lint_severity s)
{
	static const enum out_look looks[] = { OUT_DIM, OUT_WARN, OUT_BAD };

	return looks[s];
}

/* A line may hold any bytes; a newline or a tab would break the layout. */
static void print_line(const char *head, const char *line)
{
	out_text("    %s", head);
	out_look(OUT_BOLD, "%.500s%s\n", line, strlen(line) > 500 ? "..." : "");
}

static void print_finding(const struct lint_finding *f)
{
	const char *severity = lint_severity_text(f->severity);

	out_text("%s: ", f->where);
	out_look(look_of(f->severity), "%s: ", severity);
	out_fold(OUT_PLAIN, (int)(strlen(f->where) + strlen(severity)) + 4, 4, "%s [%s]",
		 f->what, f->code);
	if (f->line)
		print_line("found:  ", f->line);
	if (f->fix)
		print_line("fix:    ", f->fix);
	out_text("    why:    ");
	out_fold(OUT_PLAIN, 12, 12, "%s", f->why);
}

static void cmd_net_lint_print_text(const struct lint_report *r)
{
	for (int i = 0; i < r->n; i++)
		print_finding(&r->findings[i]);
	if (!r->n)
		out_look(OUT_GOOD, "no findings\n");
}

static json_t *finding_json(const struct lint_finding *f)
{
	return json_pack("{ss ss so so so so ss so}", "code", f->code, "severity",
			 lint_severity_text(f->severity), "where", out_string(f->where),
			 "setting", out_string_or_null(f->setting), "line",
			 out_string_or_null(f->line), "what", out_string(f->what), "why",
			 f->why, "fix", out_string_or_null(f->fix));
}

static int cmd_net_lint_print_json(const struct lint_report *r, struct err *e)
{
	json_t *list = json_array();

	for (int i = 0; i < r->n; i++)
		json_array_append_new(list, finding_json(&r->findings[i]));
	return out_json(json_pack("{ss so}", "schema", "ringup.net.lint/1", "findings", list),
			e);
}

static int cmd_net_lint_run(int argc, char **argv, struct err *e)
{
	struct netfacts_from here = { cmd_conf()->root, from, .resolve = true };
	struct lint_report r = { 0 };
	struct snapshot s;
	int rc = netfacts_read(&s, &here, e);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = lint_run(&r, &s, e);
	if (!rc && as_json)
		rc = cmd_net_lint_print_json(&r, e);
	else if (!rc)
		cmd_net_lint_print_text(&r);
	if (!rc && r.bites)
		rc = CMD_NO;
	lint_free(&r);
	snapshot_free(&s);
	return rc;
}

const struct cmd cmd_net_lint = {
	.name = "lint",
	.operands = "",
	.summary = "find settings that a library interprets differently from what you meant",
	.examples = "ringup net lint\n"
		    "NCCL_SOCKET_IFNAME=^docker0 ringup net lint\n"
		    "ringup net lint --from node.json --json",
	.opts = opts,
	.run = cmd_net_lint_run,
};
