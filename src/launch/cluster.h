/* cluster.h - run a job on one host or several, or an elastic one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_CLUSTER_H
#define LAUNCH_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/elastic.h"
#include "launch/hostlist.h"
#include "launch/starter.h"

struct conf;
struct err;
struct parent;

/* The job.  Zero-initialise, then set the fields that are needed. */
struct cluster_options {
	int size;        /* ranks                                               */
	bool is_here;    /* on this host alone, as children of this process     */
	bool is_elastic; /* ranks may be lost and added, see elastic            */
	struct elastic_options elastic;
	const struct hostlist *hosts; /* fixed ones                                      */
	const char *script;           /* or a command that prints them; NULL: none           */
	int slots;                    /* of a host that the script prints without a number   */
	struct starter_options start; /* of daemons on other hosts                           */
	struct parent *parent;        /* has connections to daemons; NULL: none              */
	int64_t start_ms;             /* for daemons to answer                               */
	const struct conf *conf;
	char *const *argv;  /* NULL-terminated                                           */
	char *const *extra; /* "VAR=VALUE" for all ranks; NULL-terminated                */
	const char *name;   /* the job's mark begins with it; NULL or "" for "run"       */
	const char *output_dir;
	unsigned prefix;    /* of OUTPUT_*: in front of each line */
	int64_t timeout_ms; /* end the job after this; 0: never                          */
	int64_t grace_ms;   /* between SIGTERM and SIGKILL                               */
};

/*
 * cluster_run - run @j to its end.
 *
 * Each host has a rank daemon, which starts its ranks and ends with the launcher; with is_here
 * the launcher starts them itself.  In a job that is not elastic the first rank that fails,
 * that is, ends with a status other than 0, ends it, and so does a host that is lost: the
 * others have ENDING_MOURN_MS to notice and report it, then get SIGTERM, then SIGKILL; one that
 * is stopped is named, and gets SIGKILL at once.  SIGINT, SIGTERM, SIGHUP and SIGQUIT are
 * passed on; a second one kills at once.  SIGINT goes to all processes of a rank, as from a
 * terminal; the others to the rank itself, which knows best how to end its own children.  No
 * process of the job outlives it, however it ends.
 *
 * With a parent the daemons are those that it has connections to, the ranks' commands and
 * environments are the daemons' (struct rankd_task), and the job ends with the parent.
 *
 * Call it from the main thread of a process that has no other.  It changes how the process
 * treats signals.
 *
 * Returns an exit status: 0 if all ranks succeeded, that of the first that failed (128 + signal
 * if it was killed), 128 + signal if the launcher got one, ENDING_TIMEOUT_STATUS; 1 if an
 * elastic job has too few ranks or has reached its reset limit; or a negative code if the job
 * could not be started.
 */
int cluster_run(const struct cluster_options *j, struct err *e);

#endif
