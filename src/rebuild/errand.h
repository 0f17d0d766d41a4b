/* errand.h - run long external programs: unprivileged, logged, limited, with no strays left. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_ERRAND_H
#define REBUILD_ERRAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* The user that runs it; all zero: this process's. */
struct errand_who {
	uid_t uid;
	gid_t gid;
	bool changes; /* uid and gid differ from this process's            */
	bool offline; /* no network, where the kernel allows that          */
};

/* One job.  Zero-initialise, then set what you need. */
struct errand {
	const char *const *argv; /* ends with NULL                           */
	const json_t *env;       /* {NAME: value}, the whole environment; PATH, HOME and
				  * TMPDIR are required */
	const char *dir;
	struct errand_who who;
	int log_fd;       /* gets its output; -1: none does               */
	int64_t limit_ms; /* then it is killed; 0: never                  */
	/* gets each line of its output; may be NULL */
	void (*line)(void *arg, const char *line);
	void *arg;
};

/*
 * errand_run - run @job; *@status is its exit status, 128 + signal, or -1 after the limit.
 *
 * All its descendants have ended on return; they also end if this process is killed.
 */
int errand_run(const struct errand *job, int *status, struct err *e);

enum { ERRAND_MOST = 16 };

/*
 * errand_run_all - run @n jobs, at most ERRAND_MOST, in parallel; @status has room for all.
 *
 * Each has its own limit.  If one cannot be started, all are ended, and the call fails.
 */
int errand_run_all(const struct errand *jobs, int n, int *status, struct err *e);

/*
 * errand_be_tidy - from now on SIGHUP, SIGINT and SIGTERM end an errand, not this process: it
 * and all later ones return RINGUP_EABORTED, so that their callers clean up.
 * errand_interrupted - the signal that arrived, for the caller to end by it; or 0.
 */
void errand_be_tidy(void);
int errand_interrupted(void);

/* errand_owner - the owner of @python, if this is root and the owner is another user. */
struct errand_who errand_owner(const char *python);

/* errand_become - become the owner of @python for good, if this is root and the owner is
 * another user: root neither runs other users' programs nor leaves files in their folders. */
int errand_become(const char *python, struct err *e);

/* errand_builder - the identity for builds: for root an unused one, without a network, if it
 * can run @python; else this process's. */
struct errand_who errand_builder(const char *python);

/* errand_env - {PATH, HOME, TMPDIR, LC_ALL} and other variables that programs need here, for
 * @home; with @net proxies and certificates as well.  The caller's reference. */
json_t *errand_env(const char *home, bool net);

#endif
