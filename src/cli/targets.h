/* targets.h - the nodes that a command is about, and how to get there, as its options say. */
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

/* Rows of a command's table, for the struct targets @t. */
#define TARGETS_OPTS(t)                                                                             \
	{ OPT_STR, 'H',           "hostfile",                                                       \
	  "FILE",  &(t).hostfile, "nodes, one a line, as mpirun takes them" },                      \
		{ OPT_FLAG,       0,                                                                \
		  "mpirun",       NULL,                                                             \
		  &(t).by_mpirun, "start agents with mpirun instead of ssh" },                      \
		{ OPT_STR,      0,                                                                  \
		  "ringup",     "PATH",                                                             \
		  &(t).program, "the program on the nodes (this one's path)" },                     \
		{ OPT_FLAG,      0,                                                                 \
		  "slurm",       NULL,                                                              \
		  &(t).by_slurm, "the nodes of this Slurm job, started by srun" },                  \
		{ OPT_STR, 0,          "spark",                                                     \
		  "URL",   &(t).spark, "the hosts of the Spark job whose web interface is there" }, \
		{ OPT_STR,                                                                          \
		  0,                                                                                \
		  "ssh",                                                                            \
		  "COMMAND",                                                                        \
		  &(t).shell,                                                                       \
		  "start agents with this; %h stands for the node, which else follows" },           \
	{                                                                                           \
		OPT_INT, 0, "timeout", "SECONDS", &(t).start_s,                                     \
			"how long agents may take to start (6)"                                     \
	}

/* targets_are_given - does an option say which nodes? */
bool targets_are_given(const struct targets *t);

/* targets_find - those of the options, then @argv's; fails if they are fewer than @least, or
 * if the options ask for what there is not. */
int targets_find(const struct targets *t, int argc, char **argv, int least, struct roster *r,
		 struct err *e);

/* targets_agents - how to get to the @r of targets_find(), with progress on a terminal; both
 * must outlive it. */
struct agents_how targets_agents(const struct targets *t, const struct roster *r);

/* targets_end_progress - the line of progress, if there is one, gives way to others. */
void targets_end_progress(void);

#endif
