/* conclude.h - turn evidence into conclusions: causes first, echoes left out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_CONCLUDE_H
#define DIAGNOSE_CONCLUDE_H

#include "diagnose/evidence.h"
#include "diagnose/jobend.h"
#include "diagnose/nodes.h"

struct err;

/* One conclusion: pointers into the evidence and the table. */
struct conclusion {
	const struct finding *finding;
	enum signature_kind kind; /* adjusted by the owners of the addresses */
	char cause[512];
	char proof[768];
	char command[512];
	char reason[300]; /* the earlier complaint that it follows from, or "" */
	const struct proc_line
		*last[PROCS_LINES]; /* what the process wrote last, in its order */
	int lasts;
	bool is_overcome; /* the job went on */
};

struct conclusions {
	struct conclusion *list; /* causes first */
	int n;
	const struct finding **echo; /* left out, since their cause is in the list */
	int echoes;
	enum jobend outcome;
	struct finding untold; /* which no message tells */
};

/* conclude - sort, leave out echoes, name the owners of addresses. */
int conclude(struct conclusions *c, struct evidence *v, const struct nodes *nodes,
	     struct err *e);
void conclude_free(struct conclusions *c);

#endif
