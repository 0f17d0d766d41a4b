/* fixfile.h - ringup's block in a settings file: insert or remove it, keep all other bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_FIXFILE_H
#define NICPICK_FIXFILE_H

#include <stdbool.h>

#include "host/netconf.h"

struct err;

/* The syntax of a settings file.  FIX_SHELL and later are VAR=value files. */
enum fix_grammar { FIX_NCCL, FIX_MCA, FIX_SHELL, FIX_ENVIRON };

/*
 * A settings file, before and after the change.
 *
 * Our block stands between "# >>> ringup" and "# <<< ringup"; the first of these lines also
 * records the other changes that made room for it, so that removing the block restores every
 * byte.
 */
struct fix_file {
	char path[256];
	enum fix_grammar grammar;
	char *before; /* NULL: the file does not exist   */
	char *after;  /* NULL: remove the file */
	int folders;  /* created, or removed, with it */
};

/* A setting and the one or two values it may have; NULL: none. */
struct fix_rule {
	const char *name; /* NULL ends a list */
	const char *accept[2];
};

/* The wanted contents of a file. */
struct fix_ask {
	const char *settings; /* the lines of our block; NULL: no block, restore */
	const struct fix_rule *rules;
	bool force; /* comment out lines that break a rule until undo ... */
	/* ... instead of reporting each */
	void (*conflict)(void *arg, const char *path, int number, const char *line);
	void *arg;
};

/*
 * fixfile_plan - fill in before, after and folders of @file, whose path and grammar are set.
 *
 * Changes nothing.  Free with fixfile_free(), also on failure.
 */
int fixfile_plan(struct fix_file *file, const char *root, const struct fix_ask *ask,
		 struct err *e);
void fixfile_free(struct fix_file *file);

/* fixfile_changes - does the plan change the file? */
bool fixfile_changes(const struct fix_file *f);

/* fixfile_settings - add the file's future values of @names, as netconf_read() would. */
int fixfile_settings(const struct fix_file *file, const char *const *names, struct netconf *c,
		     struct err *e);

/* fixfile_folders - how many folders above root + path are missing? */
int fixfile_folders(const char *root, const char *path);

#endif
