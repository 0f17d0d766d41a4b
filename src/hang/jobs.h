/* jobs.h - finds the jobs of this user on this host, and their ranks, in /proc. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_JOBS_H
#define HANG_JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
	JOBS_MOST = 256,
	JOBS_PROCS = 65536,
	JOBS_KEY = 512,
	JOBS_TEXT = 128,
	JOBS_ENVIRON =
		256
		<< 10, /* bytes of an environment that are read: the launcher's come early */
};

struct job_rank {
	int rank;
	pid_t pid;
	uint64_t start; /* clock ticks since boot: tells it from a later process */
	bool has_page, is_python;
	bool unreadable; /* this user may not look into it */
};

struct hang_job {
	char source[32]; /* "ringup run", "Open MPI", "torchrun"; "processes" that were named */
	char key[JOBS_KEY];
	char command[JOBS_TEXT];
	int size, here; /* size 0: unknown; here: ranks that are to be on this host, -1: unknown
			 */
	int64_t age_s;
	pid_t launcher; /* parent of the first rank */
	struct job_rank *rank;
	int ranks;
};

struct hang_jobs {
	struct hang_job *job;
	int n;
	int hidden; /* processes of this user that it may not look into */
};

/*
 * jobs_find - the jobs whose ranks this user may see.
 *
 * Ranks are told by the variables of their launchers (wire/discover.h) and by their observe
 * pages.  Of the processes that have the variables of one rank the rank itself is the one with
 * a page, or else the first that has a library for communication, or is no shell.
 * @pids: only jobs that have one of these processes, or that one of them started; a process
 * that belongs to no job counts as a rank of a job of all such.  NULL: all jobs. Ownership:
 * jobs_free().
 */
int jobs_find(struct hang_jobs *l, const pid_t *pids, int n, struct err *e);
void jobs_free(struct hang_jobs *l);

#endif
