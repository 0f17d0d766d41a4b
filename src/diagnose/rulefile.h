/* rulefile.h - signatures that a user writes, in files of lines "key: value". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_RULEFILE_H
#define DIAGNOSE_RULEFILE_H

#include <stddef.h>
#include <stdio.h>

#include "diagnose/signature.h"

struct err;

/*
 * A file holds rules, each of which begins with a line "rule: ID".  Empty lines and lines that
 * begin with # are ignored.  Further keys: library; kind, the kinds of signature.h in small
 * letters; flags, likewise; text, once for each; cause; fix; run; explains, the ids of findings
 * that follow from this one.  fix, run, flags and explains may be absent.
 */
struct rulefile {
	struct signature *list;
	int n;
	char **explains; /* of each; NULL: nothing */
};

/* rulefile_read - append the rules of a file; errors name the file, the line and the reason. */
int rulefile_read(struct rulefile *r, const char *path, struct err *e);

/* rulefile_use - put the rules before the built-in ones; they stay the caller's, who keeps them
 * while they are in use. */
int rulefile_use(const struct rulefile *r, struct err *e);
void rulefile_free(struct rulefile *r);

/* rulefile_check - does the signature keep what signature.h asks of its texts?  Else returns
 * the reason. */
const char *rulefile_check(const struct signature *s);

/* rulefile_print - a signature in the form of such files. */
void rulefile_print(FILE *out, const struct signature *s);

/* rulefile_stub - a text for the message @line, in which numbers are fields; "" if it holds too
 * little that is literal. */
void rulefile_stub(char *out, size_t size, const char *line);

#endif
