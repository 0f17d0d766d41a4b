/* rebuild.h - an engine made again for what is installed: what is asked, and who does it. */
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

/* What is asked.  Zero-initialise, then set what you need. */
struct rebuild_how {
	const char *engine;            /* the name of a builder                          */
	const char *python;            /* NULL: the first                                */
	const char *const *frameworks; /* these only; NULL: all that Python has          */
	int framework_count;
	const char *source;          /* a release file or a folder of sources; NULL: pip's */
	const char *const *accepted; /* advisories, by names with blanks or commas between */
	int accepted_count;
	int jobs;         /* compilers at the same time; 0: as many as fit             */
	bool offline;     /* nothing is asked of the network                           */
	bool without_mpi; /* even if there is one                                      */
	bool dry_run;     /* only a plan is wanted                                     */
	int64_t limit_ms; /* for a build; 0: an hour                                    */
	const struct cache_how *cache; /* NULL: none                                     */

	/* What is done now, and how much of that: @done of @of, or 0 of 0. */
	void (*step)(void *arg, const char *what, int done, int of);
	void *arg;
};

/* What came of it. */
struct rebuild_said {
	char log[PATH_MAX];  /* of the build, or ""                                 */
	char site[PATH_MAX]; /* where it was installed, or ""                       */
	enum reason reason;  /* that the node has, not this program: exit status 1  */
	char hint[200];      /* what to do next, if known better than by reason     */
	bool is_from_cache;  /* nothing was compiled                                */
	json_t *proofs;      /* [{framework, way, ranks, error}], or NULL           */
	json_t *notes;       /* [text], what a person should know besides, or NULL  */
};

/*
 * One engine.  build() does what @plan (buildplan.h) says: builds, verifies, proves, replaces
 * what was there; after any failure what was there works as before.  @facts is what
 * find_all() found, for the stamp.
 */
struct builder {
	const char *name, *summary;
	/* whatever stands in the way and can be told by looking, for people to hear of it at
	 * once: starts no program; @plan is one that no compiler has been tried for */
	int (*foresee)(const struct rebuild_how *how, const json_t *facts,
		       const struct buildplan *plan, struct rebuild_said *said, struct err *e);
	/* what else can be found out without changing anything, for a dry run: programs may
	 * be started; compilers have been tried for @plan.  May be NULL. */
	int (*look)(const struct rebuild_how *how, const json_t *facts,
		    const struct buildplan *plan, struct rebuild_said *said, struct err *e);
	int (*build)(const struct rebuild_how *how, const json_t *facts,
		     const struct buildplan *plan, struct rebuild_said *said, struct err *e);
	/* take back the last build for the Python of @plan, which says nothing else; 1: there
	 * is none */
	int (*undo)(const struct rebuild_how *how, const json_t *facts,
		    const struct buildplan *plan, struct rebuild_said *said, struct err *e);
};

extern const struct builder *const builders[]; /* ends with NULL */

/* rebuild_builder - that of @engine, or NULL. */
const struct builder *rebuild_builder(const char *engine);

/*
 * rebuild_plan - what the node has, into *@factsp, the caller's reference, and what will be
 * done, into *@plan, for buildplan_free(); its engine is NULL if there is none.
 *
 * What needs no compiler to be found out, and is in the way, is told before one is tried.
 * What would be lost is in said->notes.
 */
int rebuild_plan(const struct rebuild_how *how, json_t **factsp, struct buildplan *plan,
		 struct rebuild_said *said, struct err *e);

/* rebuild_check - can it be done at all? */
int rebuild_check(const struct buildplan *plan, struct rebuild_said *said, struct err *e);

/* rebuild_look - for a dry run: whatever would be in the way, as far as it can be seen. */
int rebuild_look(const struct rebuild_how *how, const json_t *facts,
		 const struct buildplan *plan, struct rebuild_said *said, struct err *e);

/* rebuild_run - do it: packages first, as root; then, as the owner of the Python, the rest. */
int rebuild_run(const struct rebuild_how *how, const json_t *facts,
		const struct buildplan *plan, struct rebuild_said *said, struct err *e);

/* rebuild_undo - take back the last build for how->python; 1: there is none. */
int rebuild_undo(const struct rebuild_how *how, struct rebuild_said *said, struct err *e);

/* rebuild_step - tell how->step, if there is one. */
void rebuild_step(const struct rebuild_how *how, const char *what, int done, int of);

/* rebuild_note - one more for said->notes. */
void rebuild_note(struct rebuild_said *said, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* rebuild_refuse - fail() for what the node, not this program, is in the way of. */
int rebuild_refuse(struct rebuild_said *said, enum reason reason, struct err *e,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* rebuild_blame - that @e is the node's doing, by @reason where @e does not tell and none is
 * known yet; returns e->code. */
int rebuild_blame(struct rebuild_said *said, enum reason reason, const struct err *e);

/* rebuild_place - the folder for temporary files.  rebuild_lock - hold the folder @dir in it,
 * in
 * *@lock, which is set only then; a refusal if it is somebody else's, or another run's. */
const char *rebuild_place(void);
int rebuild_lock(struct rebuild_said *said, const char *dir, int *lock, struct err *e);

/* rebuild_may_write - 0, or a refusal: this user cannot write the folder of packages @site. */
int rebuild_may_write(struct rebuild_said *said, const char *site, struct err *e);

void rebuild_free(struct rebuild_said *said);

#endif
