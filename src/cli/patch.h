/* patch.h - the difference of two texts, as patch(1) takes it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PATCH_H
#define CLI_PATCH_H

struct err;

/*
 * patch_print - what turns @a into @b, on stdout, in colour where that is seen.
 *
 * A unified diff with three lines of context; nothing if they are the same.
 * @from and @to are the names in its head; a text NULL is that of no file, whose
 * name becomes /dev/null.
 */
int patch_print(const char *from, const char *a, const char *to, const char *b, struct err *e);

#endif
