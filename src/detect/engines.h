/* engines.h - builds of a collective engine on a node: ringup's and Horovod's. */
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
 * A ringup has a library; the installed C library has no python.  A Horovod
 * has extensions {framework, library, built_for, fault}: those that exist, the
 * framework's version that its build noted, and why the loader would refuse it,
 * or null, as loads.h judges.  A fault is a problem, and so is a note that
 * differs from the framework of that Python in @found: it must be rebuilt.
 */
json_t *engines_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py,
		     const json_t *found);

#endif
