/* recipe.h - the recipe for building Horovod: read it, and select the parts that apply. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_RECIPE_H
#define REBUILD_RECIPE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "rebuild/textpool.h"

struct err;

/*
 * A recipe is a JSON file that is installed with this program:
 *
 *	name, version
 *	index, file, sha256    the requirement for pip; the release, and its SHA-256
 *	needs                  modules that it needs to run, MODULE or MODULE=PACKAGE
 *	advisories             [{id, text}]: have to be accepted by name
 *	bad                    [{when, why, instead}]: worlds in which it is not built
 *	env                    [{name, value, when}]: for the build
 *	adds                   [{to, from, when}]: files from beside the recipe
 *	edits                  [{name, file, when, why, match, with, times}]
 *
 * apply.py, which lies beside it, makes the edits: @match is an expression and @with a template
 * of Python's module re, tried on each line, of which @times have to match.
 *
 * "when" is words that all have to hold: `torch>=2.1`, `!gpu`, `python`; a version is compared
 * by its numbers, and a name that the world lacks fulfils only `!name`.  Without it: always.
 */

struct recipe {
	char path[PATH_MAX]; /* of the recipe; files to add lie beside it */
	json_t *root;        /* owns the texts                            */
	const char *name, *version, *index, *file, *sha256, *needs;
};

/* recipe_parse - parse @len bytes of text; @path is for messages.  A missing text is refused;
 * tests/py/test_tables.py checks the lists.  recipe_free() in any case. */
int recipe_parse(struct recipe *r, const char *path, const char *text, size_t len,
		 struct err *e);

/* recipe_load - the same for a file; recipe_open - for the recipe that is installed. */
int recipe_load(struct recipe *r, const char *path, struct err *e);
int recipe_open(struct recipe *r, struct err *e);

void recipe_free(struct recipe *r);

/* recipe_holds - does @when hold in @world?  NULL and "" always do.  A world is names and
 * versions, "" for a name without a version; NULL has no names. */
bool recipe_holds(const char *when, const struct textpairs *world);

/* recipe_tell - add @name at @version to @world, unless @version is "" or NULL. */
void recipe_tell(struct textpool *pool, struct textpairs *world, const char *name,
		 const char *version);

/* The parts of a recipe that apply. */
struct recipe_decision {
	struct textpairs edits;      /* names, and why                      */
	struct textpairs adds;       /* files added to the sources, and their origin */
	struct textpairs env;        /* variables                           */
	struct textpairs bad;        /* reasons, and alternatives            */
	struct textpairs advisories; /* ids and texts                       */
};

/*
 * recipe_decide - the parts of @r that apply in @world, which the caller fills in:
 *
 *	torch, tensorflow, keras, python, cmake, gcc, clang, openmpi: versions, of the
 *	software to serve and the software to build with
 *	gpu, rocm, mpi, abi0, cxx20: present or absent
 *
 * *@out is in @pool, whose is_short shows that memory was missing.
 */
void recipe_decide(const struct recipe *r, const struct textpairs *world, struct textpool *pool,
		   struct recipe_decision *out);

/* recipe_json - {edits: [{name, why}], adds: [{to, from}], env: {NAME: value}, bad: [{why,
 * instead}], advisories: [{id, text}]}, the caller's reference. */
json_t *recipe_json(const struct recipe_decision *d);

#endif
