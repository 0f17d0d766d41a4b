/* batch.h - a transaction on files: several are replaced together or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BATCH_H
#define BASE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

enum { BATCH_FILES = 16 };

struct batch_file {
	char *path;   /* of the file, root included, symbolic links followed */
	char *part;   /* its sibling's name: the new contents, later the old */
	int fd;       /* the new contents, before they have a name; or -1    */
	bool is_new;  /* there was no such file                              */
	bool is_gone; /* the file is to be removed                           */
	bool done;    /* the new contents are in place                       */
	int folders;  /* number made for it, or to be removed with it        */
};

/*
 * A batch in the making.  All steps that can fail for want of space, permission or
 * a folder are done when a file is staged: nothing is visible then, and even
 * SIGKILL leaves nothing.  batch_commit() only changes names, and takes them back
 * in reverse order if one fails.  Zero-initialise; call batch_end() in any case.
 */
struct batch {
	struct batch_file file[BATCH_FILES];
	int n;
};

/*
 * batch_write - stage @len bytes as the contents of root + path.
 *
 * An existing file's mode and owner are kept, a new one gets @mode, and folders
 * above it are made if need be.  A symbolic link is followed if it stays below
 * @root.
 */
int batch_write(struct batch *b, const char *root, const char *path, mode_t mode,
		const void *data, size_t len, struct err *e);

/* batch_remove - stage the removal of a file and of @folders empty ones above it. */
int batch_remove(struct batch *b, const char *root, const char *path, int folders,
		 struct err *e);

/* batch_commit - make all changes; after a failure, none is made. */
int batch_commit(struct batch *b, struct err *e);

/* batch_end - discard staged changes that are not committed; safe at any time. */
void batch_end(struct batch *b);

#endif
