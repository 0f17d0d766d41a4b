/* outcome.h - check a plan: would each library take the interface that it is given? */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_OUTCOME_H
#define NICPICK_OUTCOME_H

#include "host/snapshot.h"
#include "nicpick/fix.h"
#include "nicpick/picker.h"

struct err;

enum { OUTCOME_ROWS = 32, OUTCOME_WHY = 240 };

/* One role of one library, after the plan. */
struct outcome_row {
	const struct picker *library;
	const char *role;
	char takes[160]; /* its interfaces in its order; "" if it refuses */
	bool agrees;
	char why[OUTCOME_WHY]; /* if not: the setting that contradicts */
};

struct outcome {
	struct outcome_row row[OUTCOME_ROWS];
	int n;
	int strays; /* rows that do not agree */
};

/*
 * outcome_of - run the picker of every library that the plan has settings for.
 *
 * The machine is @s, with the plan's lines in place of the current ones.  @names are all
 * settings that any picker reads.
 */
int outcome_of(struct outcome *o, const struct fix *plan, const struct snapshot *s,
	       const char *interface, const char *const *names, struct err *e);

#endif
