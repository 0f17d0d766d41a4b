/* upstream.h - the parts of one build of upstream's Horovod, in the order of their doing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_UPSTREAM_H
#define REBUILD_UPSTREAM_H

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

#include "rebuild/buildplan.h"
#include "rebuild/cache.h"
#include "rebuild/errand.h"
#include "rebuild/journal.h"
#include "rebuild/rebuild.h"
#include "rebuild/recipe.h"

enum {
	UPSTREAM_ASK_MS = 60000,
	UPSTREAM_PREPARE_MS = 600000,
	UPSTREAM_ASK_BYTES = 1 << 16,
};

/* What a Python says of itself; "" is a package that it has not. */
#define UPSTREAM_TOLD(T, N, F, S) \
	UPSTREAM_FOLDERS(T, S)    \
	UPSTREAM_PACKAGES(T, S) T(S, version) T(S, full) T(S, soabi) F(S, header)
#define UPSTREAM_FOLDERS(T, S) T(S, site) T(S, scripts) T(S, prefix) T(S, include)
#define UPSTREAM_PACKAGES(T, S) \
	T(S, pip) T(S, setuptools) T(S, wheel) T(S, packaging) T(S, keras)
RECORD_STRUCT(upstream_told, UPSTREAM_TOLD);

/* One build in the making. */
struct upstream {
	const struct rebuild_how *how;
	const json_t *facts;
	const struct buildplan *plan;
	struct rebuild_said *said;
	struct recipe recipe;
	struct textpool pool; /* of the three that follow */
	struct recipe_decision decided;
	struct upstream_told told;
	struct textpairs
		missing; /* modules without which it does not run, and their packages */
	const char *python;
	char dir[PATH_MAX];   /* all that is made on the way */
	char out[PATH_MAX];   /* the wheels */
	char tools[PATH_MAX]; /* what is missing for a build, or "" */
	char home[PATH_MAX];  /* of who proves and installs */
	char nest[PATH_MAX];  /* of who builds */
	char cmake[PATH_MAX];
	struct errand_who builder;
	struct journal journal;
	char key[MANIFEST_KEY_BYTES];
	int lock, log_fd, jobs;
	char why[200]; /* the first line of the log that names an error */
};

/* upstream_mpi - that of the plan's MPIs which is built for, or NULL. */
const struct buildplan_mpi *upstream_mpi(const struct upstream *u);

/* upstream_check_advisories - is each accepted?  upstream_decide - what of the recipe applies,
 * as u->decided, now that Python has told what it really has; a refusal if that is bad. */
int upstream_check_advisories(const struct rebuild_how *how, const struct textpairs *advisories,
			      struct rebuild_said *said, struct err *e);
int upstream_decide(struct upstream *u, struct err *e);

/*
 * upstream_work - run @argv, its words in the log; if it fails, @failed and why, by @reason.
 *
 * REASON_COMPILE: what it says tells how far it is.  REASON_NETWORK: it may ask the network.
 * @env NULL: what any program needs; @who NULL: as this process; @limit_ms 0: ten minutes.
 */
int upstream_work(struct upstream *u, const char *const *argv, const json_t *env,
		  const struct errand_who *who, int64_t limit_ms, enum reason reason,
		  const char *failed, struct err *e);

/* upstream_ask - u->told and u->missing, by u->python. */
int upstream_ask(struct upstream *u, struct err *e);

/* upstream_cmake - the version of the cmake in PATH, or "". */
void upstream_cmake(char *out, size_t size);

/* upstream_foresee - can it come to a build at all, by what there is to see? */
int upstream_foresee(const json_t *facts, const struct buildplan *plan,
		     struct rebuild_said *said, struct err *e);

/* upstream_check - is all there that a build takes?  Sets u->jobs. */
int upstream_check(struct upstream *u, struct err *e);

/* upstream_key - all that the wheel depends on: two that agree in it are the same. */
void upstream_key(const struct upstream *u, char out[MANIFEST_KEY_BYTES]);

/* upstream_wheel - the wheel in u->out: from the cache, or from whoever builds it now, or
 * built here.  upstream_needs - wheels of what Horovod needs and Python lacks beside it. */
int upstream_wheel(struct upstream *u, struct err *e);
int upstream_needs(struct upstream *u, struct err *e);

/*
 * upstream_stage - install the wheels below @prefix, on the file system where they will be.
 * upstream_stamp - what it was built for, as one of the files in @site: pip is to know of it.
 * upstream_verify - import it in a Python that has just started, from @site or, if NULL, from
 *	where it will be found.
 * upstream_prove - two ranks train, with what is in @site.
 * upstream_replace - what was there makes room; @prefix and @site are in its place.
 */
int upstream_stage(struct upstream *u, char prefix[PATH_MAX], char site[PATH_MAX],
		   struct err *e);
int upstream_stamp(struct upstream *u, const char *site, struct err *e);
int upstream_verify(struct upstream *u, const char *site, struct err *e);
int upstream_prove(struct upstream *u, const char *site, struct err *e);
int upstream_replace(struct upstream *u, const char *prefix, const char *site, struct err *e);

#endif
