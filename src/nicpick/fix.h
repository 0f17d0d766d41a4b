/* fix.h - write one interface into the settings of all libraries, and undo that. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_FIX_H
#define NICPICK_FIX_H

#include <stdbool.h>

#include "nicpick/fixfile.h"

struct batch;
struct err;

enum { FIX_FILES = 8, FIX_CONFLICTS = 16, FIX_TEXT = 320, FIX_NETWORK = 64 };

/* The interface to settle on. */
struct fix_want {
	const char *interface; /* by its name on this node; NULL: undo */
	const char *network;   /* its CIDR, where its name differs between nodes; or NULL */
	const char *pin;       /* path of libnccl-env-ringup.so, for NCCL to load; or NULL */
	bool force;            /* comment out lines that contradict */
};

struct fix {
	struct fix_file file[FIX_FILES];
	int n;
	/* Foreign lines that contradict: "/etc/nccl.conf:3: ...". */
	char conflict[FIX_CONFLICTS][FIX_TEXT];
	int nconflicts;
	char pin[256]; /* as in struct fix_want, or "" */
};

/*
 * fix_plan - plan the changes of files below @root.
 *
 * NCCL: /etc/nccl.conf, "=NAME" (the bare name would be a prefix).  Open MPI: its system-wide
 * file, include lists only, since an exclude list replaces the default one and lets the
 * loopback in; or, where no Open MPI has a folder for that file, its variables; the network
 * instead of the name if there is one.  Open MPI 5's PRRTE, Gloo, Horovod, libfabric, and UCX
 * on nodes without an RDMA device, which the name would exclude, read variables only:
 * /etc/profile.d/ringup.sh; /etc/environment, which ssh sessions and services read, if it
 * exists or this is Databricks; and there spark-env.sh.
 *
 * With want->pin NCCL also loads ringup's env plug-in, which answers the above even where an
 * environment variable contradicts.
 *
 * With want->force contradicting foreign lines are commented out until undo; else they are
 * conflicts, and the plan leaves their files unchanged.
 *
 * Changes nothing.  Free with fix_free(), also on failure.
 */
int fix_plan(struct fix *p, const char *root, const struct fix_want *want, struct err *e);
void fix_free(struct fix *p);

/* fix_apply - carry out the plan, all files or none. */
int fix_apply(const struct fix *p, const char *root, struct err *e);

/* fix_stage, fix_stage_back - the two halves of fix_apply(), for a caller that decides in
 * between: after batch_commit() of @b the files are as planned, or as they were before. */
int fix_stage(const struct fix *p, const char *root, struct batch *b, struct err *e);
int fix_stage_back(const struct fix *p, const char *root, struct batch *b, struct err *e);

/* fix_file_of - the plan's file that @source ("/etc/nccl.conf:3") names, or NULL. */
const struct fix_file *fix_file_of(const struct fix *p, const char *source);

/*
 * fix_settings - the settings @names that a process started after fix_apply() has.
 *
 * The plan's variables come first, since a new session sets them over inherited ones; then the
 * rows of @now that the plan does not replace; then its files.
 *
 * Ownership: @then is the caller's until netconf_free(), also on failure.
 */
int fix_settings(const struct fix *p, const struct netconf *now, const char *const *names,
		 struct netconf *then, struct err *e);

#endif
