/* remote.h - inspects a job's ranks on its other hosts, through an agent on each. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_REMOTE_H
#define HANG_REMOTE_H

#include <jansson.h>
#include <stddef.h>

struct agents_how;
struct err;
struct hang_job;
struct roster;
struct twice;
struct twice_how;

/*
 * The agent is `ringup hang --agent`: it finds the job there, looks twice, as this process does
 * meanwhile, and answers once.  An agent that has not answered some seconds after the second
 * look is not waited for; its host is named.
 */
/*
 * remote_ways - which other hosts the job has, and how its launcher has reached them: writes
 * their names to @nodes and the words of a starter (starter.h) to @shell.
 *
 * They are read from /proc: the commands by which `ringup run`, mpirun or mpiexec have started
 * their daemons, or Slurm's variables of a rank.  Nothing is found if this is not the host of
 * the launcher, or if it reaches hosts in ways of which the last word is not the host.
 */
void remote_ways(const struct hang_job *j, struct roster *nodes, char *shell, size_t size);

/* remote_look - look twice at the @n jobs of @t, as twice_look() does, and meanwhile at their
 * ranks on other hosts, of which those without an answer are named.  @agents: these hosts, and
 * how to start agents there; without hosts: those that remote_ways() finds, in its way. */
void remote_look(struct twice *t, int n, const struct twice_how *how,
		 const struct agents_how *agents);

/* remote_serve - be the agent: requests from @in, answers to @out, until the end of @in. */
int remote_serve(int in, int out, struct err *e);

/* remote_take - add an answer, which may be anybody's, to the looks of @t. */
void remote_take(struct twice *t, const json_t *answer);

#endif
