/* folder.h - make folders with their parents, walk trees, remove them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct err;

/* folder_make - @path and missing folders above it; an existing one is no error. */
int folder_make(const char *path, mode_t mode, struct err *e);

/* folder_is_empty - is @path a folder without entries? */
bool folder_is_empty(const char *path);

/* folder_claim - an empty folder, new or existing; RINGUP_EINVAL if there are entries in it,
 * which are never removed. */
int folder_claim(const char *path, struct err *e);

/* folder_remove - @path and all below it, links as links, and nothing on other file systems.
 * A missing tree is no error, nor one that another process removes meanwhile. */
int folder_remove(const char *path, struct err *e);

/*
 * folder_copy - copy @from and all below it to @to, which must not exist.
 *
 * Modes, times, links as links and, for root, owners are kept.  @from may be a file.  Nothing
 * is synced.  After a failure a part is left at @to.
 */
int folder_copy(const char *from, const char *to, struct err *e);

/* folder_copy_file - copy the contents of the file @from, which is no link, to the new file
 * @to. */
int folder_copy_file(const char *from, const char *to, mode_t mode, struct err *e);

/*
 * folder_walk - call @see for all entries below @path, in no order, but a folder before its
 * entries; @name is relative to @path.  No link is followed.  Stops at the first code that
 * is not 0 and returns it; FOLDER_PRUNE goes on without that folder's entries: it is
 * then not read, so that its mode does not matter.
 */
enum { FOLDER_PRUNE = INT_MIN }; /* no code of an error */
typedef int folder_see(void *arg, const char *name, const struct stat *st, struct err *e);
int folder_walk(const char *path, folder_see *see, void *arg, struct err *e);

#endif
