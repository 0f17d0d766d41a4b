/* twice.h - takes two samples of each job on this host, some seconds apart. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_TWICE_H
#define HANG_TWICE_H

#include <stdbool.h>
#include <stdint.h>

#include "hang/look.h"

struct hang_job;

enum { TWICE_HOSTS = 64, TWICE_WHY = 256 };

/* What root does who may not inspect a process. */
#define TWICE_OUTSIDE "run ringup hang outside this container, on its host"

/* A host of the job that was asked. */
struct twice_host {
	/* why: it did not answer, or has no process of the job; "": it was sampled */
	char name[ROWS_NAME], why[TWICE_WHY];
};

struct twice {
	const struct hang_job *job;
	struct look before, now;
	int64_t elapsed_ms;
	struct twice_host host[TWICE_HOSTS];
	int hosts, silent;              /* silent: how many did not answer */
	char unseen[2 * ROWS_TEXT + 2]; /* what could not be seen here, and why; "": nothing */
};

struct twice_how {
	int64_t wait_ms;
	bool no_stacks, force; /* as the options of ringup-hang(1) */
};

/* twice_look - look twice at the @n jobs of @t, whose looks are empty.  twice_hint - fill
 * unseen; what would show more becomes now.fix and now.run, if both are empty.  twice_free -
 * safe on a zeroed struct. */
void twice_look(struct twice *t, int n, const struct twice_how *how);
void twice_hint(struct twice *t, const struct twice_how *how);
void twice_free(struct twice *t);

#endif
