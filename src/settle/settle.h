/* settle.h - configure one network on all nodes of a job, or on none of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_SETTLE_H
#define SETTLE_SETTLE_H

#include <stdbool.h>

#include "nicpick/common.h"
#include "probe/agents.h"
#include "probe/facts.h"
#include "settle/change.h"

struct err;

enum { SETTLE_WRITE_MS = 10000, SETTLE_WHY = 600 };

struct settle_options {
	struct agents_how agents;
	struct common_ask ask;
	bool undo, dry_run;
	bool pin;   /* tell NCCL to load libnccl-env-ringup.so */
	bool force; /* also if nodes cannot be asked, and over foreign lines */
};

struct settle_node {
	char interface[IFACE_NAME], address[IFACE_TEXT]; /* "" if none is chosen */
	char error[SETTLE_WHY];                          /* "" if all went well  */
	struct change change;
	bool asked; /* its change is known          */
	bool kept;  /* its change is permanent    */
};

struct settle {
	struct settle_node *node; /* as many as the roster has */
	int n;
	char network[COMMON_NETWORK]; /* where names differ; or "" */
	char error[SETTLE_WHY];       /* the reason why nothing was written */
	bool failed;                  /* it is a failure, and not an answer */
	struct probe_facts facts;     /* the basis of the choice   */
};

/*
 * settle_run - gather facts of all nodes, choose, and carry out fix_plan()'s plan on each.
 *
 * The nodes first report their facts and try to reach each other, as in a check.  Then agents
 * that keep their rights plan and stage; once all have, they are told to commit; and once all
 * have committed and verified, to keep it.  An agent whose conversation ends before that undoes
 * its change.
 *
 * Returns 0 if there is a result to report, success or not, or a negative code.
 *
 * Ownership: the contents of @s are the caller's until settle_free(), also on failure.
 */
int settle_run(const struct settle_options *how, struct settle *s, struct err *e);
void settle_free(struct settle *s);

#endif
