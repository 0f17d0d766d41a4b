/* patch.h - the difference of two texts, as patch(1) takes it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PATCH_H
#define BASE_PATCH_H

struct err;

/*
 * patch_make - what turns @a into @b, the contents of @path, into *@textp for free().
 *
 * A unified diff with three lines of context; *@textp is NULL if they are the same.  NULL is
 * the text of no file, whose name in the head becomes /dev/null.
 */
int patch_make(char **textp, const char *path, const char *a, const char *b, struct err *e);

#endif
