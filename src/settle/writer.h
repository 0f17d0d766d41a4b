/* writer.h - an agent's orders to write network settings, with undo. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_WRITER_H
#define SETTLE_WRITER_H

#include <limits.h>

#include "base/batch.h"
#include "nicpick/fix.h"
#include "probe/agent.h"

struct err;

/*
 * It can write only the settings of `ringup net fix`: it chooses the files itself, and makes
 * their contents from the name of an interface and of a network.  It starts no program but
 * diff.
 *
 *	stage   interface (or null: undo), network (or null), force, pin, dry_run
 *	staged  change (see change.h); unless there are conflicts, or it is a dry run, all
 *		space is allocated, and only renames remain
 *	commit
 *	committed  change, with the libraries' choices by facts that were read anew
 *	keep
 *	kept
 *
 * A conversation that ends before "keep" leaves everything as it was.
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

/* writer_orders - the orders that an agent accepts for @w. */
struct agent_orders writer_orders(struct writer *w);

/* writer_close - end, and undo changes that were not kept; fails if that is impossible. */
int writer_close(struct writer *w, struct err *e);

#endif
