/* diff.h - the unified diff of two texts, from diff(1). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_DIFF_H
#define SETTLE_DIFF_H

struct err;

/*
 * diff_make - the difference from @a to @b, the contents of @path, into *@textp for free().
 *
 * A unified diff with three lines of context; *@textp is NULL if they are equal.  NULL stands
 * for a missing file, whose name in the head becomes /dev/null.  The texts are passed in memory
 * and by descriptor: no other user sees them.
 *
 * A missing display is no reason to fail: if diff cannot be run, *@textp is a line that says
 * so.  Fails without memory only.
 */
int diff_make(char **textp, const char *path, const char *a, const char *b, struct err *e);

#endif
