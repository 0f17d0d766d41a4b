/* file.h - read and replace whole files atomically, below a movable root. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/*
 * Every path a command reads or writes on the node goes through a root, so the
 * same code serves a live node ("" or "/"), a recorded one and a test's tree.
 */

/* file_path - write root + path to @out of PATH_MAX bytes; fails if too long. */
int file_path(char *out, const char *root, const char *path, struct err *e);

/*
 * file_read - the contents of a regular file, NUL-terminated for convenience.
 *
 * At most @cap bytes; a longer file is an error, not a truncation.  Read with
 * read(2), never mapped: another process may truncate it meanwhile.
 *
 * Ownership: *@datap is the caller's to free().
 * Returns 0, or RINGUP_ESYSTEM (also ENOENT), RINGUP_EINVAL (not a regular
 * file, too large), RINGUP_ENOMEM.
 */
int file_read(const char *root, const char *path, size_t cap, char **datap, size_t *lenp,
	      struct err *e);

/* file_exists - is there anything at root + path? */
bool file_exists(const char *root, const char *path);

/*
 * file_write - replace a file by @len bytes of @data, wholly or not at all.
 *
 * A sibling is written with @mode, synced and renamed over it; the folder is
 * made if need be (mode 0755) and synced.  A symbolic link at @path is not
 * followed, but replaced.  On failure nothing is left behind.
 */
int file_write(const char *root, const char *path, mode_t mode, const void *data, size_t len,
	       struct err *e);

/*
 * file_save - the same for a path that the user has named as output.
 *
 * The kind of file is kept: a symbolic link stays one, and the file that it names is
 * replaced, readable by no more users than before; a device, a FIFO or any other file that
 * is not regular is written to, as a shell's > does, which may wait for a reader.
 * If @path is this process's stdout or stderr, the data are appended.
 */
int file_save(const char *path, mode_t mode, const void *data, size_t len, struct err *e);

/* file_parents - make the folders above @full that are missing; *@made counts them unless it is
 * NULL.  file_sync_parent - sync the folder that @full is in; -1 with errno if that fails. */
int file_parents(char *full, int *made, struct err *e);
int file_sync_parent(const char *full);

/* file_put - write all of it to @fd; returns -1, with errno, if that fails. */
int file_put(int fd, const void *from, size_t len);

/*
 * file_lift - move a descriptor away from 0, 1 and 2 if it is one of them.
 *
 * In a process that has these closed the next file or socket gets such a number, and then
 * everything that is printed.  @fd may be -1; returns the descriptor, or -1 with errno.
 */
int file_lift(int fd);

/*
 * Tells a file or folder from a later one of the same name, and perhaps the same inode number:
 * numbers are used again as soon as they are free.  A rename changes neither field.
 */
struct file_identity {
	uint64_t inode;
	int64_t born_ns; /* 0: the file system has no birth times; then inode alone counts   */
};

/* file_identity - of @name in the folder @dir (or AT_FDCWD), no link followed; "": of @dir
 * itself.  False, and all zero, if there is none. */
bool file_identity(int dir, const char *name, struct file_identity *id);

/* file_is_same - do both identify the same file? */
bool file_is_same(const struct file_identity *a, const struct file_identity *b);

/* file_remove - unlink; a missing file is no error. */
int file_remove(const char *root, const char *path, struct err *e);

#endif
