/* cmd_run.c - `ringup run`: start a program as the ranks of a job on this host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "launch/crew.h"
#include "launch/rankenv.h"
#include "ringup.h"

enum { MOST_RANKS = 65536 };

static int ranks = INT_MIN, timeout_s, grace_s = 5, bare;
static const char *output_dir;
static struct opt_list exports;
static const char *timeline;
static int mark_cycles;

static const struct opt opts[] = {
	{ OPT_INT, 'n', "ranks", "N", &ranks, "how many ranks to start" },
	{ OPT_INT, 0, "np", "N", &ranks, "the same, as mpirun spells it" },
	{ OPT_LIST, 'x', "export", "VAR[=VALUE]", &exports, "set a variable for the ranks" },
	{ OPT_STR, 'o', "output-dir", "DIR", &output_dir,
	  "also write DIR/rank.N/stdout, stderr" },
	{ OPT_INT, 0, "timeout", "SECONDS", &timeout_s, "end the job after this time" },
	{ OPT_INT, 0, "grace", "SECONDS", &grace_s, "from SIGTERM to SIGKILL (5)" },
	{ OPT_FLAG, 0, "no-prefix", NULL, &bare,
	  "pass output on unchanged, without \"[RANK] \"" },
	{ OPT_STR, 0, "timeline-filename", "FILE", &timeline,
	  "record a timeline; %r in the name: one of every rank" },
	{ OPT_FLAG, 0, "timeline-mark-cycles", NULL, &mark_cycles,
	  "also mark in it where batches begin" },
	{ 0 },
};

static bool is_name(const char *var, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (var[i] != '_' && !isalpha((unsigned char)var[i]) &&
		    (i == 0 || !isdigit((unsigned char)var[i])))
			return false;
	return len > 0;
}

/* Ranks inherit the environment, so VAR alone has nothing to do here; people
 * write it all the same, because mpirun wants it. */
static int check_export(const char *var, const char **set, int *count, struct err *e)
{
	size_t len = strcspn(var, "=");
	char name[128];

	if (!is_name(var, len) || len >= sizeof(name))
		return cmd_misuse(e, "-x %.80s: not VAR or VAR=VALUE", var);
	memcpy(name, var, len);
	name[len] = 0;
	if (rankenv_is_ours(name))
		return cmd_misuse(e, "-x %s: that is for ringup run itself to say", name);
	if (var[len])
		set[(*count)++] = var;
	else if (!conf_env(name))
		log_warn("-x %s: there is no such variable to pass on", name);
	return 0;
}

/* What the options say in variables; @set has room for two more, which belong to the caller. */
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

static int check(struct err *e)
{
	if (ranks == INT_MIN)
		return cmd_misuse(e, "how many ranks? -np N says it");
	if (ranks < 1 || ranks > MOST_RANKS)
		return cmd_misuse(e, "-np %d: from 1 to %d ranks", ranks, MOST_RANKS);
	if (timeout_s < 0 || grace_s < 0)
		return cmd_misuse(e, "--%s: a time is not negative",
				  timeout_s < 0 ? "timeout" : "grace");
	if (timeline && !*timeline)
		return cmd_misuse(e, "--timeline-filename needs a file");
	if (mark_cycles && !timeline && !*cmd_conf()->timeline)
		return cmd_misuse(e, "--timeline-mark-cycles: where? --timeline-filename FILE "
				     "says it");
	if (output_dir && !*output_dir)
		return cmd_misuse(e, "--output-dir needs a directory");
	return 0;
}

static int run(int argc, char **argv, struct err *e)
{
	const char **set;
	int count = 0, exported, i, rc = check(e);
	struct crew j = {
		.size = ranks,
		.argv = argv,
		.name = cmd_conf()->job,
		.output_dir = output_dir,
		.prefix = !bare,
		.timeout_ms = timeout_s * 1000ll,
		.grace_ms = grace_s * 1000ll,
	};

	(void)argc;
	if (rc)
		return rc;
	set = calloc((size_t)exports.count + 3, sizeof(*set));
	if (!set)
		return fail(e, RINGUP_ENOMEM, "no memory for %d variables", exports.count);
	for (i = 0; i < exports.count && !rc; i++)
		rc = check_export(exports.item[i], set, &count, e);
	exported = count;
	if (!rc)
		rc = set_timeline(set, &count, e);
	j.extra = (char *const *)(uintptr_t)set;
	if (!rc)
		rc = crew_run(&j, e);
	if (timeline && count > exported)
		free((char *)(uintptr_t)set[exported]);
	free(set);
	return rc;
}

const struct cmd cmd_run = {
	.name = "run",
	.operands = "[--] COMMAND [ARGUMENT]...",
	.summary = "start a program as the ranks of a job on this host",
	.examples = "ringup run -np 4 -- python3 train.py\n"
		    "ringup run -np 2 -x NCCL_DEBUG=INFO -o logs -- ./a.out --epochs 3",
	.opts = opts,
	.min = 1,
	.max = -1,
	.runs = true,
	.run = run,
};
