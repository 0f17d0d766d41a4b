/* loader.h - find the file that the dynamic loader would take for a library's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_LOADER_H
#define DETECT_LOADER_H

#include <limits.h>
#include <stdbool.h>

struct rootfs;

/*
 * loader_find - set @out to the file that dlopen() of @name would load.
 *
 * A name with a slash is a path.  Any other name is searched in the folders of @caller, the
 * path of the calling library or NULL; in LD_LIBRARY_PATH, known for the live node only; in
 * /etc/ld.so.cache; in the loader's own folders.  The caller's come before LD_LIBRARY_PATH if
 * they are a DT_RPATH and after it if they are a DT_RUNPATH.  Libraries that a process has
 * already loaded, and its program's path, are unknown here.
 *
 * Returns false, and "", if there is none.
 */
bool loader_find(struct rootfs *fs, const char *caller, const char *name, char out[PATH_MAX]);

/* loader_find_plain - the same without LD_LIBRARY_PATH. */
bool loader_find_plain(struct rootfs *fs, const char *caller, const char *name,
		       char out[PATH_MAX]);

/* loader_is_runtime - is @name a library of every program, such as libc.so.6 or libstdc++.so.6?
 * A tree without them was not recorded whole. */
bool loader_is_runtime(const char *name);

/* loader_needs - is @name in DT_NEEDED of the library at @caller? */
bool loader_needs(struct rootfs *fs, const char *caller, const char *name);

/*
 * loader_find_in - set @out to @name in one of the folders of @list; false if none has it.
 *
 * The list is as in DT_RPATH, with any of @separators between the folders, and may be NULL.
 * @origin replaces $ORIGIN; @here replaces an empty folder and precedes a relative one; if it
 * is NULL such folders are skipped.
 */
bool loader_find_in(struct rootfs *fs, const char *list, const char *separators,
		    const char *origin, const char *here, const char *name, char out[PATH_MAX]);

#endif
