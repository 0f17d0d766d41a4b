/* recipe.h - recipes for building foreign engines: parse one, decide what of it applies. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_RECIPE_H
#define REBUILD_RECIPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "rebuild/textpool.h"

struct err;

/*
 * A recipe is a text file, a directive a line; indented lines belong to the edit above.
 *
 *	name horovod                    version 0.28.1
 *	index horovod==0.28.1           the requirement for pip
 *	file horovod-0.28.1.tar.gz      sha256 HEX
 *	needs cloudpickle psutil        Python packages that it needs to run
 *	advisory ID: TEXT               has to be accepted by name
 *	bad WHEN: REASON; WAY OUT       a world in which it is not built
 *	env NAME=VALUE [when WHEN]      for the build
 *	add TO from FILE [when WHEN]    a file from beside the recipe, copied over
 *	edit NAME                       with: file, when, why, match ERE, with TEXT, times N
 *
 * WHEN is words that all have to hold: `torch>=2.1`, `!gpu`, `python`; a version is compared by
 * its numbers, and a name that the world lacks fulfils only `!name`.  In TEXT, \1 to \9 are
 * groups of the ERE, \0 is the whole match and \n ends a line; \\ is a backslash.  Blanks at
 * the ends of TEXT do not count: an edit keeps an indentation by a group.
 */

enum { RECIPE_WORD = 64 };

struct recipe_edit {
	const char *name, *file, *when, *why, *match, *with;
	int times; /* exact number of matching lines */
};

struct recipe_line {
	const char *a,
		*b; /* env: name, value; add: to, from; advisory: id, text; bad: when, text */
	const char *when; /* or NULL */
};

struct recipe {
	struct textpool pool;
	const char *path; /* of the recipe; files to add lie beside it */
	const char *name, *version, *index, *file, *sha256, *needs;
	struct recipe_edit *edits;
	struct recipe_line *envs, *adds, *bads, *advisories;
	int nedits, nenvs, nadds, nbads, nadvisories;
};

/*
 * recipe_load - parse the recipe at @path.
 *
 * An unknown directive, a wrong ERE, a path out of the sources or a missing part is refused
 * with its line.  recipe_free() in any case.
 */
int recipe_load(struct recipe *r, const char *path, struct err *e);

/* recipe_parse - the same from @len bytes of text; @path is for messages. */
int recipe_parse(struct recipe *r, const char *path, const char *text, size_t len,
		 struct err *e);

/* recipe_find - load the recipe of @name at @version, "" or NULL being the newest, from the
 * installed ones; RINGUP_EINVAL lists these if there is none. */
int recipe_find(struct recipe *r, const char *name, const char *version, struct err *e);

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
