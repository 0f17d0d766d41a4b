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

/* A variable of Python that holds the version, and the file below the location that assigns
 * it. */
struct version_source {
	const char *file, *variable;
};

/* The C++ standard, such as 17, that the headers need from version @from on. */
struct standard_since {
	const char *from;
	int standard;
};

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

	/* The latest version first; ends with NULL.  Empty: nothing to compile against, or not
	 * known. */
	const struct standard_since *standards;

	/* The first that tells a version counts; ends with NULLs. */
	const struct version_source *versions;

	/* The version that its own files tell, which is what an import shows; leaves
	 * @out empty where they do not.  frameworks_version() asks @versions. */
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

/* frameworks_standard - of @standards, for the version of @p; 0 where none is known. */
int frameworks_standard(const struct package *p);

void frameworks_version(struct rootfs *fs, const struct package *p, char *out, size_t cap);

/* frameworks_read - @file below the location of @p, for free(); NULL if there is none. */
char *frameworks_read(struct rootfs *fs, const struct package *p, const char *file,
		      size_t *lenp);

/* frameworks_assigned - what @file below the location assigns to @variable, into @out;
 * empty if nothing. */
void frameworks_assigned(struct rootfs *fs, const struct package *p, const char *file,
			 const char *variable, char *out, size_t cap);

/* frameworks_cuda - the usual signs, for cuda(): "+cu126" in the version, a
 * required CUDA runtime, conda's build string. */
void frameworks_cuda(const struct package *p, char out[CUDA_TEXT]);

/* frameworks_dist_cuda - "11.2" for a name that ends in -cu112 or cuda12; else "". */
void frameworks_dist_cuda(const char *name, char out[CUDA_TEXT]);

#endif
