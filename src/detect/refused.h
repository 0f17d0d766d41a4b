/* refused.h - find library files that the dynamic loader would refuse to map. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_REFUSED_H
#define DETECT_REFUSED_H

#include <limits.h>
#include <stdbool.h>

struct rootfs;

enum { REFUSED_WHY = 512 };

/* Why the loader refuses a file, and the path of that file, or of a folder. */
struct refused {
	enum refused_kind {
		REFUSED_NOT,
		REFUSED_DAMAGED, /* empty, truncated, or not what its ELF header says  */
		REFUSED_MACHINE, /* built for another type of processor                */
		REFUSED_STACK,   /* asks for an executable stack, under glibc 2.41     */
		REFUSED_MOUNT,   /* the folder is on a file system without exec        */
	} kind;
	char path[PATH_MAX], why[REFUSED_WHY];
};

/*
 * refused_file - would the loader map the library at @path?  Reads its headers alone.
 *
 * A file that is no ELF file at all is not judged: it may be a linker's script.  Below a root,
 * an empty file is not judged either, since a tree may record names only.
 *
 * False: it would not; @out has the reason.
 */
bool refused_file(struct rootfs *fs, const char *path, struct refused *out);

/* refused_folder - the same for all libraries in the folder @dir, and for the file system that
 * it is on.  Beside a library with contents an empty one is judged, too. */
bool refused_folder(struct rootfs *fs, const char *dir, struct refused *out);

#endif
