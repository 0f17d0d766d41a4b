/* cmd_diagnose.c - `ringup diagnose`: find causes and remedies in the logs of a job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "diagnose/conclude.h"
#include "diagnose/nodes.h"
#include "diagnose/read.h"
#include "diagnose/sift.h"

static int as_json;
static struct opt_list snapshots;

static const struct opt opts[] = {
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_LIST, 's', "snapshot", "FILE", &snapshots,
	  "a node that `ringup net snapshot` recorded; may be repeated" },
	{ 0 },
};

/* ---- text ---- */

static const char *title(const char *library)
{
	static const char *const titles[][2] = {
		{ "nccl", "NCCL" },       { "openmpi", "Open MPI" }, { "gloo", "Gloo" },
		{ "horovod", "Horovod" }, { "ucx", "UCX" },
	};

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		if (!strcmp(library, titles[i][0]))
			return titles[i][1];
	return library;
}

static void print_ranks(const struct finding *f)
{
	for (int i = 0; i < f->ranks; i++)
		out_text("%s%d", i ? "," : f->ranks > 1 ? ", ranks " : ", rank ", f->rank[i]);
	for (int i = 0; i < f->hosts; i++)
		out_text("%s%s", i ? " " : f->hosts > 1 ? ", hosts " : ", host ", f->host[i]);
}

static void print_where(const struct finding *f, char **logs)
{
	out_look(OUT_DIM, "  where   ");
	out_text("%s:%ld", logs[f->file], f->line);
	if (f->count > 1)
		out_text(", %ld times", f->count);
	if (f->files > 1)
		out_text(" in %d logs", f->files);
	print_ranks(f);
	out_text("\n");
}

static void print_one(const struct conclusion *c, char **logs, bool first)
{
	const struct signature *s = c->finding->signature;

	out_look(first                         ? OUT_BAD
		 : c->kind >= SIGNATURE_RESULT ? OUT_DIM
					       : OUT_WARN,
		 "%s", c->cause);
	out_look(OUT_DIM, " [%s, %s]\n", title(s->library), s->id);
	print_where(c->finding, logs);
	out_look(OUT_DIM, "  proof   ");
	out_text("%s\n", c->proof);
	if (*c->reason) {
		out_look(OUT_DIM, "  reason  ");
		out_text("%s\n", c->reason);
	}
	if (*s->remedy) {
		out_look(OUT_DIM, "  remedy  ");
		out_text("%s\n", s->remedy);
	}
	if (*c->command) {
		out_look(OUT_DIM, "  cure    ");
		out_look(OUT_GOOD, "%s\n", c->command);
	}
}

static void cmd_diagnose_print_text(const struct conclusions *c, const struct sieve *s,
				    char **logs, int n)
{
	for (int i = 0; i < c->n; i++) {
		out_text("%s", i ? "\n" : "");
		print_one(&c->list[i], logs, !i);
	}
	for (int i = 0; i < c->echoes; i++)
		out_text("%s%s x %ld",
			 i ? ", " : "\nechoes of it, left out: ", c->echo[i]->signature->id,
			 c->echo[i]->count);
	if (c->echoes)
		out_text("\n");
	if (s->evidence.unkept)
		out_text("\n%ld more complaints that no signature knows were left out\n",
			 s->evidence.unkept);
	if (!c->n)
		out_text("nothing known is wrong in %s%s (%ld lines, %.1f MB)\n", logs[0],
			 n > 1 ? " and the other logs" : "", s->lines, (double)s->bytes / 1e6);
	if (s->unseen)
		out_text("\n%ld places, denser than any program writes them, were left out\n",
			 s->unseen);
}

/* ---- JSON ---- */

static json_t *finding_json(const struct conclusion *c, char **logs)
{
	const struct finding *f = c->finding;
	const struct signature *s = f->signature;
	json_t *hosts = json_array(), *ranks = json_array(), *addresses = json_array();

	for (int i = 0; i < f->hosts; i++)
		json_array_append_new(hosts, out_string(f->host[i]));
	for (int i = 0; i < f->ranks; i++)
		json_array_append_new(ranks, json_integer(f->rank[i]));
	for (int i = 0; i < f->addresses; i++)
		json_array_append_new(addresses, out_string(f->address[i]));
	return json_pack("{ss ss so sI sI so so so so ss so so so so si}", "signature", s->id,
			 "library", s->library, "file", out_string(logs[f->file]), "line",
			 (json_int_t)f->line, "count", (json_int_t)f->count, "cause",
			 out_string(c->cause), "proof", out_string(c->proof), "reason",
			 out_string_or_null(c->reason), "signal",
			 f->signal ? json_integer(f->signal) : json_null(), "remedy", s->remedy,
			 "command", out_string_or_null(c->command), "hosts", hosts, "ranks",
			 ranks, "addresses", addresses, "files", f->files);
}

static int cmd_diagnose_print_json(const struct conclusions *c, const struct sieve *s,
				   char **logs, struct err *e)
{
	json_t *findings = json_array(), *echoes = json_array();

	for (int i = 0; i < c->n; i++)
		json_array_append_new(findings, finding_json(&c->list[i], logs));
	for (int i = 0; i < c->echoes; i++)
		json_array_append_new(echoes, json_pack("{ss sI}", "signature",
							c->echo[i]->signature->id, "count",
							(json_int_t)c->echo[i]->count));
	return out_json(json_pack("{ss so so sI sI}", "schema", "ringup.diagnose/1", "findings",
				  findings, "echoes", echoes, "bytes", (json_int_t)s->bytes,
				  "lines", (json_int_t)s->lines),
			e);
}

/* ---- the command ---- */

static int read_nodes(struct nodes *nodes, struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < snapshots.count; i++)
		rc = nodes_add(nodes, snapshots.item[i], e);
	return rc || snapshots.count ? rc : nodes_here(nodes, cmd_conf()->root, e);
}

/* Reports a log that cannot be read, and reads the others; returns the last such failure. */
static int read_logs(struct sieve *s, int n, char **logs, struct err *e)
{
	struct reader r;
	int rc, worst = 0;

	for (int i = 0; i < n; i++) {
		struct err why = { 0 };

		rc = read_open(&r, logs[i], &why);
		if (!rc)
			rc = sift_log(s, &r, i, &why);
		read_close(&r);
		if (!rc)
			continue;
		if (worst)
			out_note("ringup diagnose: %s\n", e->text);
		worst = fail(e, why.code, "%s: %s", logs[i], why.text);
	}
	return worst;
}

static int cmd_diagnose_run(int argc, char **argv, struct err *e)
{
	struct nodes nodes = { 0 };
	struct conclusions c = { 0 };
	struct sieve s = { 0 };
	int failed = 0, rc = read_nodes(&nodes, e);

	if (!rc)
		rc = sift_open(&s, e);
	if (!rc) {
		failed = read_logs(&s, argc, argv, e);
		rc = conclude(&c, &s.evidence, &nodes, failed ? &(struct err){ 0 } : e);
	}
	if (!rc && (c.n || !failed)) {
		if (as_json)
			rc = cmd_diagnose_print_json(&c, &s, argv, e);
		else
			cmd_diagnose_print_text(&c, &s, argv, argc);
	}
	if (!rc)
		rc = failed ? failed : c.n ? CMD_NO : 0;
	conclude_free(&c);
	sift_close(&s);
	nodes_free(&nodes);
	return rc;
}

const struct cmd cmd_diagnose = {
	.name = "diagnose",
	.operands = "LOG...|-",
	.summary = "find the cause of a failed or hung job in its logs",
	.examples = "ringup diagnose job.log\n"
		    "ringup diagnose --json logs/rank-*.log.gz\n"
		    "mpirun -np 2 ./a.out 2>&1 | ringup diagnose -\n"
		    "ringup diagnose --snapshot n1.json --snapshot n2.json job.log",
	.opts = opts,
	.min = 1,
	.max = -1,
	.run = cmd_diagnose_run,
};
