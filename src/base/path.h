/* path.h - walk the folders of PATH or of a list like it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <limits.h>
#include <stdbool.h>

/*
 * path_next - copy the next folder of the colon-separated list @*listp to @dir.
 *
 * Skips empty folders and those that do not fit.  Advances @*listp, which may be NULL; returns
 * false at the end.
 */
bool path_next(const char **listp, char dir[PATH_MAX]);

/* path_program - set @out to the first regular file in PATH that is called @name and that the
 * caller may execute; false if no folder has one. */
bool path_program(const char *name, char out[PATH_MAX]);

#endif
