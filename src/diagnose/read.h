/* read.h - read the bytes of a log: a file or a stream, compressed or not. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_READ_H
#define DIAGNOSE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

/* Logs of gzip, bzip2, xz and zstd are unpacked by these programs, which hosts with such logs
 * have and keep up to date.  A log's first bytes tell its format. */
struct reader {
	const char *path; /* NULL: none */
	int fd;
	pid_t pid; /* of the unpacking program, or 0 */
	int pidfd;
	const char *program;
	int wide; /* UTF-16: 1 with the low byte first, 2 with the high byte; else 0 */
	bool is_begun, is_second;
	char letter, other; /* of a letter of UTF-16, read so far */
};

/* read_open - "-" is stdin.  read_close() in any case. */
int read_open(struct reader *r, const char *path, struct err *e);

/* read_some - read up to @room bytes; 0 at the end, negative on failure. */
ssize_t read_some(struct reader *r, char *into, size_t room, struct err *e);

/* read_end - finish reading; fails if the unpacking did. */
int read_end(struct reader *r, struct err *e);
void read_close(struct reader *r);

/* read_lines - count the line breaks in these bytes. */
long read_lines(const char *p, const char *end);

#endif
