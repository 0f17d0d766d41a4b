/* crew.h - start the ranks of a job on this host, watch them, end them together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_CREW_H
#define LAUNCH_CREW_H

#include <stdint.h>

struct err;

/* The job.  Zero-initialise, then set the fields that are needed. */
struct crew {
	int size;               /* ranks                                          */
	char *const *argv;      /* NULL-terminated                                */
	char *const *extra;     /* "VAR=VALUE" for all ranks; NULL-terminated     */
	const char *name;       /* in front of the job's mark; NULL or "" for "run"     */
	const char *output_dir; /* or NULL                                        */
	unsigned prefix;        /* OUTPUT_RANK and so on: in front of each line   */
	int64_t timeout_ms;     /* end the job after this; 0: never               */
	int64_t grace_ms;       /* between SIGTERM and SIGKILL                    */
};

/*
 * crew_run - run @j to its end.
 *
 * The first rank that fails, that is, ends with a status other than 0, ends
 * the job: the others have ENDING_MOURN_MS to notice and report it, then get
 * SIGTERM, then SIGKILL; one that is stopped is named, and gets SIGKILL at once.  SIGINT,
 * SIGTERM, SIGHUP and SIGQUIT are passed on; a second one kills at once.  No process of the job
 * outlives it, however it ends. SIGINT goes to all processes of a rank, as from a terminal; the
 * others to the rank itself, which knows best how to end its own children.
 *
 * Call it from the main thread of a process that has no other: the ranks die
 * with the thread that starts them.  It changes how the process treats signals.
 *
 * Returns an exit status: 0 if all ranks succeeded, that of the first that
 * failed (128 + signal if it was killed), 128 + signal if the launcher got one,
 * ENDING_TIMEOUT_STATUS; or a negative code if the job could not be started.
 */
int crew_run(const struct crew *j, struct err *e);

#endif
