/* cmd_top.c - `ringup top`: what the ranks of a running job do, and which one is slow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "hang/jobs.h"
#include "hang/meter.h"
#include "hang/say.h"
#include "ringup.h"

static int once, as_json;
static const char *pause_text = "2", *metrics_file;

static const struct opt opts[] = {
	{ OPT_STR, 'i', "interval", "SECONDS", &pause_text, "time between two updates (2)" },
	{ OPT_FLAG, '1', "once", NULL, &once, "print once, for one interval, and exit" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "with --once: print one JSON object" },
	{ OPT_STR, 0, "metrics", "FILE.prom", &metrics_file,
	  "also write metrics for node_exporter at each update" },
	{ 0 },
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

/* ---- printing ---- */

static double rate(uint64_t now, uint64_t before, int64_t ns)
{
	return ns > 0 ? (double)(now - before) * 1e9 / (double)ns : 0;
}

static int percent(const struct meter_rank *now, const struct meter_rank *before)
{
	uint64_t all = now->samples - before->samples;

	return all ? (int)(100 * (now->waited - before->waited) / all) : 0;
}

static int print_table(const struct hang_job *j, const struct meter *before,
		       const struct meter *now, struct err *e)
{
	static const char *const heads[] = { "RANK", "HOST",  "PID", "OPS/S",
					     "MB/S", "WAITS", "IN",  NULL };
	int slowest = meter_slowest(before, now);
	char time[SAY_TIME];
	struct out_table t;

	out_text("%s, %d of %d ranks here, %s: ", j->source, now->ranks,
		 j->size ? j->size : now->ranks, say_time(j->age_s * 1000, time));
	if (slowest >= 0)
		out_look(OUT_WARN, "the others wait for rank %d\n", slowest);
	else
		out_text("no rank is slower than the others\n");
	out_table_init(&t, heads);
	t.right = 1 | 4 | 8 | 16 | 32;
	for (int i = 0; i < now->ranks; i++) {
		const struct meter_rank *r = &now->rank[i], *b = meter_find(before, r->rank);
		int64_t ns = now->at_ns - before->at_ns;

		if (!b)
			continue;
		out_table_cell(&t, r->rank == slowest ? OUT_WARN : OUT_PLAIN, "%d", r->rank);
		out_table_cell(&t, OUT_PLAIN, "%s", r->host);
		out_table_cell(&t, OUT_PLAIN, "%d", r->pid);
		out_table_cell(
			&t, OUT_PLAIN, "%.1f",
			rate(r->operations + r->messages, b->operations + b->messages, ns));
		out_table_cell(&t, OUT_PLAIN, "%.1f", rate(r->bytes, b->bytes, ns) / 1e6);
		out_table_cell(&t, OUT_PLAIN, "%d%%", percent(r, b));
		if (*r->in)
			out_table_cell(&t, OUT_DIM, "%s, %s", r->in, say_time(r->in_ms, time));
		else
			out_table_cell(&t, OUT_DIM, "-");
	}
	return out_table_print(&t, e);
}

static int print_json(const struct hang_job *j, const struct meter *before,
		      const struct meter *now, struct err *e)
{
	int slowest = meter_slowest(before, now);
	int64_t ns = now->at_ns - before->at_ns;
	json_t *ranks = json_array();

	for (int i = 0; i < now->ranks; i++) {
		const struct meter_rank *r = &now->rank[i], *b = meter_find(before, r->rank);

		if (!b)
			continue;
		json_array_append_new(
			ranks,
			json_pack("{si so si sI sI sf sf si sI so}", "rank", r->rank, "host",
				  out_string(r->host), "pid", r->pid, "operations",
				  (json_int_t)r->operations, "bytes", (json_int_t)r->bytes,
				  "operations_per_s", rate(r->operations, b->operations, ns),
				  "bytes_per_s", rate(r->bytes, b->bytes, ns), "waits_percent",
				  percent(r, b), "last_operation_ms", (json_int_t)r->idle_ms,
				  "in", out_string_or_null(r->in)));
	}
	return out_json(json_pack("{ss so si so so}", "schema", "ringup.top/1", "launcher",
				  out_string(j->source), "size", j->size, "slowest",
				  slowest < 0 ? json_null() : json_integer(slowest), "ranks",
				  ranks),
			e);
}

static int write_metrics(const struct hang_job *j, const struct meter *now, struct err *e)
{
	size_t len = 0;
	char name[16], *text;
	int rc;

	snprintf(name, sizeof(name), "%d", now->ranks ? now->rank[0].pid : 0);
	text = meter_metrics(now, *j->command ? j->command : name, &len);
	rc = text ? file_write("", metrics_file, 0644, text, len, e)
		  : fail(e, RINGUP_ENOMEM, "no memory for metrics");
	free(text);
	return rc;
}

/* ---- looking ---- */

static int show(const struct hang_job *j, const struct meter *before, const struct meter *now,
		struct err *e)
{
	int rc = metrics_file ? write_metrics(j, now, e) : 0;

	if (rc || (metrics_file && !once && !out_width()))
		return rc;
	if (as_json)
		return print_json(j, before, now, e);
	if (!once && out_width())
		out_text("\n");
	return print_table(j, before, now, e);
}

/* Until the job has ended, or somebody ends this program. */
static int watch_job(const struct hang_job *j, int64_t pause_ms, struct err *e)
{
	struct meter before, now = { 0 };
	struct err gone;
	int rc = 0;

	meter_read(&before, j);
	while (!rc && !stopped) {
		clock_sleep_ms(pause_ms);
		meter_read(&now, j);
		if (!now.ranks)
			break;
		rc = show(j, &before, &now, e);
		meter_free(&before);
		before = now;
		now = (struct meter){ 0 };
		if (once)
			break;
	}
	meter_free(&before);
	meter_free(&now);
	/* Old metrics would look as if the job went on. */
	if (metrics_file && !once)
		file_remove("", metrics_file, &gone);
	return rc;
}

static const struct hang_job *choose_job(const struct hang_jobs *l, struct err *e)
{
	const struct hang_job *found = NULL;
	int n = 0;

	for (int i = 0; i < l->n; i++)
		for (int k = 0; k < l->job[i].ranks; k++)
			if (l->job[i].rank[k].has_page) {
				found = &l->job[i];
				n++;
				break;
			}
	if (n == 1)
		return found;
	if (!n)
		fail(e, RINGUP_EINVAL, "no job on this host uses ringup");
	else
		fail(e, RINGUP_EINVAL,
		     "%d jobs run on this host: give the PID of one, such as %d", n,
		     (int)found->launcher);
	return NULL;
}

static int cmd_top_run(int argc, char **argv, struct err *e)
{
	const struct hang_job *j;
	struct hang_jobs l = { 0 };
	char *end;
	double s = strtod(pause_text, &end);
	pid_t pid = argc ? (pid_t)strtol(argv[0], NULL, 10) : 0;
	int rc;

	if (*end || end == pause_text || !(s >= 0.5 && s <= 3600))
		return cmd_misuse(e,
				  "--interval %.40s: not a number of seconds from 0.5 to 3600",
				  pause_text);
	if (argc && (pid < 1 || argv[0][strspn(argv[0], "0123456789")]))
		return cmd_misuse(e, "%.80s: not a PID", argv[0]);
	if (as_json && !once)
		return cmd_misuse(e, "--json needs --once");
	rc = jobs_find(&l, argc ? &pid : NULL, argc, e);
	j = rc ? NULL : choose_job(&l, e);
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	if (j)
		rc = watch_job(j, (int64_t)(s * 1000), e);
	else
		rc = rc ? rc : e->code;
	jobs_free(&l);
	return rc;
}

const struct cmd cmd_top = {
	.name = "top",
	.operands = "[PID]",
	.summary =
		"show what a job's ranks are doing, and which rank the others are waiting for",
	.examples = "ringup top\n"
		    "ringup top --once --json 4711\n"
		    "ringup top --metrics /var/lib/node_exporter/ringup.prom",
	.opts = opts,
	.max = 1,
	.run = cmd_top_run,
};
