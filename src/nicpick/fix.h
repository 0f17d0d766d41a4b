/* fix.h - write one interface into the settings of all libraries, and take it out again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_FIX_H
#define NICPICK_FIX_H

#include <stdbool.h>

#include "nicpick/fixfile.h"

struct batch;
struct err;

enum { FIX_FILES = 8, FIX_CONFLICTS = 16, FIX_TEXT = 320, FIX_NETWORK = 64 };

/* What to settle on. */
struct fix_want {
	const char *interface; /* this node's name of it; NULL: nothing, undo */
	const char *network;   /* its CIDR, where nodes have different names for it; or NULL */
	const char *pin;       /* path of libnccl-env-ringup.so, for NCCL to load; or NULL */
	bool force;            /* comment out lines that say otherwise */
};

struct fix {
	struct fix_file file[FIX_FILES];
	int n;
	/* Lines of somebody else that say otherwise: "/etc/nccl.conf:3: ...". */
	char conflict[FIX_CONFLICTS][FIX_TEXT];
	int nconflicts;
	char pin[256]; /* as in struct fix_want, or "" */
};

/*
 * fix_plan - what would have to change below @root.
 *
 * NCCL: /etc/nccl.conf, "=NAME" (the bare name would be a prefix).  Open MPI:
 * its system-wide file, include lists only, since an exclude list replaces the
 * default one and lets the loopback in; or, where no Open MPI has a folder for
 * that file, its variables; the network instead of the name if there is one.
 * Open MPI 5's PRRTE, Gloo, Horovod, libfabric, and UCX where there is no RDMA
 * device that the name would shut out, know variables only:
 * /etc/profile.d/ringup.sh; /etc/environment, which ssh's sessions and services
 * see, where it is or there is a Databricks; and there spark-env.sh.
 *
 * With want->pin NCCL is told to load ringup's env plug-in as well, which answers the above
 * even where a variable of the environment says otherwise.
 *
 * With want->force somebody else's lines that say otherwise are commented out,
 * to come back with undo; else they are conflicts, and their files stay as they
 * are in the plan.
 *
 * Changes nothing.  Free with fix_free(), also on failure.
 */
int fix_plan(struct fix *p, const char *root, const struct fix_want *want, struct err *e);
void fix_free(struct fix *p);

/* fix_apply - make it so, all files or none. */
int fix_apply(const struct fix *p, const char *root, struct err *e);

/* fix_stage, fix_stage_back - the two halves of what fix_apply() does, for who decides in
 * between: after batch_commit() of @b the files are as planned, or as they were before. */
int fix_stage(const struct fix *p, const char *root, struct batch *b, struct err *e);
int fix_stage_back(const struct fix *p, const char *root, struct batch *b, struct err *e);

/* fix_file_of - the file of the plan that @source ("/etc/nccl.conf:3") speaks of, or NULL. */
const struct fix_file *fix_file_of(const struct fix *p, const char *source);

/*
 * fix_settings - what a process that starts after fix_apply() is told about @names.
 *
 * The variables that the plan writes come first, as a new session sets them over
 * those it inherits; then what of @now the plan does not replace; then its files.
 *
 * Ownership: @then is the caller's until netconf_free(), also on failure.
 */
int fix_settings(const struct fix *p, const struct netconf *now, const char *const *names,
		 struct netconf *then, struct err *e);

#endif
