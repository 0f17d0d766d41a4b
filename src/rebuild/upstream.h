/* upstream.h - the parts of one build of upstream's Horovod, in the order of their calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_UPSTREAM_H
#define REBUILD_UPSTREAM_H

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

#include "rebuild/buildplan.h"
#include "rebuild/cache.h"
#include "rebuild/job.h"
#include "rebuild/journal.h"
#include "rebuild/rebuild.h"
#include "rebuild/recipe.h"

enum {
	UPSTREAM_ASK_MS = 60000,
	UPSTREAM_PREPARE_MS = 600000,
	UPSTREAM_ASK_BYTES = 1 << 16,
};

/* A Python's answers; "" for a package that it lacks. */
#define UPSTREAM_TOLD(T, N, F, S) \
	UPSTREAM_FOLDERS(T, S)    \
	UPSTREAM_PACKAGES(T, S) T(S, version) T(S, full) T(S, soabi) F(S, header)
#define UPSTREAM_FOLDERS(T, S) T(S, site) T(S, scripts) T(S, prefix) T(S, include)
#define UPSTREAM_PACKAGES(T, S) \
	T(S, pip) T(S, setuptools) T(S, wheel) T(S, packaging) T(S, keras)
RECORD_STRUCT(upstream_told, UPSTREAM_TOLD);

/* State of one build. */
struct upstream {
	const struct rebuild_how *how;
	const json_t *facts;
	const struct buildplan *plan;
	struct rebuild_said *said;
	struct recipe recipe;
	struct textpool pool; /* owns the next three */
	struct recipe_decision decided;
	struct upstream_told told;
	struct textpairs
		missing; /* modules without which it does not run, and their packages */
	const char *python;
	char dir[PATH_MAX];   /* working folder */
	char out[PATH_MAX];   /* the wheels */
	char tools[PATH_MAX]; /* modules needed only for the build, or "" */
	char home[PATH_MAX];  /* HOME for proof and installation */
	char nest[PATH_MAX];  /* HOME of the builder */
	char cmake[PATH_MAX];
	struct job_user builder;
	struct journal journal;
	char key[CACHE_KEY_BYTES];
	int lock, log_fd, jobs;
	char why[200]; /* the first line of the log that names an error */
};

/* upstream_mpi - the MPI of the plan that the build is for, or NULL. */
const struct buildplan_mpi *upstream_mpi(const struct upstream *u);

/* upstream_check_advisories - is each accepted?
 * upstream_decide - set u->decided from the recipe and Python's answers; refuse a bad world. */
int upstream_check_advisories(const struct rebuild_how *how, const struct textpairs *advisories,
			      struct rebuild_said *said, struct err *e);
int upstream_decide(struct upstream *u, struct err *e);

/*
 * upstream_work - run @argv, its output in the log; a failure says @failed and why, by @reason.
 *
 * REASON_COMPILE: its output tells the progress.  REASON_NETWORK: it may use the network.
 * @env NULL: job_env(); @user NULL: as this process; @limit_ms 0: ten minutes.
 */
int upstream_work(struct upstream *u, const char *const *argv, const json_t *env,
		  const struct job_user *user, int64_t limit_ms, enum reason reason,
		  const char *failed, struct err *e);

/* upstream_ask - fill u->told and u->missing by running u->python. */
int upstream_ask(struct upstream *u, struct err *e);

/* upstream_cmake - the version of the cmake in PATH, or "". */
void upstream_cmake(char *out, size_t size);

/* upstream_foresee - refuse a build that existing files already rule out. */
int upstream_foresee(const json_t *facts, const struct buildplan *plan,
		     struct rebuild_said *said, struct err *e);

/* upstream_check - are all tools and resources of a build there?  Sets u->jobs. */
int upstream_check(struct upstream *u, struct err *e);

/* upstream_key - the cache key over all inputs of the wheel. */
void upstream_key(const struct upstream *u, char out[CACHE_KEY_BYTES]);

/* upstream_wheel - put the wheel in u->out: from the cache, by another builder, or built here.
 * upstream_needs - get wheels of packages that Horovod needs and Python lacks. */
int upstream_wheel(struct upstream *u, struct err *e);
int upstream_needs(struct upstream *u, struct err *e);

/*
 * upstream_stage - install the wheels below @prefix, on the file system of their final place.
 * upstream_stamp - write the stamp as one of the package's files in @site, known to pip.
 * upstream_verify - import it in a new Python, from @site or, if NULL, from its final place.
 * upstream_prove - two ranks train, with the package in @site.
 * upstream_replace - replace the old installation by the contents of @prefix and @site.
 */
int upstream_stage(struct upstream *u, char prefix[PATH_MAX], char site[PATH_MAX],
		   struct err *e);
int upstream_stamp(struct upstream *u, const char *site, struct err *e);
int upstream_verify(struct upstream *u, const char *site, struct err *e);
int upstream_prove(struct upstream *u, const char *site, struct err *e);
int upstream_replace(struct upstream *u, const char *prefix, const char *site, struct err *e);

#endif
