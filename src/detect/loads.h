/* loads.h - predict whether the loader would load a framework's extension into its Python. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_LOADS_H
#define DETECT_LOADS_H

#include <stdbool.h>

struct ldlibs;
struct python;
struct rootfs;

enum { LOADS_WHY = 400 };

/* An extension, and the state of its process at import. */
struct loads_case {
	struct rootfs *fs;
	const struct ldlibs *libs;
	const struct python *python;
	const char *site;          /* the folder of packages that it lies in             */
	const char *title;         /* "torch 2.6.0", the framework that it is for        */
	const char *location;      /* the framework's folder; NULL: it is not installed  */
	const char *const *spaces; /* the framework's namespaces, mangled, ending with NULL */
	int cxx11_abi;             /* the framework's; -1: unknown                       */
};

/*
 * loads_judge - can the extension at @path be loaded?  Runs nothing.
 *
 * Checks the Python in its name; its machine; the libraries that it needs, and those that these
 * need, where the loader looks (the framework's own folders first, whose libraries are loaded
 * before it); the symbol versions that it needs from them; its C++ ABI against the framework's;
 * and that each of the framework's names that it uses is defined there.
 *
 * A tree may hold less than the node did: an empty file below a root is not judged, nor are
 * libc and the like if the tree has no libc at all.
 *
 * False: it cannot, and @why is a clause such as "it needs libmpicxx.so.12, ...".
 */
bool loads_judge(const struct loads_case *c, const char *path, char why[LOADS_WHY]);

#endif
