/* recipe.h - what it takes to build a version of somebody else's engine: read, then decided. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_RECIPE_H
#define REBUILD_RECIPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "rebuild/textpool.h"

struct err;

/*
 * A recipe is a text file, a directive a line; what is indented belongs to the edit above.
 *
 *	name horovod                    version 0.28.1
 *	index horovod==0.28.1           what pip is asked for
 *	file horovod-0.28.1.tar.gz      sha256 HEX
 *	needs cloudpickle psutil        Python packages without which it does not run
 *	advisory ID: TEXT               has to be accepted by name
 *	bad WHEN: REASON; WAY OUT       a world in which it is not built
 *	env NAME=VALUE [when WHEN]      for the build
 *	add TO from FILE [when WHEN]    a file of ours, from beside the recipe, laid over
 *	edit NAME                       with: file, when, why, match ERE, with TEXT, times N
 *
 * WHEN is words that all have to hold: `torch>=2.1`, `!gpu`, `python`; a version is compared by
 * its numbers, and what the world does not name fulfils nothing but `!name`.  In TEXT, \1 to \9
 * are groups of the ERE, \0 is all of the match and \n ends a line; \\ is a backslash.  Blanks
 * at its ends do not count: what is indented keeps that by a group.
 */

enum { RECIPE_WORD = 64 };

struct recipe_edit {
	const char *name, *file, *when, *why, *match, *with;
	int times; /* lines that have to match, no more and no less */
};

struct recipe_line {
	const char *a,
		*b; /* env: name, value; add: to, from; advisory: id, text; bad: when, text */
	const char *when; /* or NULL */
};

struct recipe {
	struct textpool pool;
	const char *path; /* of the recipe; what is laid over lies beside it */
	const char *name, *version, *index, *file, *sha256, *needs;
	struct recipe_edit *edits;
	struct recipe_line *envs, *adds, *bads, *advisories;
	int nedits, nenvs, nadds, nbads, nadvisories;
};

/*
 * recipe_load - the recipe at @path.
 *
 * Anything that is no directive, no ERE, no path within the sources or lacks a part is refused
 * with its line.  recipe_free() in any case.
 */
int recipe_load(struct recipe *r, const char *path, struct err *e);

/* recipe_parse - the same from @len bytes of text, which @path names. */
int recipe_parse(struct recipe *r, const char *path, const char *text, size_t len,
		 struct err *e);

/* recipe_find - load that of @name at @version, "" or NULL being the newest, from where recipes
 * are installed; RINGUP_EINVAL, naming those there are, if there is none. */
int recipe_find(struct recipe *r, const char *name, const char *version, struct err *e);

void recipe_free(struct recipe *r);

/* recipe_holds - does @when hold in @world?  NULL and "" always do.  A world is names and
 * versions; the version of what is only there or not is "".  NULL is one of no names. */
bool recipe_holds(const char *when, const struct textpairs *world);

/* recipe_tell - @world has @name at @version, unless that is "" or NULL. */
void recipe_tell(struct textpool *pool, struct textpairs *world, const char *name,
		 const char *version);

/* What applies of a recipe. */
struct recipe_decision {
	struct textpairs edits;      /* names, and why                      */
	struct textpairs adds;       /* files of the sources, and from where */
	struct textpairs env;        /* variables                           */
	struct textpairs bad;        /* why not, and what instead            */
	struct textpairs advisories; /* ids, and what they say              */
};

/*
 * recipe_decide - what of @r applies in @world, which only the caller knows:
 *
 *	torch, tensorflow, keras, python, cmake, gcc, clang, openmpi: versions, of what is to
 *	be served and what serves
 *	gpu, rocm, mpi, abi0, cxx20: there or not
 *
 * All of *@out is in @pool, whose is_short tells where memory was missing.
 */
void recipe_decide(const struct recipe *r, const struct textpairs *world, struct textpool *pool,
		   struct recipe_decision *out);

/* recipe_json - {edits: [{name, why}], adds: [{to, from}], env: {NAME: value}, bad: [{why,
 * instead}], advisories: [{id, text}]}, the caller's reference. */
json_t *recipe_json(const struct recipe_decision *d);

#endif
