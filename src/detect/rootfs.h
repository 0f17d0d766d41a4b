/* rootfs.h - access to the files of a node, live or recorded, that collects problems. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_ROOTFS_H
#define DETECT_ROOTFS_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/*
 * A search for software meets thousands of paths, most of which do not exist and some of which
 * are broken.  Absence is silent; any other error on a file becomes an entry of @problems, and
 * the search goes on.  So these functions handle errors and return none.
 *
 * Below a root, symbolic links are resolved as in a chroot: an absolute link or a ".." of a
 * recorded or hostile tree never leads out of it.
 */
struct rootfs {
	int fd;              /* the root, or -1 for this node's own */
	char root[PATH_MAX]; /* its real path; empty for this node  */
	json_t *problems;    /* array of {path, reason}; borrowed   */
};

/* Sorted names; zeroed means none. */
struct names {
	char **at;
	size_t count;
};

/* rootfs_open - @root is NULL, "" or "/" for the live node. */
int rootfs_open(struct rootfs *t, const char *root, json_t *problems, struct err *e);
void rootfs_close(struct rootfs *t);

/* rootfs_is_live - are these the files of the running node? */
bool rootfs_is_live(const struct rootfs *t);

/* rootfs_problem - record a problem of @path, with its reason; equal entries once, and at most
 * a few hundred. */
void rootfs_problem(struct rootfs *t, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* rootfs_fd - a descriptor of the regular file at @path, or -1; *@size if not NULL. */
int rootfs_fd(struct rootfs *t, const char *path, size_t *size);

/* rootfs_read - the contents, NUL-terminated, to be freed; or NULL.  A file of more than @cap
 * bytes is a problem, found before it is read. */
char *rootfs_read(struct rootfs *t, const char *path, size_t cap, size_t *len);

/* rootfs_names - the entries of a folder that start with @prefix. */
struct names rootfs_names(struct rootfs *t, const char *path, const char *prefix);
void rootfs_names_free(struct names *n);

bool rootfs_is_dir(struct rootfs *t, const char *path);
bool rootfs_is_file(struct rootfs *t, const char *path);

/* rootfs_real - the path without symbolic links, in @out of PATH_MAX bytes; false, and a copy
 * of @path, if it leads nowhere. */
bool rootfs_real(struct rootfs *t, const char *path, char *out);

/* rootfs_join - "@dir/@name" in @out of PATH_MAX bytes; false and "" if too long. */
bool rootfs_join(char *out, const char *dir, const char *name);

#endif
