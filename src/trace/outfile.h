/* outfile.h - append to a JSON array in a file, which is valid after every write. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_OUTFILE_H
#define TRACE_OUTFILE_H

#include <stddef.h>
#include <sys/types.h>

struct err;

struct outfile {
	int fd;     /* -1: none                                   */
	int source; /* a blank and a bracket to copy from; -1: none */
	off_t end;  /* the place of the closing bracket           */
	char *map;  /* a part of the file in memory, or NULL   */
	off_t map_at;
};

/* outfile_open - make the file, or empty it.  Nothing is in it before the first append. */
int outfile_open(struct outfile *f, const char *path, struct err *e);

/* outfile_reopen - open a closed @path again, to append at @f->end, where its bracket is; -1:
 * it cannot be opened. */
int outfile_reopen(struct outfile *f, const char *path);

/*
 * outfile_append - put elements in front of the closing bracket, and it behind them.
 *
 * @text has @len bytes: elements, each with ",\n" in front, which is nowhere else in it; the
 * first text begins with the bracket of the array instead.  If the disk is full, the file ends
 * with the last element that fitted.
 *
 * A process may be killed at any time, and a kill cuts a write short where a page of the file
 * ends.  So no write crosses the end of a page, and no element does that is shorter than a
 * page; the rest of a page is filled with blanks: the file is a whole array at any time.
 */
int outfile_append(struct outfile *f, const char *text, size_t len, struct err *e);

/* outfile_close - safe on one that is not open. */
void outfile_close(struct outfile *f);

#endif
