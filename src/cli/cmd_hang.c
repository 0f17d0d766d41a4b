/* cmd_hang.c - `ringup hang`: why a job hangs, and which rank is to blame. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "cli/targets.h"
#include "hang/collect.h"
#include "hang/flights.h"
#include "hang/jobs.h"
#include "hang/nccllog.h"
#include "hang/ras.h"
#include "hang/remote.h"
#include "hang/rows.h"
#include "hang/ruling.h"
#include "hang/say.h"
#include "hang/twice.h"
#include "ringup.h"

static int as_json, no_stacks, force, as_agent;
static const char *pause_text = "5", *collect_dir, *ras_where;
static int after_s;
static struct targets targets;
static struct roster nodes;

static const struct opt opts[] = {
	{ OPT_STR, 'w', "wait", "SECONDS", &pause_text, "time between the two samples (5)" },
	{ OPT_STR, 0, "collect", "DIR", &collect_dir,
	  "also save stacks, states, sockets and logs to a new folder, within 10 s" },
	{ OPT_STR, 0, "ras", "HOST:PORT", &ras_where, "query only NCCL RAS, at this address" },
	{ OPT_FLAG, 0, "force", NULL, &force,
	  "query NCCL RAS even if that may crash this NCCL" },
	{ OPT_FLAG, 0, "no-stacks", NULL, &no_stacks,
	  "do not attach to processes or take stacks" },
	TARGETS_OPTS(targets, "time limit for answers after the second sample (4)"),
	/* On another host of a job. */
	{ OPT_FLAG, 0, "agent", NULL, &as_agent, NULL },
	/* For `ringup run --hang-after`. */
	{ OPT_INT, 0, "after", "SECONDS", &after_s, NULL },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ 0 },
};

enum { MOST_WAIT_S = 3600 };

/* A job with its two looks, and what they mean. */
struct seen {
	struct twice *twice;
	struct ruling ruling;
};

/* ---- looking ---- */

static void judge(struct seen *s)
{
	ruling_make(&s->ruling, &s->twice->before, &s->twice->now, s->twice->elapsed_ms);
}

static void look_twice(struct seen *s, struct twice *t, int n, int64_t wait_ms)
{
	struct twice_how how = { .wait_ms = wait_ms, .no_stacks = no_stacks, .force = force };
	struct agents_how agents = targets_agents(&targets, &nodes);

	remote_look(t, n, &how, &agents);
	targets_end_progress();
	for (int i = 0; i < n; i++) {
		s[i].twice = &t[i];
		judge(&s[i]);
	}
}

/* ---- printing ---- */

static void print_verdict(const struct seen *s)
{
	char text[SAY_TEXT], fix[SAY_TEXT], run[SAY_TEXT];
	const struct ruling *r = &s->ruling;

	out_look(r->status == 1 ? OUT_BAD
		 : r->status    ? OUT_WARN
				: OUT_GOOD,
		 "%s\n", say_head(r));
	if (*s->twice->job->command)
		out_look(OUT_DIM, "  %s\n", s->twice->job->command);
	say_ruling(r, &s->twice->now, s->twice->elapsed_ms, text, sizeof(text));
	out_text("%s", text);
	for (int i = 0; i < s->twice->hosts; i++)
		if (*s->twice->host[i].why)
			out_text("  host %s: %s\n", s->twice->host[i].name,
				 s->twice->host[i].why);
	if (*s->twice->unseen && r->status)
		out_text("  not seen: %s\n", s->twice->unseen);
	say_fix(r, &s->twice->now, fix, sizeof(fix));
	if (*fix)
		out_text("fix: %s\n", fix);
	say_run(r, &s->twice->now, run, sizeof(run));
	/* Files keep what they have; only processes can be collected from. */
	if (*run && !((collect_dir || !s->twice->elapsed_ms) && strstr(run, "--collect")))
		out_text("run: %s\n", run);
}

static void print_job(const struct seen *s, int number)
{
	char time[SAY_TIME];

	out_text("job %d (%s, ", number, s->twice->job->source);
	if (s->twice->job->size && s->twice->job->ranks != s->twice->job->size)
		out_text("%d of %d ranks here, ", s->twice->job->ranks, s->twice->job->size);
	else
		out_text("%d rank%s, ", s->twice->job->ranks,
			 s->twice->job->ranks == 1 ? "" : "s");
	out_text("%s): ", say_time(s->twice->job->age_s * 1000, time));
	print_verdict(s);
}

static json_t *ranks_json(const bool *set, int size)
{
	json_t *list = json_array();

	for (int i = 0; i < size; i++)
		if (set[i])
			json_array_append_new(list, json_integer(i));
	return list;
}

static json_t *hosts_json(const struct twice *t)
{
	json_t *list = json_array();

	for (int i = 0; i < t->hosts; i++)
		json_array_append_new(list,
				      json_pack("{so so}", "name", out_string(t->host[i].name),
						"silent", out_string_or_null(t->host[i].why)));
	return list;
}

static json_t *job_json(const struct seen *s)
{
	const struct ruling *r = &s->ruling;
	const struct hang_job *j = s->twice->job;
	char text[SAY_TEXT], fix[SAY_TEXT], run[SAY_TEXT];
	json_t *o;

	say_ruling(r, &s->twice->now, s->twice->elapsed_ms, text, sizeof(text));
	say_fix(r, &s->twice->now, fix, sizeof(fix));
	say_run(r, &s->twice->now, run, sizeof(run));
	/* "next" is the former key of "run". */
	o = json_pack("{so si si so ss si so so so so sI so so so so so so}", "launcher",
		      out_string(j->source), "size", j->size, "ranks_here", j->ranks, "command",
		      out_string(j->command), "verdict", ruling_name(r->kind), "status",
		      r->status, "culprits", ranks_json(r->culprit, r->size), "waiting",
		      ranks_json(r->waiting, r->size), "group", out_string_or_null(r->group),
		      "operation", out_string_or_null(r->what), "waited_ms",
		      (json_int_t)r->waited_ms, "text", out_string(text), "fix",
		      out_string_or_null(fix), "run", out_string_or_null(run), "next",
		      out_string_or_null(*run ? run : fix), "unseen",
		      out_string_or_null(s->twice->unseen), "hosts", hosts_json(s->twice));
	rows_save(&s->twice->now, o);
	return o;
}

static int print_all_json(const struct seen *s, int n, struct err *e)
{
	json_t *jobs = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(jobs, job_json(&s[i]));
	return out_json(json_pack("{ss so}", "schema", "ringup.hang/1", "jobs", jobs), e);
}

/* ---- keeping ---- */

static int keep_verdict(const char *dir, const struct seen *s, struct err *e)
{
	json_t *j = job_json(s);
	char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
	char path[PATH_MAX + 32];
	int rc;

	json_decref(j);
	snprintf(path, sizeof(path), "%s/verdict.json", dir);
	rc = text ? file_write("", path, 0600, text, strlen(text), e)
		  : fail(e, RINGUP_ENOMEM, "no memory for a verdict");
	free(text);
	return rc;
}

/* Keeps the jobs that hang, or all if none does; each has an equal part of the time. */
static int collect_all(const struct seen *s, int n, int status, struct err *e)
{
	int64_t until = clock_deadline(COLLECT_MS);
	char dir[PATH_MAX];
	int rc = folder_claim(collect_dir, e);

	for (int i = 0; i < n && !rc; i++) {
		if (s[i].ruling.status != status)
			continue;
		if (snprintf(dir, sizeof(dir), "%s/job-%d", collect_dir, i + 1) >=
		    (int)sizeof(dir) - 64)
			return fail(e, RINGUP_EINVAL, "--collect: the name is too long");
		rc = folder_make(dir, 0700, e);
		if (!rc)
			rc = keep_verdict(dir, &s[i], e);
		if (!rc)
			rc = collect_job(dir, s[i].twice->job,
					 clock_ns() + (until - clock_ns()) / (n - i), e);
	}
	if (!rc)
		out_note("ringup hang: saved to %s\n", collect_dir);
	return rc;
}

/* ---- answers and records in files ---- */

/* What was kept of a job: answers of RAS, in the order of time, or dumps of a flight recorder.
 */
struct kept {
	struct look poll[2]; /* the first and the last answer */
	int polls;
	char version[RAS_VERSION];
	struct flights flights;
	struct nccllog log;
};

static int keep_poll(struct kept *k, const char *data, size_t len, struct err *e)
{
	struct look *l = &k->poll[k->polls ? 1 : 0];

	look_free(l);
	k->polls++;
	return ras_parse(l, data, len, k->version, e);
}

/* What is no record may be a log of NCCL. */
static int read_log(struct kept *k, const char *path, const struct err *why, struct err *e)
{
	long before = k->log.lines;
	int rc = nccllog_file(&k->log, path, e);

	if (!rc && k->log.lines == before)
		rc = fail(e, RINGUP_EINVAL, "%s, nor an NCCL log: run ringup diagnose %.100s",
			  why->text, path);
	return rc;
}

static int read_kept(struct kept *k, const char *path, struct err *e)
{
	struct err why = { 0 };
	char *data = NULL;
	size_t len;
	int rc = file_read("", path, FLIGHT_MOST, &data, &len, e);

	if (!rc && ras_is_answer(data, len))
		rc = keep_poll(k, data, len, e);
	else if ((!rc || e->code == RINGUP_EINVAL) && flights_file(&k->flights, path, &why))
		rc = read_log(k, path, &why, e);
	free(data);
	return rc;
}

/* Counts that differ in one answer are normal in a job that advances. */
static void judge_polls(const struct kept *k, struct seen *s)
{
	struct ruling *r = &s->ruling;

	s->twice->before = k->poll[0];
	s->twice->now = k->polls > 1 ? k->poll[1] : k->poll[0];
	judge(s);
	if (k->polls > 1 || r->kind == RULING_SILENT)
		return;
	memset(r, 0, sizeof(*r));
	r->kind = RULING_UNSURE;
	r->status = 3;
	snprintf(r->why, sizeof(r->why),
		 "one RAS report is not enough: save another some seconds later, and name both "
		 "files");
}

static int judge_kept(struct kept *k, int *status, struct err *e)
{
	struct hang_job job = { .age_s = 0 };
	struct twice t = { .job = &job };
	struct seen *s = calloc(1, sizeof(*s));
	char absent[256] = "";
	int rc = 0;

	if (!s)
		return fail(e, RINGUP_ENOMEM, "no memory for a verdict");
	s->twice = &t;
	if (k->polls) {
		snprintf(job.source, sizeof(job.source), "NCCL %.16s, RAS", k->version);
		judge_polls(k, s);
		job.size = t.now.size;
	} else if (k->log.lines) {
		snprintf(job.source, sizeof(job.source), "NCCL's log");
		nccllog_judge(&k->log, &s->ruling);
		job.size = s->ruling.size;
	} else {
		snprintf(job.source, sizeof(job.source), "flight record");
		flights_judge(&k->flights, &s->ruling, absent, sizeof(absent));
		job.size = s->ruling.size;
	}
	job.ranks = job.size;
	*status = s->ruling.status;
	if (as_json) {
		rc = print_all_json(s, 1, e);
	} else {
		out_text("%s (%d rank%s): ", job.source, job.size, job.size == 1 ? "" : "s");
		print_verdict(s);
		if (*absent)
			out_text("no dump from %s, so not blamed\n", absent);
	}
	free(s);
	return rc;
}

static int judge_files(int argc, char **argv, int *status, struct err *e)
{
	struct kept k = { .polls = 0 };
	struct stat st;
	int rc = 0;

	for (int i = 0; i < argc && !rc; i++) {
		if (stat(argv[i], &st))
			rc = fail_os(e, "%.200s", argv[i]);
		else if (S_ISDIR(st.st_mode))
			rc = flights_folder(&k.flights, argv[i], e);
		else
			rc = read_kept(&k, argv[i], e);
	}
	if (!rc && !!k.polls + !!k.flights.dumps + !!k.log.lines > 1)
		rc = cmd_misuse(e,
				"give RAS reports, flight records or logs, not several kinds");
	if (!rc)
		rc = judge_kept(&k, status, e);
	look_free(&k.poll[0]);
	look_free(&k.poll[1]);
	flights_free(&k.flights);
	nccllog_free(&k.log);
	return rc;
}

/* Asks one address of RAS twice. */
static int judge_ras(int64_t wait_ms, int *status, struct err *e)
{
	struct kept k = { .polls = 2 };
	const char *hazard;
	int rc = ras_ask(&k.poll[0], ras_where, k.version, e);

	hazard = rc ? NULL : ras_hazard(k.version, k.poll[0].size);
	if (hazard && !force)
		rc = fail(e, RINGUP_EINVAL,
			  "NCCL %.16s: %s; ringup queried it once, --force queries it again",
			  k.version, hazard);
	if (!rc) {
		clock_sleep_ms(wait_ms);
		rc = ras_ask(&k.poll[1], ras_where, k.version, e);
	}
	if (!rc)
		rc = judge_kept(&k, status, e);
	look_free(&k.poll[0]);
	look_free(&k.poll[1]);
	return rc;
}

/* ---- the command ---- */

/* A hang counts before what cannot be told. */
static int worst(const struct seen *s, int n)
{
	int status = 0;

	for (int i = 0; i < n; i++)
		if (s[i].ruling.status == 1 || !status)
			status = s[i].ruling.status;
	return status;
}

static int judge_jobs(const struct hang_jobs *l, int64_t wait_ms, int *status, struct err *e)
{
	struct twice *t = calloc((size_t)l->n, sizeof(*t));
	struct seen *s = calloc((size_t)l->n, sizeof(*s));
	int rc = t && s ? 0 : fail(e, RINGUP_ENOMEM, "no memory for %d jobs", l->n), i;

	for (i = 0; !rc && i < l->n; i++)
		t[i].job = &l->job[i];
	if (!rc) {
		look_twice(s, t, l->n, wait_ms);
		*status = worst(s, l->n);
		if (as_json)
			rc = print_all_json(s, l->n, e);
		else
			for (i = 0; i < l->n; i++)
				print_job(&s[i], i + 1);
	}
	if (!rc && collect_dir)
		rc = collect_all(s, l->n, *status, e);
	for (i = 0; t && i < l->n; i++)
		twice_free(&t[i]);
	free(t);
	free(s);
	return rc;
}

static int read_wait(int64_t *ms, struct err *e)
{
	char *end;
	double s = strtod(pause_text, &end);

	if (*end == 's' && !end[1])
		end++;
	if (end == pause_text || *end || !(s >= 0 && s <= MOST_WAIT_S))
		return cmd_misuse(e, "--wait %.40s: not a number of seconds from 0 to %d",
				  pause_text, MOST_WAIT_S);
	*ms = (int64_t)(s * 1000);
	return 0;
}

static int read_pids(int argc, char **argv, pid_t *pids, struct err *e)
{
	char *end;
	long pid;

	for (int i = 0; i < argc; i++) {
		pid = strtol(argv[i], &end, 10);
		if (*end || pid < 1 || pid > 1 << 22)
			return cmd_misuse(e, "%.80s: not a process ID", argv[i]);
		pids[i] = (pid_t)pid;
	}
	return 0;
}

static int fail_process(pid_t pid, struct err *e)
{
	if (kill(pid, 0) && errno == ESRCH)
		return fail(e, RINGUP_EINVAL, "no process %d on this host", (int)pid);
	if (!geteuid())
		return fail(e, RINGUP_EINVAL,
			    "no permission to inspect process %d: " TWICE_OUTSIDE, (int)pid);
	return fail(e, RINGUP_EINVAL,
		    "process %d belongs to another user: run sudo ringup hang %d", (int)pid,
		    (int)pid);
}

static int judge_processes(int argc, char **argv, int64_t wait_ms, int *status, struct err *e)
{
	pid_t *pids = argc ? calloc((size_t)argc, sizeof(*pids)) : NULL;
	struct hang_jobs l = { 0 };
	int rc = 0;

	if (argc)
		rc = pids ? read_pids(argc, argv, pids, e)
			  : fail(e, RINGUP_ENOMEM, "no memory");
	if (!rc)
		rc = jobs_find(&l, pids, argc, e);
	if (!rc && !l.n && argc)
		rc = fail_process(pids[0], e);
	if (!rc && !l.n && !as_json)
		out_text("no job of this user runs on this host\n");
	if (!rc && !l.n && l.hidden && !as_json)
		out_text("not seen: no permission to inspect %d of your processes\n"
			 "%s\n",
			 l.hidden, geteuid() ? "run: sudo ringup hang" : "fix: " TWICE_OUTSIDE);
	if (!rc && (l.n || as_json))
		rc = judge_jobs(&l, wait_ms, status, e);
	jobs_free(&l);
	free(pids);
	return rc;
}

/* ---- for ringup run ---- */

/* One look at the job that @launcher started; for how long it has hung, in ms; 0: it does not.
 */
static int64_t hung_ms(pid_t launcher, int64_t wait_ms, bool keep)
{
	struct hang_jobs l = { 0 };
	struct twice t = { 0 };
	struct seen *s = calloc(1, sizeof(*s));
	struct err e;
	int64_t ms = 0;

	if (s && !jobs_find(&l, &launcher, 1, &e) && l.n) {
		t.job = &l.job[0];
		look_twice(s, &t, 1, wait_ms);
		if (s->ruling.status == 1)
			ms = s->ruling.waited_ms > t.elapsed_ms ? s->ruling.waited_ms
								: t.elapsed_ms;
		if (ms && keep) {
			print_job(s, 1);
			if (collect_all(s, 1, 1, &e))
				out_note("ringup hang: %s\n", e.text);
		}
	}
	twice_free(&t);
	jobs_free(&l);
	free(s);
	return ms;
}

/* Waits until the job of @launcher has hung for long enough; then keeps what can be known of
 * it, and ends it. */
static int guard(pid_t launcher, int64_t wait_ms)
{
	int64_t limit = after_s * INT64_C(1000), pause = limit / 10, since = 0, ms;

	if (pause > 30000)
		pause = 30000;
	if (wait_ms > limit)
		wait_ms = limit;
	for (;;) {
		clock_sleep_ms(pause);
		ms = hung_ms(launcher, wait_ms, false);
		if (!ms)
			since = 0;
		else if (!since)
			since = clock_ns() - ms * 1000000;
		if (!ms || clock_ns() - since < limit * 1000000)
			continue;
		if (!hung_ms(launcher, wait_ms < 1000 ? wait_ms : 1000, true))
			continue;
		out_note("ringup run: ending the job, which has hung for %d s\n", after_s);
		kill(launcher, SIGTERM);
		return CMD_NO;
	}
}

static bool is_file(const char *operand)
{
	return !*operand || operand[strspn(operand, "0123456789")];
}

static int cmd_hang_run(int argc, char **argv, struct err *e)
{
	int64_t wait_ms = 0;
	int status = 0, files = 0, rc = read_wait(&wait_ms, e);

	if (!rc && as_agent)
		return remote_serve(STDIN_FILENO, STDOUT_FILENO, e);
	for (int i = 0; i < argc; i++)
		files += is_file(argv[i]);
	if (!rc && targets_are_given(&targets))
		rc = targets_find(&targets, 0, NULL, 1, &nodes, e);
	if (!rc && files && files < argc)
		rc = cmd_misuse(e, "give processes or files, not both");
	if (!rc && ras_where && argc)
		rc = cmd_misuse(e, "--ras takes no other operand: leave out %.80s", argv[0]);
	if (!rc && after_s > 0 && (argc != 1 || files || !collect_dir))
		rc = cmd_misuse(e, "--after is for ringup run --hang-after");
	if (!rc && after_s > 0)
		return guard((pid_t)atoi(argv[0]), wait_ms);
	if (!rc && ras_where)
		rc = judge_ras(wait_ms, &status, e);
	else if (!rc && files)
		rc = judge_files(argc, argv, &status, e);
	else if (!rc)
		rc = judge_processes(argc, argv, wait_ms, &status, e);
	roster_free(&nodes);
	return rc ? rc : status;
}

const struct cmd cmd_hang = {
	.name = "hang",
	.operands = "[PID...|DIR|FILE...]",
	.summary = "find out why a job hangs: which rank, which host, at which line",
	.examples = "ringup hang\n"
		    "ringup hang 8811 8812 8813\n"
		    "ringup hang /tmp/dumps\n"
		    "ringup hang --ras localhost:28028\n"
		    "ringup hang nccl-0.log nccl-1.log\n"
		    "ringup hang --collect hang-1\n"
		    "ringup hang --wait 10 --json",
	.exits = "0 no job hangs, 1 a job hangs, 2 usage error, 3 undecided or failed",
	.opts = opts,
	.max = -1,
	.run = cmd_hang_run,
};
