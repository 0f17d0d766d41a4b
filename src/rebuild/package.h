/* package.h - ringup's Python package in a Python's site-packages: state, install, moves. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_PACKAGE_H
#define REBUILD_PACKAGE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

struct err;

/* package_site - the folder of @python in @facts that has the package or will have it: the
 * first of its site-packages.  False: @python is not in @facts. */
bool package_site(char out[PATH_MAX], const json_t *facts, const char *python);

/* package_too_old - is a Python of @version too old for the package? */
bool package_too_old(const char *version);

/*
 * package_state - "current", "stale", "missing" or "unreadable" for the package in @site, below
 * @root.
 *
 * Current: it has every file of this release's package, byte for byte.  Unreadable: this user
 * may not read it, so its release is unknown.  Reads files, runs nothing.
 */
const char *package_state(const char *root, const char *site);

/* Inputs of package_stage(). */
struct package_how {
	const char *python;  /* the program                                             */
	const char *home;    /* HOME and TMPDIR, and a place to hand files over */
	const char *library; /* libringup.so.0 to link beside the package; "": found anyway */
	int log_fd;
};

/* package_library - the library of this release in @out, or "" if the package finds it by
 * itself.  @folder is modules_folder()'s. */
void package_library(char out[PATH_MAX], const char *folder);

/* package_of_wheel - the library in @out of the wheel that this program came with, in the
 * package that pip put beside it; or "". */
void package_of_wheel(char out[PATH_MAX]);

/* package_foreign - 0, or RINGUP_EBUSY with a sentence about another Horovod that this Python
 * would import or lose.  A Horovod in @site that pip knows is no obstacle: package_moves() puts
 * it away for as long as ours is there. */
int package_foreign(const struct package_how *how, const char *site, struct err *e);

/* package_stage - write the package to the empty folder @into, with @stamp as its build.json
 * and @watch for its import; no Python sees it there yet. */
int package_stage(const struct package_how *how, const char *into, const json_t *stamp,
		  const json_t *watch, struct err *e);

/* package_moves - the moves for journal_switch() that bring the package from @from to @site;
 * the caller's reference. */
int package_moves(const char *from, const char *site, const char *prefix, json_t **moves,
		  struct err *e);

/*
 * package_watch - the files that the package compares when it is imported.
 *
 * Array of {path, size, what}: a file or folder that is gone, or has another size, shows that
 * @what ("torch 2.13.0") has changed; size -1 is not compared.  Covers what @stamp depends on
 * in @facts, of which it reads sizes.
 */
json_t *package_watch(const json_t *stamp, const json_t *facts);

#endif
