/* diff.h - the difference of two texts, as diff(1) tells it and patch(1) takes it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_DIFF_H
#define SETTLE_DIFF_H

struct err;

/*
 * diff_make - what turns @a into @b, the contents of @path, into *@textp for free().
 *
 * A unified diff with three lines of context; *@textp is NULL if they are the same.  NULL is
 * the text of no file, whose name in the head becomes /dev/null.  The texts are passed in
 * memory and by descriptor: no other user sees them.
 *
 * To show a change is not worth failing for: where diff cannot be run, *@textp is a line that
 * says so.  Fails without memory only.
 */
int diff_make(char **textp, const char *path, const char *a, const char *b, struct err *e);

#endif
