/* ldlibs.h - list the shared libraries of interest that the dynamic loader would find. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_LDLIBS_H
#define DETECT_LDLIBS_H

#include <stdbool.h>
#include <stddef.h>

struct rootfs;

enum { LDLIBS_DIRS = 128 };

struct ldlibs {
	char **paths; /* by folder, in the loader's order */
	size_t count;
	char *dirs[LDLIBS_DIRS]; /* the folders, by their real paths */
	size_t dir_count;
};

/* ldlibs_load - scan the folders of ld.so.conf, the usual ones, and on the live node
 * LD_LIBRARY_PATH; only names that some part of detect asks for. */
void ldlibs_load(struct rootfs *fs, struct ldlibs *out);
void ldlibs_free(struct ldlibs *l);

/* ldlibs_next - the next path whose file is @name or @name.N; *@cursor starts at 0. */
const char *ldlibs_next(const struct ldlibs *l, const char *name, size_t *cursor);

/* ldlibs_find - set @out to the path of the file @name, of any library, in the first folder
 * that has it; false: none has. */
bool ldlibs_find(struct rootfs *fs, const struct ldlibs *l, const char *name, char *out);

/* ldlibs_version - the numbers after ".so." in the real name of @path, such as "2.21.5"; empty
 * if there are none. */
void ldlibs_version(struct rootfs *fs, const char *path, char *out, size_t cap);

#endif
