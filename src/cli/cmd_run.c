/* cmd_run.c - `ringup run`: start a program as the ranks of a job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/proc.h"
#include "cli/cmd.h"
#include "launch/cluster.h"
#include "launch/hostlist.h"
#include "launch/output.h"
#include "launch/parent.h"
#include "launch/rankenv.h"
#include "ringup.h"

enum { MOST_RANKS = 65536 };

static int ranks = INT_MIN, timeout_s, grace_s = 5, bare, tagged, timed;
static const char *output_dir, *hang_after;
static struct opt_list exports;
static const char *timeline;
static int mark_cycles;

/* Several hosts. */
static const char *hosts, *hostfile, *identity, *program, *interfaces;
static int ssh_port, start_timeout_s = INT_MIN, parent_fd = INT_MIN;

/* Elastic jobs. */
static const char *script, *cooldown;
static int min_np = INT_MIN, max_np = INT_MIN, slots = INT_MIN, elastic_timeout_s = INT_MIN,
	   reset_limit = INT_MIN;

static const struct opt opts[] = {
	{ OPT_INT, 'n', "ranks", "N", &ranks, "number of ranks to start" },
	{ OPT_INT, 0, "np", "N", &ranks, "the same, as in mpirun" },
	{ OPT_LIST, 'x', "export", "VAR[=VALUE]", &exports, "set a variable for the ranks" },
	{ OPT_STR, 'o', "output-dir", "DIR", &output_dir,
	  "also write DIR/rank.N/stdout and stderr" },
	{ OPT_STR, 'H', "hosts", "HOST:SLOTS,...", &hosts,
	  "hosts, and the number of ranks on each" },
	{ OPT_STR, 0, "hostfile", "FILE", &hostfile,
	  "file of hosts, one \"HOST slots=N\" per line" },
	{ OPT_INT, 0, "ssh-port", "PORT", &ssh_port, "port of sshd on other hosts" },
	{ OPT_STR, 0, "ssh-identity-file", "FILE", &identity, "private key for ssh" },
	{ OPT_STR, 0, "network-interfaces", "NAME,...", &interfaces,
	  "interface between hosts: the first of these that exists" },
	{ OPT_STR, 0, "ringup", "PATH", &program,
	  "path of ringup on other hosts (same as here)" },
	{ OPT_INT, 0, "start-timeout", "SECONDS", &start_timeout_s,
	  "limit for hosts to answer and ranks to connect (60)" },
	{ OPT_INT, 0, "min-np", "N", &min_np,
	  "run elastically, with at least this many ranks" },
	{ OPT_INT, 0, "max-np", "N", &max_np, "run with at most this many ranks" },
	{ OPT_STR, 0, "host-discovery-script", "COMMAND", &script,
	  "shell command that prints HOST:SLOTS, one per line; runs every second" },
	{ OPT_INT, 0, "slots-per-host", "N", &slots,
	  "slots of hosts listed without a number (1)" },
	{ OPT_INT, 0, "elastic-timeout", "SECONDS", &elastic_timeout_s,
	  "wait this long for enough ranks (600)" },
	{ OPT_INT, 0, "reset-limit", "N", &reset_limit,
	  "end the job after this many new rendezvous" },
	{ OPT_STR, 0, "blacklist-cooldown-range", "MIN,MAX", &cooldown,
	  "seconds before a failed host is used again" },
	{ OPT_INT, 0, "parent", "FD", &parent_fd, NULL }, /* for programs: not shown */
	{ OPT_INT, 0, "timeout", "SECONDS", &timeout_s, "end the job after this time" },
	{ OPT_STR, 0, "hang-after", "TIME", &hang_after,
	  "end a job that has hung this long, such as 5m; save the reason in hang-PID" },
	{ OPT_INT, 0, "grace", "SECONDS", &grace_s, "seconds between SIGTERM and SIGKILL (@)" },
	{ OPT_FLAG, 0, "no-prefix", NULL, &bare,
	  "pass output through unchanged, without \"[RANK] \"" },
	{ OPT_STR, 0, "timeline-filename", "FILE", &timeline,
	  "record a timeline; %r in the name: one file per rank" },
	{ OPT_FLAG, 0, "timeline-mark-cycles", NULL, &mark_cycles,
	  "also mark the start of each batch" },
	{ OPT_FLAG, 0, "tag-output", NULL, &tagged,
	  "prefix lines with \"[RANK]<stdout>:\", as horovodrun does" },
	{ OPT_FLAG, 0, "timestamp-output", NULL, &timed, "also prefix lines with the time" },
	{ 0 },
};

static bool cmd_run_is_name(const char *var, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (var[i] != '_' && !isalpha((unsigned char)var[i]) &&
		    (i == 0 || !isdigit((unsigned char)var[i])))
			return false;
	return len > 0;
}

/* Ranks inherit the environment, so a bare VAR has no effect; users write it all the same,
 * because mpirun needs it. */
static int check_export(const char *var, const char **set, int *count, struct err *e)
{
	size_t len = strcspn(var, "=");
	char name[128];

	if (!cmd_run_is_name(var, len) || len >= sizeof(name))
		return cmd_misuse(e, "-x %.80s: not VAR or VAR=VALUE", var);
	memcpy(name, var, len);
	name[len] = 0;
	if (rankenv_is_ours(name))
		return cmd_misuse(e, "-x %s: only `ringup run` itself may set this variable",
				  name);
	if (var[len])
		set[(*count)++] = var;
	else if (!conf_env(name))
		log_warn("-x %s: this variable is not set, so it is not passed on", name);
	return 0;
}

/* Turns options into variables; @set has room for two more, which belong to the caller. */
static int set_timeline(const char **set, int *count, struct err *e)
{
	static const char cycles[] = "RINGUP_TIMELINE_MARK_CYCLES=1";
	char *file = NULL;

	if (timeline && asprintf(&file, "RINGUP_TIMELINE=%s", timeline) < 0)
		return fail(e, RINGUP_ENOMEM, "no memory for a variable");
	if (file)
		set[(*count)++] = file;
	if (mark_cycles)
		set[(*count)++] = cycles;
	return 0;
}

/* -- checks of the options ----------------------------------------------------- */

static bool is_elastic(void)
{
	return script || min_np != INT_MIN;
}

static bool is_set(int number)
{
	return number != INT_MIN;
}

static int check_number(const char *name, int number, int least, int most, struct err *e)
{
	if (!is_set(number) || (number >= least && number <= most))
		return 0;
	return cmd_misuse(e, "%s %d: from %d to %d", name, number, least, most);
}

/* Refuses options that need others. */
static int check_elastic(struct err *e)
{
	if (script && (hosts || hostfile))
		return cmd_misuse(e,
				  "--host-discovery-script already provides the hosts: omit %s",
				  hosts ? "-H" : "--hostfile");
	if (!is_elastic() &&
	    (is_set(max_np) || is_set(elastic_timeout_s) || is_set(reset_limit) || cooldown))
		return cmd_misuse(e, "%s needs an elastic job: add --min-np",
				  is_set(max_np)              ? "--max-np"
				  : is_set(elastic_timeout_s) ? "--elastic-timeout"
				  : is_set(reset_limit)       ? "--reset-limit"
							      : "--blacklist-cooldown-range");
	if (is_elastic() && !is_set(ranks) && is_set(min_np) && is_set(max_np) &&
	    max_np < min_np)
		return cmd_misuse(e, "--max-np %d is less than --min-np %d", max_np, min_np);
	if (is_elastic() && !is_set(ranks) && is_set(min_np))
		ranks = min_np;
	if (is_elastic() && is_set(ranks) && !is_set(min_np))
		min_np = ranks;
	if (is_elastic() && is_set(ranks) && min_np > ranks)
		return cmd_misuse(e, "--min-np %d is more than -np %d", min_np, ranks);
	if (is_elastic() && is_set(max_np) && is_set(ranks) && max_np < ranks)
		return cmd_misuse(e, "--max-np %d is less than -np %d", max_np, ranks);
	return 0;
}

static int check_hosts(struct err *e)
{
	if (hosts && hostfile)
		return cmd_misuse(e, "-H or --hostfile, not both");
	if (is_set(parent_fd) && !hosts && !script)
		return cmd_misuse(e,
				  "--parent needs -H with the hosts that it is connected to");
	if (!hosts && !hostfile && !script && (ssh_port || identity || program))
		return cmd_misuse(e, "%s needs hosts: name them with -H",
				  ssh_port   ? "--ssh-port"
				  : identity ? "--ssh-identity-file"
					     : "--ringup");
	if (ssh_port < 0 || ssh_port > 65535)
		return cmd_misuse(e, "--ssh-port %d: from 1 to 65535", ssh_port);
	return 0;
}

static int cmd_run_check(struct err *e)
{
	int rc = check_hosts(e);

	if (!rc)
		rc = check_number("-np", ranks, 1, MOST_RANKS, e);
	if (!rc)
		rc = check_number("--min-np", min_np, 1, MOST_RANKS, e);
	if (!rc)
		rc = check_number("--max-np", max_np, 1, MOST_RANKS, e);
	if (!rc)
		rc = check_number("--slots-per-host", slots, 1, MOST_RANKS, e);
	if (!rc)
		rc = check_number("--elastic-timeout", elastic_timeout_s, 0, 100000000, e);
	if (!rc)
		rc = check_number("--reset-limit", reset_limit, 0, INT_MAX, e);
	if (!rc)
		rc = check_number("--start-timeout", start_timeout_s, 1, 1000000, e);
	if (!rc)
		rc = check_elastic(e);
	if (rc)
		return rc;
	if (!is_set(ranks) && !hosts && !hostfile)
		return cmd_misuse(e, "-np is missing: give the number of ranks, as in -np 4");
	if (timeout_s < 0 || grace_s < 0)
		return cmd_misuse(e, "--%s: a time is not negative",
				  timeout_s < 0 ? "timeout" : "grace");
	if (timeline && !*timeline)
		return cmd_misuse(e, "--timeline-filename needs a file");
	if (mark_cycles && !timeline && !*cmd_conf()->timeline)
		return cmd_misuse(e, "--timeline-mark-cycles needs --timeline-filename FILE");
	if (bare && (tagged || timed))
		return cmd_misuse(e, "--no-prefix and --%s exclude each other",
				  tagged ? "tag-output" : "timestamp-output");
	if (output_dir && !*output_dir)
		return cmd_misuse(e, "--output-dir needs a directory");
	return 0;
}

/* Parses "10,100": seconds. */
static int read_cooldown(struct elastic_options *how, struct err *e)
{
	double least, most;
	int end = 0;

	if (!cooldown)
		return 0;
	if (sscanf(cooldown, "%lf%*[, ]%lf%n", &least, &most, &end) < 2 || cooldown[end])
		return cmd_misuse(e, "--blacklist-cooldown-range %.40s: not MIN,MAX in seconds",
				  cooldown);
	if (!(least >= 1 && most >= least && most <= 3600))
		return cmd_misuse(
			e,
			"--blacklist-cooldown-range %.40s: give MIN,MAX from 1 to 3600 seconds",
			cooldown);
	how->cooldown_min_ms = (int64_t)(least * 1000);
	how->cooldown_max_ms = (int64_t)(most * 1000);
	return 0;
}

static int read_hosts(struct hostlist *l, struct err *e)
{
	char here[32];
	int rc = 0;

	if (hosts)
		rc = hostlist_option(l, hosts, is_set(slots) ? slots : 1, e);
	else if (hostfile)
		rc = hostlist_file(l, hostfile, is_set(slots) ? slots : 1, e);
	if (rc && hosts)
		return cmd_misuse(e, "-H %.80s: %s", hosts, e->text);
	if (rc)
		return rc;
	if (!is_set(ranks))
		ranks = hostlist_slots(l);
	if (hosts || hostfile || script)
		return 0;
	snprintf(here, sizeof(here), "localhost:%d", is_set(slots) ? slots : ranks);
	return hostlist_option(l, here, 1, e);
}

/* -- run ---------------------------------------------------------------------- */

/* The prefix of each line. */
static unsigned output_form(void)
{
	return bare ? 0 : (tagged ? OUTPUT_TAG : OUTPUT_RANK) | (timed ? OUTPUT_TIME : 0);
}

static int run_cluster(const struct hostlist *l, const struct conf *conf, char **argv,
		       char *const *extra, struct parent *parent, struct err *e)
{
	int64_t start_ms =
		is_set(start_timeout_s) ? start_timeout_s * 1000ll : conf->start_timeout_ms;
	struct cluster_options j = {
		.size = ranks,
		.is_here = !is_elastic() && !parent && l->count == 1 &&
			   hostlist_is_local(l->host[0].name) && l->host[0].slots >= ranks,
		.is_elastic = is_elastic(),
		.elastic = { .np = ranks,
			     .min_np = min_np,
			     .max_np = is_set(max_np) ? max_np : 0,
			     .reset_limit = is_set(reset_limit) ? reset_limit : -1,
			     .start_ms = start_ms,
			     .timeout_ms = is_set(elastic_timeout_s)
						   ? elastic_timeout_s * 1000ll
						   : 600000,
			     .discovers = script != NULL },
		.hosts = l,
		.script = script,
		.slots = is_set(slots) ? slots : 1,
		.start = { .shell = *conf->ssh ? conf->ssh : NULL,
			   .ringup = program,
			   .command = { "rankd" },
			   .port = ssh_port,
			   .identity = identity,
			   .keeps_alive = true },
		.start_ms = start_ms,
		.parent = parent,
		.conf = conf,
		.argv = argv,
		.extra = extra,
		.name = conf->job,
		.output_dir = output_dir,
		.prefix = output_form(),
		.timeout_ms = timeout_s * 1000ll,
		.grace_ms = grace_s * 1000ll,
	};
	int rc = read_cooldown(&j.elastic, e);

	return rc ? rc : cluster_run(&j, e);
}

static int run_for_parent(const struct hostlist *l, const struct conf *conf, char **argv,
			  char *const *extra, struct err *e)
{
	struct parent p;
	int rc = parent_open(&p, parent_fd, e);

	if (rc)
		return rc;
	rc = run_cluster(l, conf, argv, extra, &p, e);
	parent_close(&p);
	return rc;
}

static int run_on(const struct hostlist *l, char **argv, char *const *extra, struct err *e)
{
	struct conf conf = *cmd_conf();

	if (interfaces)
		conf.interface = interfaces;
	if (is_set(parent_fd))
		return run_for_parent(l, &conf, argv, extra, e);
	return run_cluster(l, &conf, argv, extra, NULL, e);
}

/* "300", "300s", "5m" or "1h" in seconds. */
static int read_time(const char *text, int *seconds, struct err *e)
{
	char *end;
	double n = strtod(text, &end);

	n *= *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;
	end += *end == 'h' || *end == 'm' || *end == 's';
	if (end == text || *end || !(n >= 1 && n <= 1e6))
		return cmd_misuse(e, "--hang-after %.40s: not a time such as 300s, 5m or 1h",
				  text);
	*seconds = (int)n;
	return 0;
}

/* Starts the process that looks whether the job hangs; it ends with this one. */
static int start_guard(pid_t *pid, struct err *e)
{
	char seconds[16], folder[32], me[16];
	const char *const argv[] = { "/proc/self/exe", "hang", "--after", seconds,
				     "--collect",      folder, me,        NULL };
	struct proc_how how = { .argv = (char *const *)(uintptr_t)argv, .group = 1 };
	int s = 0, pidfd = -1, rc = read_time(hang_after, &s, e);

	if (rc)
		return rc;
	snprintf(seconds, sizeof(seconds), "%d", s);
	snprintf(folder, sizeof(folder), "hang-%d", (int)getpid());
	snprintf(me, sizeof(me), "%d", (int)getpid());
	rc = proc_start(&how, pid, &pidfd, e);
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}

static void end_guard(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int cmd_run_run(int argc, char **argv, struct err *e)
{
	struct hostlist l = { 0 };
	char patience[48], nics[256];
	const char **set;
	int count = 0, exported, i, rc = cmd_run_check(e);
	pid_t hangs = 0;

	(void)argc;
	if (rc)
		return rc;
	/* One for each of four options, and NULL. */
	set = calloc((size_t)exports.count + 5, sizeof(*set));
	if (!set)
		return fail(e, RINGUP_ENOMEM, "no memory for %d variables", exports.count);
	/* Options come first: -x overrides them. */
	if (is_set(start_timeout_s)) {
		snprintf(patience, sizeof(patience), "RINGUP_START_TIMEOUT_MS=%d000",
			 start_timeout_s);
		set[count++] = patience;
	}
	if (interfaces && snprintf(nics, sizeof(nics), "RINGUP_INTERFACE=%s", interfaces) > 0)
		set[count++] = nics;
	for (i = 0; i < exports.count && !rc; i++)
		rc = check_export(exports.item[i], set, &count, e);
	exported = count;
	if (!rc)
		rc = set_timeline(set, &count, e);
	if (!rc)
		rc = read_hosts(&l, e);
	if (!rc && hang_after)
		rc = start_guard(&hangs, e);
	if (!rc)
		rc = run_on(&l, argv, (char *const *)(uintptr_t)set, e);
	end_guard(hangs);
	if (timeline && count > exported)
		free((char *)(uintptr_t)set[exported]);
	hostlist_fini(&l);
	free(set);
	return rc;
}

const struct cmd cmd_run = {
	.name = "run",
	.operands = "[--] COMMAND [ARGUMENT]...",
	.summary = "start a program as the ranks of a job, on this host or several",
	.examples = "ringup run -np 4 -- python3 train.py\n"
		    "ringup run -np 2 -x NCCL_DEBUG=INFO -o logs -- ./a.out --epochs 3\n"
		    "ringup run -H node1:4,node2:4 -- python3 train.py\n"
		    "ringup run -np 4 --min-np 2 --host-discovery-script ./hosts.sh -- python3 "
		    "train.py",
	.exits = "0 all ranks succeeded, else the status of the first that failed;\n"
		 "             2 usage error, 3 not started, 124 timed out, 255 lost a host",
	.opts = opts,
	.min = 1,
	.max = -1,
	.runs = true,
	.run = cmd_run_run,
};
