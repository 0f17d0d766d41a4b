/* lint.h - find faults in the network settings of a recorded machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_LINT_H
#define NICPICK_LINT_H

#include "host/snapshot.h"

struct err;

/* A note harms no job; a warning may, on more than one host; an error does. */
enum lint_severity { LINT_NOTE, LINT_WARNING, LINT_ERROR };

struct lint_finding {
	const char *code; /* "nccl-prefix"; static, like why */
	enum lint_severity severity;
	const char *why; /* the library's behaviour, and since when */
	char *where;     /* "/etc/nccl.conf:3", "environment", "this machine"   */
	char *setting;   /* the variable, or NULL                               */
	char *line;      /* as it is written, or NULL                           */
	char *what;
	char *fix; /* the line to write instead; NULL: the user decides */
};

struct lint_report {
	struct lint_finding *findings; /* in the order of traps.def */
	int n;
	int bites; /* warnings and errors */
};

/*
 * lint_run - find every trap of traps.def on the machine @s.
 *
 * A function of @s alone.  Fails only without memory.
 *
 * Ownership: the contents of @r are the caller's until lint_free(), also on failure.
 */
int lint_run(struct lint_report *r, const struct snapshot *s, struct err *e);
void lint_free(struct lint_report *r);

const char *lint_severity_text(enum lint_severity s);

#endif
