/* links.h - keep which rank of a job is which process on which host. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_LINKS_H
#define DIAGNOSE_LINKS_H

#include <stdbool.h>
#include <stddef.h>

enum { LINKS = 1024, LINKS_HOST = 65 };

/* What a line says of one process. */
struct link {
	int file;
	int rank;       /* -1: not stated */
	long pid;       /* 0: not stated */
	long world;     /* ranks of its communicator, or 0 */
	bool of_report; /* by torchrun, which ends what srun started */
	char host[LINKS_HOST];
};

struct links {
	struct link list[LINKS];
	int n;
	int seen; /* links read, also those that were known: their number is bounded */
	int rank; /* of the report whose lines are read, going backwards, or -1 */
	long pid;
};

void links_reset(struct links *l);

/* links_read - take what the line says; lines come backwards within a piece of a log. */
void links_read(struct links *l, int file, const char *line, const char *end);

/* links_of_pid - the link of the process @pid on @host, or on any host if @host is empty; NULL
 * without one. */
const struct link *links_of_pid(const struct links *l, int file, const char *host, long pid);

/* links_of_rank - the link of the rank in the communicator of most ranks; NULL without one. */
const struct link *links_of_rank(const struct links *l, int file, int rank);

/* links_reported - what torchrun's report says of @host, or of any host if it is NULL. */
const struct link *links_reported(const struct links *l, int file, const char *host);

/* links_pid - the process that a message names: "[node7:4711:", "Killed process 4711",
 * "PID 4711"; 0 without one.  @host, of LINKS_HOST bytes: its host, or "". */
long links_pid(const char *text, char *host);

#endif
