/* writer.h - the side of an agent that writes settings, and takes them back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_WRITER_H
#define SETTLE_WRITER_H

#include <limits.h>

#include "base/batch.h"
#include "nicpick/fix.h"
#include "probe/agent.h"

struct err;

/*
 * It writes what `ringup net fix` writes on a node, and nothing else can be asked of it:
 * which files those are it knows by itself, and what stands in them it makes out of the name
 * of an interface and of a network.  It starts no program but diff.
 *
 *	stage   interface (or null: undo), network (or null), force, pin, dry_run
 *	staged  change (see change.h); unless there are conflicts, or it is a dry run, all
 *		that can run out has been used, and what is left are names
 *	commit
 *	committed  change, with what the libraries take now, of facts that were read anew
 *	keep
 *	kept
 *
 * A conversation that ends before the last of these words leaves everything as it was.
 */
struct writer {
	const char *root;
	enum {
		WRITER_IDLE,
		WRITER_PLANNED,
		WRITER_STAGED,
		WRITER_COMMITTED,
		WRITER_KEPT
	} state;
	struct fix_want want;
	char interface[64], network[FIX_NETWORK], pin[PATH_MAX];
	struct fix plan;
	struct batch batch;
};

/* writer_open - for the files below @root, which must outlive it.  Caller's storage. */
void writer_open(struct writer *w, const char *root);

/* writer_orders - what an agent can be told to do with @w. */
struct agent_orders writer_orders(struct writer *w);

/* writer_close - and take back what was not to be kept; fails if that cannot be done. */
int writer_close(struct writer *w, struct err *e);

#endif
