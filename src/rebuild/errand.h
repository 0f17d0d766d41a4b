/* errand.h - a program sent to do something long, as nobody in particular, and followed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_ERRAND_H
#define REBUILD_ERRAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* Who does it; all zero: as this process. */
struct errand_who {
	uid_t uid;
	gid_t gid;
	bool changes; /* uid and gid are others than this process's        */
	bool offline; /* without a network, where that can be had          */
};

/* What is to be done.  Zero-initialise, then set what you need. */
struct errand {
	const char *const *argv; /* ends with NULL                           */
	const json_t *env;       /* {NAME: value}, all the environment; PATH, HOME and
				  * TMPDIR have to be in it                */
	const char *dir;
	struct errand_who who;
	int log_fd;       /* gets all it says; -1: nowhere                */
	int64_t limit_ms; /* then it is killed; 0: never                  */
	/* each line of what it says; may be NULL */
	void (*line)(void *arg, const char *line);
	void *arg;
};

/*
 * errand_run - do it; *@status is its exit status, 128 + signal, or -1 after the limit.
 *
 * Whatever it has started is gone when this returns, and also if this process is killed.
 */
int errand_run(const struct errand *job, int *status, struct err *e);

enum { ERRAND_MOST = 16 };

/*
 * errand_run_all - @n of them, ERRAND_MOST at most, at the same time; @status has room for all.
 *
 * Each has its own limit.  If one cannot be started, none runs on, and that is the failure.
 */
int errand_run_all(const struct errand *jobs, int n, int *status, struct err *e);

/*
 * errand_be_tidy - from now on SIGHUP, SIGINT and SIGTERM end an errand, not this process:
 * RINGUP_EABORTED, for all that follow, too, so that whoever has sent it cleans up.
 * errand_interrupted - the signal, with which to end then; or 0.
 */
void errand_be_tidy(void);
int errand_interrupted(void);

/* errand_owner - whose the Python at @python is, if this is root and it is a user's. */
struct errand_who errand_owner(const char *python);

/*
 * errand_become - if this is root and the Python at @python is a user's: be that user from now
 * on, for root neither runs other users' programs nor leaves files in their folders.
 */
int errand_become(const char *python, struct err *e);

/* errand_builder - who builds for the Python at @python: where this is root, an identity that
 * nobody else has, without a network, if that can run @python at all; else this process. */
struct errand_who errand_builder(const char *python);

/* errand_env - {PATH, HOME, TMPDIR, LC_ALL} and what else a program needs here, for @home;
 * with @net also proxies and certificates.  The caller's reference. */
json_t *errand_env(const char *home, bool net);

#endif
