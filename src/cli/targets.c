/* targets.c - options that name a command's nodes and how to start agents on them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/targets.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/cmd.h"
#include "probe/sparkui.h"

enum { LIST_CAP = 1 << 20, MOST_SECONDS = INT_MAX / 1000 };

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
		return cmd_misuse(
			e, "--slurm: not in a Slurm job (SLURM_JOB_NODELIST is not set)");
	return roster_slurm(r, list, e) ? fail_in(e, "SLURM_JOB_NODELIST") : 0;
}

bool targets_are_given(const struct targets *t)
{
	return t->hostfile || t->spark || t->by_slurm;
}

int targets_find(const struct targets *t, int argc, char **argv, int least, struct roster *r,
		 struct err *e)
{
	int rc = 0;

	if (t->start_s < 0 || t->start_s > MOST_SECONDS)
		return cmd_misuse(e, "--timeout=%d: not 0 to %d seconds", t->start_s,
				  MOST_SECONDS);
	if (t->hostfile)
		rc = read_list(r, t->hostfile, roster_text, e);
	if (!rc && t->spark)
		rc = sparkui_is_url(t->spark) ? sparkui_ask(r, t->spark, e)
					      : read_list(r, t->spark, roster_spark, e);
	if (!rc && t->by_slurm)
		rc = read_slurm(r, e);
	for (int i = 0; !rc && i < argc; i++)
		rc = roster_add(r, argv[i], e);
	if (!rc && r->n < least)
		rc = cmd_misuse(
			e, "no nodes given: name %s, or use --hostfile, --slurm or --spark",
			least > 1 ? "two or more" : "one or more");
	return rc;
}

static void progress(const char *what, int done, int all)
{
	fprintf(stderr, "\r\033[K%d of %d %s", done, all, what);
	fflush(stderr);
}

void targets_end_progress(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

struct agents_how targets_agents(const struct targets *t, const struct roster *r)
{
	return (struct agents_how){
		.nodes = r,
		.start_ms = t->start_s * 1000,
		.start = { .kind = t->by_mpirun  ? STARTER_MPIRUN
				   : t->by_slurm ? STARTER_SRUN
						 : STARTER_SSH,
			   .shell = t->shell           ? t->shell
				    : *cmd_conf()->ssh ? cmd_conf()->ssh
						       : NULL,
			   .ringup = t->program },
		.progress = isatty(STDERR_FILENO) ? progress : NULL,
	};
}
