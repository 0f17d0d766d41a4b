/* loader.h - the file that the dynamic loader would take for a library's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_LOADER_H
#define DETECT_LOADER_H

#include <limits.h>
#include <stdbool.h>

struct rootfs;

/*
 * loader_find - where a library loads @name from by dlopen(), into @out.
 *
 * A name with a slash is a path.  Any other is looked for in the folders that @caller, the
 * path of the library that asks or NULL, has brought along; LD_LIBRARY_PATH, which is known
 * of the live node only; /etc/ld.so.cache; the loader's own folders.  The caller's come
 * before LD_LIBRARY_PATH if they are a DT_RPATH and behind it if they are a DT_RUNPATH.
 * What a process has loaded before, and a path of its program, is not known here.
 *
 * Returns false, and "", if there is none.
 */
bool loader_find(struct rootfs *fs, const char *caller, const char *name, char out[PATH_MAX]);

/*
 * loader_find_in - @name in one of the folders of @list, into @out; false if it is in none.
 *
 * The list is as in DT_RPATH, with any of @separators between the folders, and may be NULL.
 * @origin stands for $ORIGIN, @here for an empty folder and before one that is not absolute;
 * where it is NULL such folders are left out.
 */
bool loader_find_in(struct rootfs *fs, const char *list, const char *separators,
		    const char *origin, const char *here, const char *name, char out[PATH_MAX]);

#endif
