/* override.h - find libraries that a framework would load and that do not fit it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_OVERRIDE_H
#define DETECT_OVERRIDE_H

#include <limits.h>
#include <stdbool.h>

struct rootfs;

enum { OVERRIDE_WHY = 1024 };

/* A library that a framework would load and that does not fit. */
struct override {
	enum override_kind {
		OVERRIDE_PATH,      /* LD_LIBRARY_PATH leads to it                     */
		OVERRIDE_OLD,       /* it lacks the symbol version @version            */
		OVERRIDE_SYMBOL,    /* it lacks one of its own symbols                 */
		OVERRIDE_UNDEFINED, /* it needs @symbol, which no library defines      */
		OVERRIDE_GONE,      /* there is none where the loader looks            */
	} kind;
	bool is_extension;      /* only the extension needs it                         */
	char why[OVERRIDE_WHY]; /* a sentence                                          */
	char version[64], symbol[256];
	char library[PATH_MAX]; /* the file that does not fit, or ""                   */
	char target[NAME_MAX + 1], link[PATH_MAX]; /* a link that is missing: ln -s; or "" */
};

/*
 * override_judge - do the libraries below the framework's folder @location fit those that they
 * load, and these the ones that they load?
 *
 * Each needed name is found once, as the loader does it for the first that needs it: by the
 * DT_RPATHs of that library and of those that led to it, by LD_LIBRARY_PATH, by its DT_RUNPATH.
 * @first is a folder that comes before all others, or "".  @extension is a library that is
 * loaded after the framework, or NULL.
 *
 * A file does not fit if it lacks a symbol version that another library needs, or a symbol that
 * the file has which the loader would take without LD_LIBRARY_PATH.  NVIDIA's libraries that
 * wheels replace do not fit if they lack one of their own symbols.  A symbol of C that a main
 * library of the framework needs has to be defined somewhere, if all needed libraries are found
 * and LD_PRELOAD adds none.  Runs nothing.
 *
 * False: one does not; @out describes the first.
 */
bool override_judge(struct rootfs *fs, const char *location, const char *first,
		    const char *extension, struct override *out);

/*
 * override_newest - set @out to the newest version with @prefix, such as "GLIBC_", that the
 * file for @name has which the library at @caller would load.
 *
 * False, and "", if no file is found, or none with such a version.
 */
bool override_newest(struct rootfs *fs, const char *caller, const char *name,
		     const char *prefix, char out[64]);

#endif
