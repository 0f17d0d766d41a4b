/* fixfile.h - our block in a file of settings: put in, taken out, every other byte kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_FIXFILE_H
#define NICPICK_FIXFILE_H

#include <stdbool.h>

#include "host/netconf.h"

struct err;

/* How a file is read by those for whom it is; from FIX_SHELL on, its lines are variables. */
enum fix_grammar { FIX_NCCL, FIX_MCA, FIX_SHELL, FIX_ENVIRON };

/*
 * A file of settings, as it is and as it should be.
 *
 * What is ours stands between "# >>> ringup" and "# <<< ringup"; the first of
 * these lines also says what else was done to make room for it, so that taking
 * it out leaves every byte as it was found.
 */
struct fix_file {
	char path[256];
	enum fix_grammar grammar;
	char *before; /* NULL: there is no such file     */
	char *after;  /* NULL: there should not be one   */
	int folders;  /* that are made, or removed, with it */
};

/* A setting that may say nothing else than one of two values; NULL: nothing. */
struct fix_rule {
	const char *name; /* NULL ends a list */
	const char *accept[2];
};

/* What a file should say. */
struct fix_ask {
	const char *settings; /* the lines of our block; NULL: none, as before us */
	const struct fix_rule *rules;
	bool force; /* comment out lines that break a rule, to come back with undo ... */
	/* ... instead of reporting each. */
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

/* fixfile_changes - is it different afterwards? */
bool fixfile_changes(const struct fix_file *f);

/* fixfile_settings - what the file will say about @names, as netconf_read() would add it. */
int fixfile_settings(const struct fix_file *file, const char *const *names, struct netconf *c,
		     struct err *e);

/* fixfile_folders - how many folders above root + path are missing? */
int fixfile_folders(const char *root, const char *path);

#endif
