/* cmd_net_check.c - `ringup net check`: who reaches whom, how, and who is to blame if not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/cmd.h"
#include "cli/matrix.h"
#include "cli/out.h"
#include "probe/check.h"
#include "probe/page.h"
#include "probe/roster.h"
#include "probe/verdict.h"

enum { LIST_CAP = 1 << 20 };

static int as_json, by_slurm, by_mpirun, quick, start_s;
static const char *from, *html, *svg, *hostfile, *spark, *shell, *program;

static const struct opt opts[] = {
	{ OPT_STR, 'f', "from", "FILE", &from, "judge what an earlier --json wrote" },
	{ OPT_STR, 'H', "hostfile", "FILE", &hostfile,
	  "nodes, one a line, as mpirun takes them" },
	{ OPT_STR, 0, "html", "FILE", &html, "write a page with pictures too" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_FLAG, 0, "mpirun", NULL, &by_mpirun, "start agents with mpirun instead of ssh" },
	{ OPT_FLAG, 'q', "quick", NULL, &quick, "leave bandwidth out" },
	{ OPT_STR, 0, "ringup", "PATH", &program,
	  "the program on the nodes (this one's path)" },
	{ OPT_FLAG, 0, "slurm", NULL, &by_slurm,
	  "the nodes of this Slurm job, started by srun" },
	{ OPT_STR, 0, "spark", "FILE", &spark,
	  "the executors, as Spark's REST interface lists them" },
	{ OPT_STR, 0, "ssh", "COMMAND", &shell,
	  "start agents with this; %h stands for the node, which else follows" },
	{ OPT_STR, 0, "svg", "FILE", &svg, "write one picture too" },
	{ OPT_INT, 0, "timeout", "SECONDS", &start_s, "how long agents may take to start (6)" },
	{ 0 },
};

/* Which nodes. */

static int read_list(struct roster *r, const char *path,
		     int (*parse)(struct roster *, const char *, struct err *), struct err *e)
{
	size_t len;
	char *text;
	int rc = file_read("", path, LIST_CAP, &text, &len, e);

	if (rc)
		return rc;
	rc = parse(r, text, e);
	free(text);
	return rc ? fail_in(e, "%s", path) : 0;
}

static int read_slurm(struct roster *r, struct err *e)
{
	const char *list = conf_env("SLURM_JOB_NODELIST");

	if (!list)
		return cmd_misuse(e, "--slurm: this is no Slurm job (no SLURM_JOB_NODELIST)");
	return roster_slurm(r, list, e) ? fail_in(e, "SLURM_JOB_NODELIST") : 0;
}

static int find_nodes(struct roster *r, int argc, char **argv, struct err *e)
{
	int i, rc = 0;

	if (hostfile)
		rc = read_list(r, hostfile, roster_text, e);
	if (!rc && spark)
		rc = read_list(r, spark, roster_spark, e);
	if (!rc && by_slurm)
		rc = read_slurm(r, e);
	for (i = 0; !rc && i < argc; i++)
		rc = roster_add(r, argv[i], e);
	if (!rc && r->n < 2)
		rc = cmd_misuse(
			e, "which nodes? Name two or more, or --hostfile, --slurm or --spark");
	return rc;
}

/* How it goes. */

static void progress(const char *what, int done, int all)
{
	fprintf(stderr, "\r\033[K%d of %d %s", done, all, what);
	fflush(stderr);
}

static void end_progress(void)
{
	fputs("\r\033[K", stderr);
}

/* What came out. */

static void print_finding(const struct probe_finding *p)
{
	static const char *const words[] = { "note", "warning", "error" };
	static const enum out_look looks[] = { OUT_DIM, OUT_WARN, OUT_BAD };

	out_look(looks[p->severity], "\n%s: ", words[p->severity]);
	out_text("%s\n", p->what ? p->what : p->code);
	if (p->why)
		out_text("  why:  %s\n", p->why);
	if (p->next)
		out_text("  next: %s\n", p->next);
	if (p->command)
		out_text("  $ %s\n", p->command);
}

static int print_text(const struct probe_facts *f, struct err *e)
{
	int i;

	out_look(verdict_is_well(f) ? OUT_GOOD : OUT_BAD, "%s\n", f->verdict);
	for (i = 0; i < f->nfindings; i++)
		print_finding(&f->findings[i]);
	return matrix_print(f, matrix_width(), e);
}

/* Ask the nodes. */
static int probe(int argc, char **argv, struct probe_facts *f, struct err *e)
{
	struct roster nodes = { 0 };
	struct check_how how = {
		.nodes = &nodes,
		.quick = quick,
		.start_ms = start_s * 1000,
		.start = { .kind = by_mpirun  ? STARTER_MPIRUN
				   : by_slurm ? STARTER_SRUN
					      : STARTER_SSH,
			   .shell = shell              ? shell
				    : *cmd_conf()->ssh ? cmd_conf()->ssh
						       : NULL,
			   .ringup = program },
		.progress = isatty(STDERR_FILENO) ? progress : NULL,
	};
	int rc = find_nodes(&nodes, argc, argv, e);

	if (!rc)
		rc = check_run(&how, f, e);
	if (how.progress)
		end_progress();
	roster_free(&nodes);
	return rc;
}

static int run(int argc, char **argv, struct err *e)
{
	struct probe_facts f = { 0 };
	int rc;

	if (from && argc)
		return cmd_misuse(e, "--from reads a check; it takes no nodes");
	rc = from ? facts_load(&f, from, e) : probe(argc, argv, &f, e);
	if (!rc)
		rc = verdict_find(&f, e);
	if (!rc && html)
		rc = page_write(&f, PAGE_HTML, html, e);
	if (!rc && svg)
		rc = page_write(&f, PAGE_SVG, svg, e);
	if (!rc)
		rc = as_json ? out_json(facts_json(&f), e) : print_text(&f, e);
	if (!rc)
		rc = verdict_is_well(&f) ? CMD_YES : CMD_NO;
	facts_free(&f);
	return rc;
}

const struct cmd cmd_net_check = {
	.name = "check",
	.operands = "[NODE]...",
	.summary = "check the network between nodes, all pairs, both directions",
	.examples = "ringup net check node1 node2 node3\n"
		    "ringup net check --hostfile hosts\n"
		    "ringup net check --slurm --json\n"
		    "ringup net check --mpirun --hostfile hosts",
	.opts = opts,
	.max = -1,
	.run = run,
};
