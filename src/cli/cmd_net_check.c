/* cmd_net_check.c - `ringup net check`: which nodes reach each other, and network faults. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/data.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/matrix.h"
#include "cli/out.h"
#include "cli/targets.h"
#include "detect/netfacts.h"
#include "probe/check.h"
#include "probe/verdict.h"
#include "report/netpage.h"
#include "ringup.h"

static int as_json, by_hand, quick;
static const char *from, *html, *listen_at;
static struct targets targets;

static const struct opt opts[] = {
	{ OPT_FLAG, 0, "agent", NULL, &by_hand,
	  "start no agents; print the command to paste on each node" },
	{ OPT_STR, 'f', "from", "FILE", &from,
	  "read the output of an earlier --json run instead of checking" },
	{ OPT_STR, 0, "html", "FILE", &html, "also write a web page with diagrams" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_STR, 0, "listen", "ADDRESS", &listen_at,
	  "with --agent: local address that the nodes connect to" },
	{ OPT_FLAG, 'q', "quick", NULL, &quick, "do not measure bandwidth" },
	TARGETS_OPTS(targets, "limit for agents to start (6)"),
	{ 0 },
};

/* Results. */

static void print_finding(const struct probe_finding *p)
{
	static const enum out_look looks[] = { OUT_DIM, OUT_WARN, OUT_BAD };

	const char *severity = facts_severity_text(p->severity);

	out_look(looks[p->severity], "\n%s: ", severity);
	out_fold(OUT_PLAIN, (int)strlen(severity) + 2, 8, "%s", p->what ? p->what : p->code);
	if (p->why) {
		out_text("  why:  ");
		out_fold(OUT_PLAIN, 8, 8, "%s", p->why);
	}
	if (p->fix) {
		out_text("  fix:  ");
		out_fold(OUT_PLAIN, 8, 8, "%s", p->fix);
	}
	if (p->run)
		out_text("  run:  %s\n", p->run);
}

static int cmd_net_check_print_text(const struct probe_facts *f, struct err *e)
{
	int i, open, left = facts_unmeasured(f, &open);

	out_fold(verdict_is_well(f) ? OUT_GOOD : OUT_BAD, 0, 2, "%s", f->verdict);
	if (left)
		out_look(OUT_DIM, "%d of %d open paths were not measured: time limit\n", left,
			 open);
	for (i = 0; i < f->nfindings; i++)
		print_finding(&f->findings[i]);
	return matrix_print(f, matrix_width(), e);
}

/* Agents that the user starts by hand. */

static void agents_invite(const char *where, const char *hex, int seconds)
{
	char self[PATH_MAX] = "ringup";
	const char *program = targets.program ? targets.program : self;

	if (!targets.program && data_program(self, NULL))
		program = "ringup";
	out_note("run this command on each node within %d seconds:\n", seconds);
	out_note("\n");
	out_note("    echo %s | %s net agent --connect %s\n", hex, program, where);
	out_note("\n");
	out_note("append --name NODE if the host name differs\n");
}

/* Without an option, the address that ringup itself would use. */
static int choose_address(char out[IFACE_TEXT], struct err *e)
{
	struct netfacts_from from_here = { .root = cmd_conf()->root };
	struct own_hint hint = { .interface = cmd_conf()->interface };
	struct picked p = { 0 };
	struct snapshot s;
	int rc = netfacts_read(&s, &from_here, e);

	if (!rc)
		rc = netfacts_choose(&s, hint, &p, e);
	if (!rc && !p.roles[0].npicks)
		rc = fail(e, RINGUP_EINVAL, "%.200s; choose one with --listen=ADDRESS",
			  p.roles[0].error);
	else if (!rc)
		snprintf(out, IFACE_TEXT, "%s", p.roles[0].picks[0].address);
	picker_free(&p);
	snapshot_free(&s);
	return rc;
}

/* Probes the nodes. */
static int nodes_probe(int argc, char **argv, struct probe_facts *f, struct err *e)
{
	struct roster nodes = { 0 };
	struct check_options how = { .quick = quick };
	struct manual_options hands = { .seconds = targets.start_s, .invite = agents_invite };
	char address[IFACE_TEXT] = "";
	int rc = targets_find(&targets, argc, argv, 2, &nodes, e);

	if (!rc)
		how.agents = targets_agents(&targets, &nodes);
	if (!rc && by_hand) {
		hands.address = listen_at ? listen_at : address;
		how.by_hand = &hands;
		how.agents.start_ms = 0;
		rc = listen_at ? 0 : choose_address(address, e);
	}
	if (!rc)
		rc = check_run(&how, f, e);
	targets_end_progress();
	roster_free(&nodes);
	return rc;
}

static int cmd_net_check_run(int argc, char **argv, struct err *e)
{
	struct probe_facts f = { 0 };
	int rc;

	if (from && argc)
		return cmd_misuse(e, "--from reads an earlier check and takes no nodes");
	rc = from ? facts_load(&f, from, e) : nodes_probe(argc, argv, &f, e);
	if (!rc)
		rc = verdict_find(&f, e);
	if (!rc && html)
		rc = netpage_write(&f, html, e);
	if (!rc)
		rc = as_json ? out_json(facts_json(&f), e) : cmd_net_check_print_text(&f, e);
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
		    "ringup net check --mpirun --hostfile hosts\n"
		    "ringup net check --agent node1 node2",
	.opts = opts,
	.max = -1,
	.run = cmd_net_check_run,
};
