/* override.h - find libraries that a framework would load and that do not fit it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_OVERRIDE_H
#define DETECT_OVERRIDE_H

#include <limits.h>
#include <stdbool.h>

struct rootfs;

enum { OVERRIDE_WHY = 768 };

/*
 * override_judge - do the libraries that those in the folder @dir need fit them?
 *
 * A file that LD_LIBRARY_PATH leads to does not fit if it lacks a symbol or a version that the
 * library needs and that the file has which the loader would take otherwise.  NVIDIA's
 * libraries that wheels replace do not fit, wherever they are found, if they lack one of their
 * own symbols. Looks at the files of @dir whose names begin with "lib".  Runs nothing.
 *
 * False: one does not; @why is a sentence about the first, and @by_path says whether it is
 * there by LD_LIBRARY_PATH.
 */
bool override_judge(struct rootfs *fs, const char *dir, char why[OVERRIDE_WHY], bool *by_path);

/*
 * override_newest - set @out to the newest version with @prefix, such as "GLIBCXX_", that the
 * file for @name has which the library at @caller would load, and @path to that file.
 *
 * @first is a folder that comes before all others, or "".  False, and "" in both, if no file is
 * found, or none with such a version.
 */
bool override_newest(struct rootfs *fs, const char *caller, const char *first, const char *name,
		     const char *prefix, char out[64], char path[PATH_MAX]);

#endif
