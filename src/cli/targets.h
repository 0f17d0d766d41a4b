/* targets.h - options that name a command's nodes and how to start agents on them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TARGETS_H
#define CLI_TARGETS_H

#include <stdbool.h>

#include "cli/opt.h"
#include "probe/agents.h"

struct err;

struct targets {
	const char *hostfile, *spark, *shell, *program;
	int by_slurm, by_mpirun, start_s;
};

/* Rows of a command's option table, for the struct targets @t; @limit explains --timeout. */
#define TARGETS_OPTS(t, limit)                                                               \
	{                                                                                    \
		OPT_STR, 'H',           "hostfile",                                          \
		"FILE",  &(t).hostfile, "nodes, one per line, as for mpirun"                 \
	},                                                                                   \
		{ OPT_FLAG,       0,                                                         \
		  "mpirun",       NULL,                                                      \
		  &(t).by_mpirun, "start agents with mpirun instead of ssh" },               \
		{ OPT_STR,      0,                                                           \
		  "ringup",     "PATH",                                                      \
		  &(t).program, "path of ringup on the nodes (same as here)" },              \
		{ OPT_FLAG,      0,                                                          \
		  "slurm",       NULL,                                                       \
		  &(t).by_slurm, "use the nodes of this Slurm job, through srun" },          \
		{ OPT_STR, 0,          "spark",                                              \
		  "URL",   &(t).spark, "use the hosts of the Spark job with this web UI" },  \
		{ OPT_STR,                                                                   \
		  0,                                                                         \
		  "ssh",                                                                     \
		  "COMMAND",                                                                 \
		  &(t).shell,                                                                \
		  "start agents with this command; %h is replaced by the node; without %h, " \
		  "the node is appended" },                                                  \
	{                                                                                    \
		OPT_INT, 0, "timeout", "SECONDS", &(t).start_s, limit                        \
	}

/* targets_are_given - does an option name the nodes? */
bool targets_are_given(const struct targets *t);

/* targets_find - collect the options' nodes, then @argv's; fails if they are fewer than @least,
 * or if an option's source is missing. */
int targets_find(const struct targets *t, int argc, char **argv, int least, struct roster *r,
		 struct err *e);

/* targets_agents - how to start agents on the nodes @r of targets_find(), with progress on a
 * terminal; both must outlive it. */
struct agents_how targets_agents(const struct targets *t, const struct roster *r);

/* targets_end_progress - clear the progress line, if there is one, for other output. */
void targets_end_progress(void);

#endif
