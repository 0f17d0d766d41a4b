/* rebuild.h - rebuild an engine for the installed software: the request, and the builders. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_REBUILD_H
#define REBUILD_REBUILD_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "rebuild/reason.h"

struct buildplan;
struct cache_how;
struct err;

/* The request.  Zero-initialise, then set what you need. */
struct rebuild_how {
	const char *engine;            /* the name of a builder                          */
	const char *python;            /* NULL: the first                                */
	const char *const *frameworks; /* these only; NULL: all that Python has          */
	int framework_count;
	const char *source;          /* a release file or a folder of sources; NULL: pip's */
	const char *const *accepted; /* advisories, by names with blanks or commas between */
	int accepted_count;
	int jobs;         /* compilers at the same time; 0: as many as fit             */
	bool offline;     /* do not use the network                                    */
	bool without_mpi; /* even if there is one                                      */
	bool dry_run;     /* make only a plan                                          */
	int64_t limit_ms; /* for a build; 0: an hour                                    */
	int64_t prove_ms; /* for each proof; 0: two minutes                             */
	const struct cache_how *cache; /* NULL: none                                     */

	/* Reports progress: the current step, and @done of @of parts, or 0 of 0. */
	void (*step)(void *arg, const char *what, int done, int of);
	void *arg;
};

/* The result. */
struct rebuild_said {
	char log[PATH_MAX];  /* of the build, or ""                                 */
	char site[PATH_MAX]; /* site-packages of the new build, or ""               */
	enum reason reason;  /* a fault of the node, not this program: exit status 1 */
	char hint[200];      /* the next step, if better known than by reason       */
	bool is_from_cache;  /* nothing was compiled                                */
	json_t *proofs;      /* [{framework, way, ranks, error}], or NULL           */
	json_t *notes;       /* [text], further remarks for the user, or NULL       */
};

/*
 * One engine.  build() carries out @plan (buildplan.h): builds, verifies, proves, replaces the
 * old installation; after a failure the old one works as before.  @facts, of find_all(), go
 * into the stamp.
 */
struct builder {
	const char *name, *summary;
	/* reports obstacles that files show, so that the user learns of them at once: starts no
	 * program; no compiler has been tried for @plan */
	int (*foresee)(const struct rebuild_how *how, const json_t *facts,
		       const struct buildplan *plan, struct rebuild_said *said, struct err *e);
	/* finds further obstacles without changes, for a dry run: may start programs; compilers
	 * have been tried for @plan.  May be NULL. */
	int (*look)(const struct rebuild_how *how, const json_t *facts,
		    const struct buildplan *plan, struct rebuild_said *said, struct err *e);
	int (*build)(const struct rebuild_how *how, const json_t *facts,
		     const struct buildplan *plan, struct rebuild_said *said, struct err *e);
	/* undo the last build for the Python of @plan, which is otherwise blank; 1: there is
	 * none */
	int (*undo)(const struct rebuild_how *how, const json_t *facts,
		    const struct buildplan *plan, struct rebuild_said *said, struct err *e);
};

extern const struct builder *const builders[]; /* ends with NULL */

/* rebuild_builder - the builder of @engine, or NULL. */
const struct builder *rebuild_builder(const char *engine);

/*
 * rebuild_plan - read the node's facts to *@factsp, the caller's reference, and plan the build
 * in *@plan, for buildplan_free(); its engine is NULL if there is no plan.
 *
 * Obstacles that show without a compiler are reported before one is tried.  Losses are in
 * said->notes.
 */
int rebuild_plan(const struct rebuild_how *how, json_t **factsp, struct buildplan *plan,
		 struct rebuild_said *said, struct err *e);

/* rebuild_check - is @plan possible?  If not, refuse with its reason. */
int rebuild_check(const struct buildplan *plan, struct rebuild_said *said, struct err *e);

/* rebuild_look - for a dry run: report all obstacles that can be found. */
int rebuild_look(const struct rebuild_how *how, const json_t *facts,
		 const struct buildplan *plan, struct rebuild_said *said, struct err *e);

/* rebuild_run - install packages as root; then, as the owner of the Python, build. */
int rebuild_run(const struct rebuild_how *how, const json_t *facts,
		const struct buildplan *plan, struct rebuild_said *said, struct err *e);

/* rebuild_undo - undo the last build for how->python; 1: there is none. */
int rebuild_undo(const struct rebuild_how *how, struct rebuild_said *said, struct err *e);

/* rebuild_step - report progress to how->step, if set. */
void rebuild_step(const struct rebuild_how *how, const char *what, int done, int of);

/* rebuild_note - append a sentence to said->notes. */
void rebuild_note(struct rebuild_said *said, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* rebuild_refuse - fail() for a fault of the node, not of this program. */
int rebuild_refuse(struct rebuild_said *said, enum reason reason, struct err *e,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* rebuild_blame - note that @e is a fault of the node; @reason counts where @e shows none and
 * none is known yet; returns e->code. */
int rebuild_blame(struct rebuild_said *said, enum reason reason, const struct err *e);

/* rebuild_place - the folder for temporary files.
 * rebuild_lock - lock the folder @dir in it, in *@lock, which is set only then; refuses a
 * folder of another user, or one that another run has locked. */
const char *rebuild_place(void);
int rebuild_lock(struct rebuild_said *said, const char *dir, int *lock, struct err *e);

/* rebuild_check_space - 0, or a refusal if the disk of @path has not @need_mb MiB free; @other
 * ends its sentence. */
int rebuild_check_space(struct rebuild_said *said, const char *path, int need_mb,
			const char *other, struct err *e);

/* rebuild_may_write - 0, or a refusal if this user cannot write to the site-packages @site. */
int rebuild_may_write(struct rebuild_said *said, const char *site, struct err *e);

void rebuild_free(struct rebuild_said *said);

#endif
