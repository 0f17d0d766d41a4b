/* origin.h - extract the rank, host and time that a log line states. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_ORIGIN_H
#define DIAGNOSE_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

struct origin {
	int rank; /* -1: not stated */
	char host[65];
	int64_t time; /* the decimal number MMDDhhmmss and six places; 0: not stated */
};

/* What a launcher or a log collector puts before a process's lines. */
struct origin_mark {
	int rank;         /* -1: none */
	const char *host; /* name of a pod, a container, a host or an actor, within the line; or
			     NULL */
	size_t len;
};

/* origin_mark - the marks alone, which takes much less time than origin_read(). */
void origin_mark(struct origin_mark *m, const char *line, const char *end);

/* origin_above - the rank that is all the line before @line states, as Ray's "[Rank 3]" above
 * the error of that rank; -1 without one.  The log may be read from @start on. */
int origin_above(const char *start, const char *line);

/* origin_read - from the beginning of a line, of which @len bytes may be read. */
void origin_read(struct origin *o, const char *line, size_t len);

#endif
