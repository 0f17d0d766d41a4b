/* pin.h - write one interface into the settings of all libraries, and take it out again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_PIN_H
#define NICPICK_PIN_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum { PIN_FILES = 8, PIN_CONFLICTS = 16, PIN_TEXT = 320 };

/* How a file is read by those for whom it is. */
enum pin_grammar { PIN_NCCL, PIN_MCA, PIN_SHELL };

/*
 * A file of settings, as it is and as it should be.
 *
 * What is ours stands between "# >>> ringup" and "# <<< ringup"; the first of
 * these lines also says what else was done to make room for it, so that taking
 * it out leaves every byte as it was found.
 */
struct pin_file {
	char path[256];
	enum pin_grammar grammar;
	char *before; /* NULL: there is no such file     */
	char *after;  /* NULL: there should not be one   */
	int folders;  /* that are made, or removed, with it */
};

struct pin {
	struct pin_file file[PIN_FILES];
	int n;
	/* Lines of somebody else that say otherwise: "/etc/nccl.conf:3: ...". */
	char conflict[PIN_CONFLICTS][PIN_TEXT];
	int nconflicts;
};

/*
 * pin_plan - what would have to change below @root to pin @interface.
 *
 * NCCL: /etc/nccl.conf, "=NAME" (the bare name would be a prefix).  Open MPI:
 * its system-wide file, include lists only, since an exclude list replaces the
 * default one and lets the loopback in; or, where no Open MPI has a folder for
 * that file, its variables.  Gloo and Horovod know variables only:
 * /etc/profile.d/ringup.sh, and spark-env.sh where there is a Databricks.
 *
 * @interface NULL plans to undo.  With @force somebody else's lines that say
 * otherwise are commented out, to come back with undo; else they are conflicts,
 * and their files stay as they are in the plan.
 *
 * Changes nothing.  Free with pin_free(), also on failure.
 */
int pin_plan(struct pin *p, const char *root, const char *interface, bool force, struct err *e);
void pin_free(struct pin *p);

/* pin_changes - would pin_apply() change this file? */
bool pin_changes(const struct pin_file *f);

/* pin_apply - make it so, all files or none. */
int pin_apply(const struct pin *p, const char *root, struct err *e);

#endif
