/* job.h - run long external programs: unprivileged, logged, limited, with no processes left. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_JOB_H
#define REBUILD_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* The user that runs it; all zero: this process's. */
struct job_user {
	uid_t uid;
	gid_t gid;
	bool changes; /* uid and gid differ from this process's            */
	bool offline; /* no network, where the kernel allows that          */
};

/* One program to run.  Zero-initialise, then set what you need. */
struct job {
	const char *const *argv; /* ends with NULL                           */
	const json_t *env;       /* {NAME: value}, the whole environment; PATH, HOME and
				  * TMPDIR are required */
	const char *dir;
	struct job_user user;
	int log_fd;       /* gets its output; -1: none does               */
	int64_t limit_ms; /* then it is killed; 0: never                  */
	/* gets each line of its output; may be NULL */
	void (*line)(void *arg, const char *line);
	void *arg;
};

/*
 * job_run - run @job; *@status is its exit status, 128 + signal, or -1 after the limit.
 *
 * All its descendants have ended on return; they also end if this process is killed.
 */
int job_run(const struct job *job, int *status, struct err *e);

/* job_keep_first - as job.line: keep the first line in @arg, an array of JOB_LINE bytes that
 * begins empty. */
enum { JOB_LINE = 512 };
void job_keep_first(void *arg, const char *line);

enum { JOB_MOST = 16 };

/*
 * job_run_all - run @n jobs, at most JOB_MOST, in parallel; @status has room for all.
 *
 * Each has its own limit.  If one cannot be started, all are ended, and the call fails.
 */
int job_run_all(const struct job *jobs, int n, int *status, struct err *e);

/*
 * job_be_tidy - from now on SIGHUP, SIGINT and SIGTERM end a job, not this process: it
 * and all later ones return RINGUP_EABORTED, so that their callers clean up.
 * job_interrupted - the signal that arrived, for the caller to end by it; or 0.
 */
void job_be_tidy(void);
int job_interrupted(void);

/* job_owner - the owner of @python, if this is root and the owner is another user. */
struct job_user job_owner(const char *python);

/* job_become - become the owner of @python for good, if this is root and the owner is
 * another user: root neither runs other users' programs nor leaves files in their folders. */
int job_become(const char *python, struct err *e);

/* job_builder - the identity for builds: for root an unused one, without a network, if it
 * can run @python; else this process's. */
struct job_user job_builder(const char *python);

/* job_env - {PATH, HOME, TMPDIR, LC_ALL} and other variables that programs need here, for
 * @home; with @net proxies and certificates as well.  The caller's reference. */
json_t *job_env(const char *home, bool net);

#endif
