/* cmd_diagnose.c - `ringup diagnose`: find causes and remedies in the logs of a job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/data.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "diagnose/compare.h"
#include "diagnose/conclude.h"
#include "diagnose/nodes.h"
#include "diagnose/read.h"
#include "diagnose/rulefile.h"
#include "diagnose/sift.h"
#include "hang/look.h"
#include "hang/nccllog.h"
#include "hang/ruling.h"
#include "hang/say.h"

static int as_json, list_rules;
static struct opt_list snapshots, rules;
static const char *good;
static int status = -1;

static const struct opt opts[] = {
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_LIST, 's', "snapshot", "FILE", &snapshots,
	  "a node that `ringup net snapshot` recorded; may be repeated" },
	{ OPT_LIST, 'r', "rules", "FILE", &rules,
	  "also read rules from FILE; may be repeated" },
	{ OPT_STR, 'c', "compare", "GOOD", &good,
	  "also show kinds of lines that GOOD, the log of a good run, lacks" },
	{ OPT_INT, 0, "status", "N", &status, "the exit status of the job, if you know it" },
	{ OPT_FLAG, 0, "list-rules", NULL, &list_rules,
	  "print all rules in the format of --rules" },
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
	out_look(OUT_DIM, "  %-9s ", "where");
	out_text("%s:%ld", logs[f->file], f->line);
	if (f->count > 1)
		out_text(", %ld times", f->count);
	if (f->files > 1)
		out_text(" in %d logs", f->files);
	print_ranks(f);
	out_text("\n");
}

static void print_field(const char *label, const char *text, int look)
{
	if (!*text)
		return;
	out_look(OUT_DIM, "  %-9s ", label);
	out_look(look, "%s\n", text);
}

/* A sentence; lines of the log and commands are not folded. */
static void print_sentence(const char *label, const char *text)
{
	if (!*text)
		return;
	out_look(OUT_DIM, "  %-9s ", label);
	out_fold(OUT_PLAIN, 12, 12, "%s", text);
}

static void print_one(const struct conclusion *c, char **logs, bool first)
{
	const struct signature *s = c->finding->signature;

	out_fold(first && c->kind < SIGNATURE_NOTE ? OUT_BAD
		 : c->kind >= SIGNATURE_RESULT     ? OUT_DIM
						   : OUT_WARN,
		 0, 2, "%s [%s, %s]", c->cause, title(s->library), s->id);
	print_where(c->finding, logs);
	print_field("evidence", c->proof, OUT_PLAIN);
	for (int i = 0; i < c->lasts; i++) {
		out_look(OUT_DIM, "  %-9s ", i ? "" : "last");
		out_text("line %ld: %s\n", c->last[i]->line, c->last[i]->text);
	}
	print_field("why", c->reason, OUT_PLAIN);
	print_sentence("fix", s->remedy);
	print_field("run", c->command, OUT_GOOD);
}

/* ---- the table of processes ---- */

enum { ROWS = 16 };

static bool is_marked(const struct proc *p)
{
	return p->rank >= 0 || *p->host;
}

static void print_end(const struct proc *p)
{
	if (p->signal)
		out_text("  signal %d", p->signal);
	else if (p->status >= 0)
		out_text("  status %d", p->status);
	out_text("\n");
}

static void print_process(const struct proc *p)
{
	char name[96];
	int64_t t = p->last[0].time / 1000000;

	if (p->rank >= 0)
		snprintf(name, sizeof(name), "rank %d%s%.64s", p->rank, *p->host ? " " : "",
			 p->host);
	else
		snprintf(name, sizeof(name), "%s", p->host);
	out_text("  %-12s", name);
	if (p->step >= 0)
		out_text("  step %ld", p->step);
	if (p->sequence >= 0)
		out_text("  collective %ld", p->sequence);
	if (t)
		out_text("  last line at %02d:%02d:%02d", (int)(t / 10000 % 100),
			 (int)(t / 100 % 100), (int)(t % 100));
	if (p->first.line)
		out_text("  first complaint in line %ld", p->first.line);
	print_end(p);
}

/* Prints the marked processes, if there are several, and the ranks that wrote nothing. */
static void print_processes(const struct proc *p, int n)
{
	int marked = 0, shown = 0;

	for (int i = 0; i < n; i++)
		marked += is_marked(&p[i]);
	if (marked < 2)
		return;
	out_look(OUT_DIM, "\nprocesses\n");
	for (int i = 0; i < n && shown < ROWS; i++)
		if (is_marked(&p[i]) && ++shown)
			print_process(&p[i]);
	if (marked > shown)
		out_text("  %d more: see --json\n", marked - shown);
}

/* A rule to begin with, for an error that none knows. */
static void print_stub(const struct conclusions *c)
{
	char text[256];

	for (int i = 0; i < c->n; i++) {
		if (strcmp(c->list[i].finding->signature->id, "X2") != 0)
			continue;
		rulefile_stub(text, sizeof(text), c->list[i].proof);
		if (!*text)
			return;
		out_look(OUT_DIM, "\nto recognize it, add this rule to a file for --rules:\n");
		out_text(
			"  rule: my-1\n  kind: error\n  text: %s\n  cause: CAUSE\n  fix: FIX\n",
			text);
		return;
	}
}

static void print_compared(const struct compare *x, char **logs)
{
	if (!good)
		return;
	out_text("\n%d kind%s of lines that %s does not contain\n", x->shapes,
		 x->shapes == 1 ? "" : "s", good);
	for (int i = 0; i < x->shown; i++) {
		out_text("  %s:%ld: %s", logs[x->first[i].file], x->first[i].line,
			 x->first[i].text);
		if (x->first[i].count > 1)
			out_look(OUT_DIM, " (%ld times)", x->first[i].count);
		out_text("\n");
	}
	if (x->shapes > x->shown)
		out_text("  and %d more\n", x->shapes - x->shown);
}

static bool cmd_diagnose_is_bad(const struct conclusions *c)
{
	return c->outcome != JOBEND_WELL && c->n;
}

/* Sets @text to what NCCL's messages in the logs say of a job that hangs, or to "".  Nothing
 * says that the job hangs: the log of a job that runs may end at the same place. */
static void read_nccl(int n, char **logs, char text[SAY_TEXT])
{
	struct ruling *r = calloc(1, sizeof(*r));
	struct nccllog log = { 0 };
	struct look none = { 0 };
	struct err e;

	*text = 0;
	for (int i = 0; r && i < n; i++)
		if (strcmp(logs[i], "-"))
			(void)nccllog_file(&log, logs[i], &e);
	if (r && log.lines) {
		nccllog_judge(&log, r);
		if (r->status == 1)
			say_ruling(r, &none, 0, text, SAY_TEXT);
	}
	nccllog_free(&log);
	free(r);
}

static void cmd_diagnose_print_text(const struct conclusions *c, const struct sieve *s,
				    const struct compare *x, char **logs, int n,
				    const char *nccl)
{
	const struct proc *list;
	int processes;

	if (c->outcome == JOBEND_WELL && c->n)
		out_text("%d complaint%s, but the job continued\n\n", c->n,
			 c->n > 1 ? "s" : "");
	for (int i = 0; i < c->n; i++) {
		out_text("%s", i ? "\n" : "");
		print_one(&c->list[i], logs, !i);
	}
	for (int i = 0; i < c->echoes; i++)
		out_text("%s%s x %ld",
			 i ? ", " : "\nconsequences not shown: ", c->echo[i]->signature->id,
			 c->echo[i]->count);
	if (c->echoes)
		out_text("\n");
	if (s->evidence.unkept)
		out_text("\n%ld more unrecognized complaints not shown\n", s->evidence.unkept);
	list = procs_list(s->evidence.procs, &processes);
	if (cmd_diagnose_is_bad(c)) {
		print_processes(list, processes);
		print_stub(c);
	}
	if (!c->n)
		out_text("no known problem in %s%s (%ld lines, %.1f MB)%s\n", logs[0],
			 n > 1 ? " and the other logs" : "", s->lines, (double)s->bytes / 1e6,
			 c->outcome == JOBEND_WELL ? ""
						   : "; the log does not show how the job "
						     "ended: add --status N if you know it");
	if (*nccl)
		out_text("\nif the job hangs, this is where NCCL waits:\n%s", nccl);
	if (s->unseen)
		out_text("\n%ld places skipped: too many known messages\n", s->unseen);
	print_compared(x, logs);
}

/* ---- JSON ---- */

/* A line of a log; its time is MM-DD hh:mm:ss, or null. */
static json_t *line_json(const struct proc_line *l)
{
	char time[32] = "";
	int64_t t = l->time / 1000000;

	if (t)
		snprintf(time, sizeof(time), "%02d-%02d %02d:%02d:%02d", (int)(t / 100000000),
			 (int)(t / 1000000 % 100), (int)(t / 10000 % 100), (int)(t / 100 % 100),
			 (int)(t % 100));
	return json_pack("{sI so so}", "line", (json_int_t)l->line, "time",
			 out_string_or_null(time), "text", out_string(l->text));
}

static json_t *finding_json(const struct conclusion *c, char **logs)
{
	const struct finding *f = c->finding;
	const struct signature *s = f->signature;
	json_t *hosts = json_array(), *ranks = json_array(), *addresses = json_array();
	json_t *last = json_array();

	for (int i = 0; i < f->hosts; i++)
		json_array_append_new(hosts, out_string(f->host[i]));
	for (int i = 0; i < f->ranks; i++)
		json_array_append_new(ranks, json_integer(f->rank[i]));
	for (int i = 0; i < f->addresses; i++)
		json_array_append_new(addresses, out_string(f->address[i]));
	for (int i = 0; i < c->lasts; i++)
		json_array_append_new(last, line_json(c->last[i]));
	/* proof, reason, remedy and command are the old names of evidence, why, fix and run. */
	return json_pack("{ss ss so sI sI so so so so so ss so so so ss so so so so si so}",
			 "signature", s->id, "library", s->library, "file",
			 out_string(logs[f->file]), "line", (json_int_t)f->line, "count",
			 (json_int_t)f->count, "cause", out_string(c->cause), "evidence",
			 out_string(c->proof), "why", out_string_or_null(c->reason), "run",
			 out_string_or_null(c->command), "signal",
			 f->signal ? json_integer(f->signal) : json_null(), "fix", s->remedy,
			 "proof", out_string(c->proof), "reason", out_string_or_null(c->reason),
			 "command", out_string_or_null(c->command), "remedy", s->remedy,
			 "hosts", hosts, "ranks", ranks, "addresses", addresses, "status",
			 f->status >= 0 && !f->signal ? json_integer(f->status) : json_null(),
			 "files", f->files, "last", last);
}

static json_t *process_json(const struct proc *p, char **logs)
{
	return json_pack("{so so so so so so so so so}", "file", out_string(logs[p->file]),
			 "rank", p->rank >= 0 ? json_integer(p->rank) : json_null(), "host",
			 out_string_or_null(p->host), "first_complaint",
			 p->first.line ? line_json(&p->first) : json_null(), "last_line",
			 p->last[0].line ? line_json(&p->last[0]) : json_null(), "step",
			 p->step >= 0 ? json_integer(p->step) : json_null(), "sequence",
			 p->sequence >= 0 ? json_integer(p->sequence) : json_null(), "signal",
			 p->signal ? json_integer(p->signal) : json_null(), "status",
			 p->status >= 0 ? json_integer(p->status) : json_null());
}

static json_t *compared_json(const struct compare *x, char **logs)
{
	json_t *list = json_array();

	for (int i = 0; i < x->shown; i++)
		json_array_append_new(list, json_pack("{so sI sI so}", "file",
						      out_string(logs[x->first[i].file]),
						      "line", (json_int_t)x->first[i].line,
						      "count", (json_int_t)x->first[i].count,
						      "text", out_string(x->first[i].text)));
	return list;
}

static int cmd_diagnose_print_json(const struct conclusions *c, const struct sieve *s,
				   const struct compare *x, char **logs, const char *nccl,
				   struct err *e)
{
	json_t *findings = json_array(), *echoes = json_array(), *processes = json_array();
	const struct proc *list;
	int many;

	for (int i = 0; i < c->n; i++)
		json_array_append_new(findings, finding_json(&c->list[i], logs));
	for (int i = 0; i < c->echoes; i++)
		json_array_append_new(echoes, json_pack("{ss sI}", "signature",
							c->echo[i]->signature->id, "count",
							(json_int_t)c->echo[i]->count));
	list = procs_list(s->evidence.procs, &many);
	for (int i = 0; i < many; i++)
		json_array_append_new(processes, process_json(&list[i], logs));
	return out_json(json_pack("{ss ss so so so so so sI sI}", "schema", "ringup.diagnose/1",
				  "outcome", jobend_name(c->outcome), "findings", findings,
				  "echoes", echoes, "processes", processes, "new",
				  compared_json(x, logs), "nccl", out_string_or_null(nccl),
				  "bytes", (json_int_t)s->bytes, "lines", (json_int_t)s->lines),
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

/* Reads the rules of a folder, if it is there. */
static int read_folder(struct rulefile *r, const char *folder, struct err *e)
{
	char pattern[PATH_MAX + 16];
	glob_t found = { 0 };
	int rc = 0;

	snprintf(pattern, sizeof(pattern), "%s/*.rules", folder);
	if (!glob(pattern, 0, NULL, &found))
		for (size_t i = 0; !rc && i < found.gl_pathc; i++)
			rc = rulefile_read(r, found.gl_pathv[i], e);
	globfree(&found);
	return rc;
}

/* Rules of the installation, of the user, and those that the command line names. */
static int read_rules(struct rulefile *r, struct err *e)
{
	const char *config = conf_env("XDG_CONFIG_HOME"), *home = conf_env("HOME");
	char folder[PATH_MAX];
	int rc = 0;

	if (!data_find(folder, "rules", NULL))
		rc = read_folder(r, folder, e);
	if (!rc && ((config && *config) || (home && *home))) {
		snprintf(folder, sizeof(folder), "%s%s/ringup/rules",
			 config && *config ? config : home,
			 config && *config ? "" : "/.config");
		rc = read_folder(r, folder, e);
	}
	for (int i = 0; !rc && i < rules.count; i++)
		rc = rulefile_read(r, rules.item[i], e);
	return rc ? rc : rulefile_use(r, e);
}

static int print_rules(void)
{
	for (int i = 0; i < signature_count; i++) {
		rulefile_print(stdout, &signatures[i]);
		out_text("\n");
	}
	return 0;
}

/* Compares the logs with that of a good run. */
static int compare_logs(struct compare *x, int n, char **logs, struct err *e)
{
	struct reader r;
	int rc;

	for (int i = -1; i < n; i++) {
		rc = read_open(&r, i < 0 ? good : logs[i], e);
		if (!rc)
			rc = i < 0 ? compare_learn(x, &r, e) : compare_scan(x, &r, i, e);
		read_close(&r);
		if (rc)
			return fail_in(e, "%s", i < 0 ? good : logs[i]);
	}
	return 0;
}

static int diagnose(int argc, char **argv, struct err *e)
{
	struct nodes nodes = { 0 };
	struct conclusions c = { 0 };
	struct compare x = { 0 };
	struct sieve s = { 0 };
	char nccl[SAY_TEXT] = "";
	int failed = 0, rc = read_nodes(&nodes, e);

	if (!rc && good)
		rc = compare_logs(&x, argc, argv, e);
	if (!rc)
		rc = sift_open(&s, e);
	if (!rc) {
		s.evidence.status = status;
		failed = read_logs(&s, argc, argv, e);
		rc = conclude(&c, &s.evidence, &nodes, failed ? &(struct err){ 0 } : e);
	}
	if (!rc && !failed &&
	    (c.outcome == JOBEND_SILENT || (!c.n && c.outcome != JOBEND_WELL)))
		read_nccl(argc, argv, nccl);
	if (!rc && (c.n || !failed)) {
		if (as_json)
			rc = cmd_diagnose_print_json(&c, &s, &x, argv, nccl, e);
		else
			cmd_diagnose_print_text(&c, &s, &x, argv, argc, nccl);
	}
	if (!rc)
		rc = failed ? failed : cmd_diagnose_is_bad(&c) ? CMD_NO : 0;
	conclude_free(&c);
	sift_close(&s);
	compare_free(&x);
	nodes_free(&nodes);
	return rc;
}

static int cmd_diagnose_run(int argc, char **argv, struct err *e)
{
	struct rulefile r = { 0 };
	int rc = read_rules(&r, e);

	if (!rc && list_rules)
		rc = print_rules();
	else if (!rc && !argc)
		rc = cmd_misuse(e, "no log is named");
	else if (!rc)
		rc = diagnose(argc, argv, e);
	rulefile_free(&r);
	return rc;
}

const struct cmd cmd_diagnose = {
	.name = "diagnose",
	.operands = "LOG...|-",
	.summary = "find the cause of a failed or hung job in its logs",
	.examples = "ringup diagnose job.log\n"
		    "ringup diagnose --json logs/rank-*.log.gz\n"
		    "mpirun -np 2 ./a.out 2>&1 | ringup diagnose -\n"
		    "ringup diagnose --snapshot n1.json --snapshot n2.json job.log\n"
		    "ringup diagnose --rules site.rules --compare yesterday.log job.log",
	.opts = opts,
	.min = 0,
	.max = -1,
	.run = cmd_diagnose_run,
};
