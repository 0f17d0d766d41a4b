/* framework.h - what there is to know about one training framework. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_FRAMEWORK_H
#define DETECT_FRAMEWORK_H

#include <jansson.h>

#include "detect/dist.h"

struct ldlibs;
struct pythons;
struct rootfs;

/* A distribution that brings the framework, and the package it installs. */
struct edition {
	const char *dist;   /* its name, normalised; conda's counts too */
	const char *folder; /* what is imported                         */
};

/* A framework as found below one Python. */
struct package {
	const struct framework *framework;
	const struct dist *dist; /* NULL: no distribution claims the folder */
	const char *site;
	const char *folder;
	char origin[PATH_MAX];   /* the source of an editable install, which is then site */
	char location[PATH_MAX]; /* site/folder */
	char version[64];        /* empty: not found out */
	struct metadata meta;    /* zeroed without a distribution */
};

enum { CUDA_TEXT = 16 };

/*
 * Everything is mandatory.  The functions neither run nor import anything.
 */
struct framework {
	const char *name;               /* one word                        */
	const char *title;              /* as its makers write it          */
	const struct edition *editions; /* the likeliest first; ends with NULLs */

	/* Libraries that tell the ABI and the compiler, the cheapest and most
	 * telling first, below the location; end with NULL. */
	const char *const *libs;

	/* Its own C++ namespaces, mangled: "3c10"; end with NULL. */
	const char *const *spaces;

	/* The C++ standard that its headers need, such as 17; 0: nothing to
	 * compile against, or not known for this version. */
	int (*standard)(const struct package *p);

	/* The version that its own files tell, which is what an import shows; leaves
	 * @out empty where they do not. */
	void (*version)(struct rootfs *fs, const struct package *p, char *out, size_t cap);

	/* The CUDA it was built for, in @out; leaves it empty for none. */
	void (*cuda)(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT]);
};

extern const struct framework *const frameworks[]; /* ends with NULL */

/*
 * frameworks_find - every framework below every one of @py, as JSON.
 *
 * A package is what `import` would find: the first folder in the order of
 * sys.path.  One that is hidden behind it, or claimed by two distributions, is
 * a problem of @fs.  So is one whose files are of another version than its
 * distribution says: an import shows the version of the files.
 */
json_t *frameworks_find(struct rootfs *fs, const struct pythons *py, const struct ldlibs *libs);

/* frameworks_cuda - the usual signs, for cuda(): "+cu126" in the version, a
 * required CUDA runtime, conda's build string. */
void frameworks_cuda(const struct package *p, char out[CUDA_TEXT]);

/* frameworks_dist_cuda - "11.2" for a name that ends in -cu112 or cuda12; else "". */
void frameworks_dist_cuda(const char *name, char out[CUDA_TEXT]);

#endif
