/* conclude.h - what follows from what was seen. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_CONCLUDE_H
#define DIAGNOSE_CONCLUDE_H

#include "diagnose/evidence.h"
#include "diagnose/nodes.h"

struct err;

/* What to tell: pointers into the evidence and the table. */
struct conclusion {
	const struct finding *finding;
	enum signature_kind kind; /* knowing whose the addresses are */
	char cause[512];
	char proof[768];
	char command[512];
	char reason[300]; /* the complaint before it that it follows from, or "" */
};

struct conclusions {
	struct conclusion *list; /* causes first */
	int n;
	const struct finding **echo; /* left out, since what they come from is there */
	int echoes;
};

/* conclude - put in order, leave echoes out, say whose addresses they are. */
int conclude(struct conclusions *c, const struct evidence *v, const struct nodes *nodes,
	     struct err *e);
void conclude_free(struct conclusions *c);

#endif
