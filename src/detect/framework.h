/* framework.h - the description of a training framework, and the search for all of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_FRAMEWORK_H
#define DETECT_FRAMEWORK_H

#include <jansson.h>

#include "detect/dist.h"

struct ldlibs;
struct pythons;
struct rootfs;

/* A distribution that installs the framework, and the package in it. */
struct edition {
	const char *dist;   /* its name, normalised; conda's counts too */
	const char *folder; /* the name to import                       */
};

/* A framework as found below one Python. */
struct package {
	const struct framework *framework;
	const struct dist *dist; /* NULL: the folder is in no distribution */
	const char *site;
	const char *folder;
	char origin[PATH_MAX];   /* source of an editable install; site is then the same */
	char location[PATH_MAX]; /* site/folder */
	char version[64];        /* empty: unknown */
	struct metadata meta;    /* zeroed without a distribution */
};

enum { CUDA_TEXT = 16 };

/* A Python variable with the version, and the file below the location that assigns it. */
struct version_source {
	const char *file, *variable;
};

/* The C++ standard, such as 17, that the headers need from version @from on. */
struct standard_since {
	const char *from;
	int standard;
};

/* Everything is mandatory.  The functions neither run nor import anything. */
struct framework {
	const char *name;               /* one word                        */
	const char *title;              /* in its makers' spelling         */
	const struct edition *editions; /* the likeliest first; ends with NULLs */

	/* Libraries that show the ABI and the compiler, the cheapest and most reliable first,
	 * below the location; end with NULL. */
	const char *const *libs;

	/* Its own C++ namespaces, mangled: "3c10"; end with NULL. */
	const char *const *spaces;

	/* The latest version first; ends with NULL.  Empty: nothing to compile against, or
	 * unknown. */
	const struct standard_since *standards;

	/* The first that has a version counts; ends with NULLs. */
	const struct version_source *versions;

	/* Sets @out to the version in its own files, which an import shows; leaves it empty if
	 * they have none.  frameworks_version() uses @versions. */
	void (*version)(struct rootfs *fs, const struct package *p, char *out, size_t cap);

	/* Sets @out to the CUDA that it was built for; leaves it empty for none. */
	void (*cuda)(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT]);
};

extern const struct framework *const frameworks[]; /* ends with NULL */

/*
 * frameworks_find - every framework below every one of @py, as JSON.
 *
 * A package is the one that `import` would find: the first folder in the order of sys.path.  A
 * package behind it, or one that two distributions claim, is a problem of @fs.  So is one whose
 * files have another version than its distribution: an import shows the files' version.
 */
json_t *frameworks_find(struct rootfs *fs, const struct pythons *py, const struct ldlibs *libs);

/* frameworks_standard - the one of @standards for the version of @p; 0: unknown. */
int frameworks_standard(const struct package *p);

void frameworks_version(struct rootfs *fs, const struct package *p, char *out, size_t cap);

/* frameworks_read - @file below the location of @p, for free(); NULL if there is none. */
char *frameworks_read(struct rootfs *fs, const struct package *p, const char *file,
		      size_t *lenp);

/* frameworks_assigned - the value that @file below the location assigns to @variable, in @out;
 * empty if none. */
void frameworks_assigned(struct rootfs *fs, const struct package *p, const char *file,
			 const char *variable, char *out, size_t cap);

/* frameworks_cuda - the usual evidence, for cuda(): "+cu126" in the version, a required CUDA
 * runtime, conda's build string. */
void frameworks_cuda(const struct package *p, char out[CUDA_TEXT]);

/* frameworks_dist_cuda - "11.2" for a name that ends in -cu112 or cuda12; else "". */
void frameworks_dist_cuda(const char *name, char out[CUDA_TEXT]);

#endif
