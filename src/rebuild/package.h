/* package.h - ringup's Python package in the site-packages of one Python. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_PACKAGE_H
#define REBUILD_PACKAGE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

struct err;

/* package_site - the folder of @python in @facts that has the package, or is to have it: the
 * first of its site-packages.  False: @facts do not know @python. */
bool package_site(char out[PATH_MAX], const json_t *facts, const char *python);

/*
 * package_state - "current", "stale", "missing" or "unreadable" for what is in @site, below
 * @root.
 *
 * Current is what holds every file of this release's package, byte for byte; unreadable is
 * what this user may not look at, which says nothing about its release.  Reads, and runs
 * nothing.
 */
const char *package_state(const char *root, const char *site);

/* What package_stage() needs to know. */
struct package_how {
	const char *python;  /* the program                                             */
	const char *home;    /* a folder for HOME and TMPDIR, and to hand files over in */
	const char *library; /* libringup.so.0 to link beside the package; "": it is found */
	int log_fd;
};

/* package_library - the library of this release in @out, or "" if the package finds it where
 * it looks anyway.  @folder is that of modules_folder(). */
void package_library(char out[PATH_MAX], const char *folder);

/* package_foreign - 0, or RINGUP_EBUSY with a sentence about another Horovod that this Python
 * would import, or would lose, and that is not one which pip knows of in @site: that goes, by
 * package_moves(), for as long as ours is there. */
int package_foreign(const struct package_how *how, const char *site, struct err *e);

/*
 * package_stage - put all of it into the empty folder @into, @stamp as its build.json and
 * @watch for its import; nobody sees it there yet.
 */
int package_stage(const struct package_how *how, const char *into, const json_t *stamp,
		  const json_t *watch, struct err *e);

/* package_moves - what journal_switch() has to do for the package staged in @from to be the
 * one in @site; the caller's reference. */
int package_moves(const char *from, const char *site, const char *prefix, json_t **moves,
		  struct err *e);

/*
 * package_watch - what the package itself looks at when it is imported.
 *
 * Array of {path, size, what}: files or folders that are gone, or of another size, when @what
 * ("torch 2.13.0") has changed; size -1 is not compared.  For what @stamp depends on in
 * @facts, of which it reads sizes.
 */
json_t *package_watch(const json_t *stamp, const json_t *facts);

#endif
