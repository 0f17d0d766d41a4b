/* engines.h - find builds of a collective engine on a node: ringup's and Horovod's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_ENGINES_H
#define DETECT_ENGINES_H

#include <jansson.h>

struct ldlibs;
struct pythons;
struct rootfs;

/*
 * engines_find - array of {name, version, python, location, library, extensions}.
 *
 * A ringup has a library; the installed C library has no python.  A Horovod has extensions
 * {framework, library, built_for, fault}: the existing ones, the framework's version that the
 * build noted, and the reason why the loader would refuse it, or null, by loads.h.  A fault is
 * a problem.  So is a note that differs from the framework of that Python in @found: the engine
 * must be rebuilt.
 */
json_t *engines_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py,
		     const json_t *found);

#endif
