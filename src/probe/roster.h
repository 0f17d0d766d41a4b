/* roster.h - the nodes of a cluster, as users and schedulers write them down. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_ROSTER_H
#define PROBE_ROSTER_H

struct err;

enum { ROSTER_NODES = 1024, ROSTER_NAME = 256 };

/* Each name once, in the order given.  Zeroed is empty. */
struct roster {
	char (*name)[ROSTER_NAME];
	int n;
};

/* roster_add - a name that is there already is passed over.  A name consists of letters,
 * digits and .-_:%@ and does not begin with "-": it becomes a word of a command. */
int roster_add(struct roster *r, const char *name, struct err *e);

/* roster_text - a hostfile: one node a line, first word; "#" begins a comment, and what
 * stands behind the name (slots=4, :4 of MPICH) is the launcher's. */
int roster_text(struct roster *r, const char *text, struct err *e);

/* roster_slurm - a node list in Slurm's notation: "gpu[01-04,7],login". */
int roster_slurm(struct roster *r, const char *list, struct err *e);

/* roster_spark - what GET /api/v1/applications/ID/executors of a driver answers, or GET /json/
 * of a standalone master: who is active. */
int roster_spark(struct roster *r, const char *json, struct err *e);

void roster_free(struct roster *r);

#endif
