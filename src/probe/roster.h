/* roster.h - the list of a cluster's nodes, read from hostfiles, Slurm or Spark. */
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

/* roster_add - add a name; a duplicate is ignored.  A name consists of letters, digits and
 * .-_:%@ and does not begin with "-", since it becomes a word of a command. */
int roster_add(struct roster *r, const char *name, struct err *e);

/* roster_text - add a hostfile's nodes: one a line, first word; "#" begins a comment; what
 * follows the name (slots=4, :4 of MPICH) is ignored. */
int roster_text(struct roster *r, const char *text, struct err *e);

/* roster_slurm - add a node list in Slurm's notation: "gpu[01-04,7],login". */
int roster_slurm(struct roster *r, const char *list, struct err *e);

/* roster_spark - add the active hosts of a driver's answer to GET
 * /api/v1/applications/ID/executors, or of a standalone master's to GET /json/. */
int roster_spark(struct roster *r, const char *json, struct err *e);

void roster_free(struct roster *r);

#endif
