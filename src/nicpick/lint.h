/* lint.h - what is wrong with the network settings of a recorded machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_LINT_H
#define NICPICK_LINT_H

#include "host/snapshot.h"

struct err;

/* A note bites nobody; a warning may, on more than one host; an error does. */
enum lint_severity { LINT_NOTE, LINT_WARNING, LINT_ERROR };

struct lint_finding {
	const char *code; /* "nccl-prefix"; static, as why is */
	enum lint_severity severity;
	const char *why; /* which library does what, since when */
	char *where;     /* "/etc/nccl.conf:3", "environment", "this machine"   */
	char *setting;   /* the variable, or NULL                               */
	char *line;      /* as it is written, or NULL                           */
	char *what;
	char *fix; /* the line to write instead, or NULL where a person decides */
};

struct lint_report {
	struct lint_finding *findings; /* in the order of traps.def */
	int n;
	int bites; /* warnings and errors */
};

/*
 * lint_run - every trap that the machine @s is in.
 *
 * A function of @s alone.  Fails only without memory.
 *
 * Ownership: the contents of @r are the caller's until lint_free(), also on failure.
 */
int lint_run(struct lint_report *r, const struct snapshot *s, struct err *e);
void lint_free(struct lint_report *r);

const char *lint_severity_text(enum lint_severity s);

#endif
