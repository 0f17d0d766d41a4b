/* discover.h - rank, size and job of this process, from the environment of any launcher. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_DISCOVER_H
#define WIRE_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { DISCOVER_KEY_BYTES = 512, DISCOVER_RANKS = 65536 };

/*
 * The launcher's environment variables. Strings point into the environment.
 *
 * local_rank and local_size are claims, good for a cross-check only: where the
 * ranks really are is found out by comparing hosts.
 */
struct discovery {
	int rank, size;
	int local_rank, local_size; /* -1: the launcher did not say                    */
	bool spans_hosts;           /* the launcher says that there are other hosts    */
	const char *source;         /* "ringup run", "Open MPI", "MPI (PMI)", "LSF",
				     * "torchrun", "Slurm", "Horovod", "none"          */
	const char *meet;           /* RINGUP_MEET, or ""                              */
	int secret_fd;              /* RINGUP_SECRET_FD, or -1                         */
	const char *secret;         /* RINGUP_SECRET, or ""                            */
	int worker;                 /* RINGUP_WORKER: the job is elastic, and rank and size
				     * are those of the start only; -1: it is not      */
	int notice_fd;              /* RINGUP_NOTICE_FD, or -1                         */
	int cause_fd;               /* RINGUP_CAUSE_FD, or -1                          */

	/* The same text on all ranks of this job, another one in any other job
	 * that is running; "" if the launcher gave nothing to make it of. */
	char key[DISCOVER_KEY_BYTES];
};

/*
 * discover - read the environment of this process.
 *
 * The order is: ringup's own variables, Horovod's, Open MPI's, LSF's, PMI's
 * (MPICH, Intel MPI, Cray), torchrun's, Slurm's; a process without a
 * launcher is rank 0 of 1.  Launchers that are found together must agree: else
 * one's variables are left over from another job.  Slurm alone may differ,
 * because it starts the other launchers.
 *
 * Returns 0 or RINGUP_EINVAL: a value that is no number, a rank without a size, a rank
 * that is not below the size, or two launchers that contradict each other.
 */
int discover(struct discovery *d, struct err *e);

/* Another process: its environment, as /proc/PID/environ has it, which ends with a NUL. */
struct discover_process {
	const char *env;
	size_t len;
	pid_t parent;
};

/* discover_other - the same for another process; strings point into its environment.  These are
 * claims that any process could have written. */
int discover_other(const struct discover_process *p, struct discovery *d, struct err *e);

/*
 * discover_launched - the place of this process in a job of ringup's launcher, even if its
 * ranks meet by a way of their own.
 *
 * Returns its number there, or -1; with the job's hash in *@job and RINGUP_CAUSE_FD in *@fd.
 */
int discover_launched(uint64_t *job, int *fd);

#endif
