/* folder.h - whole folders: made with what is above them, walked, removed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct err;

/* folder_make - @path and what is missing above it; one that is there is no error. */
int folder_make(const char *path, mode_t mode, struct err *e);

/* folder_is_empty - is @path a folder without entries? */
bool folder_is_empty(const char *path);

/* folder_claim - an empty folder: a new one, or one that is there and has nothing in it; what
 * somebody else has in it is not ours to remove: RINGUP_EINVAL. */
int folder_claim(const char *path, struct err *e);

/* folder_remove - @path and all below it, links as links, and nothing on other file systems;
 * none there is no error.  Also a tree that somebody else takes away meanwhile. */
int folder_remove(const char *path, struct err *e);

/*
 * folder_walk - call @see for everything below @path, in no order, but a folder before what is
 * in it; @name is relative to @path.  No link is followed.  Stops at the first code that
 * is not 0 and returns it; FOLDER_PRUNE goes on, without what is in that folder, which is
 * then not read, so that its mode does not matter either.
 */
enum { FOLDER_PRUNE = INT_MIN }; /* no code of an error */
typedef int folder_see(void *arg, const char *name, const struct stat *st, struct err *e);
int folder_walk(const char *path, folder_see *see, void *arg, struct err *e);

#endif
