/* outfile.h - a JSON array in a file, which is whole after every write. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_OUTFILE_H
#define TRACE_OUTFILE_H

#include <stddef.h>
#include <sys/types.h>

struct err;

struct outfile {
	int fd;    /* -1: none           */
	off_t end; /* of the bracket that closes the array */
};

/* outfile_open - make the file, or empty it.  Nothing is in it before the first append. */
int outfile_open(struct outfile *f, const char *path, struct err *e);

/*
 * outfile_append - put @len bytes in front of the closing bracket, and it behind them: by one
 * system call, so that whoever ends this process between two finds a whole array.
 *
 * @text has room for one byte more.  The first text begins with the bracket that opens the
 * array, the others with a comma.  If there is no room on the disk the file is as it was
 * before.
 */
int outfile_append(struct outfile *f, char *text, size_t len, struct err *e);

/* outfile_close - safe on one that is not open. */
void outfile_close(struct outfile *f);

#endif
