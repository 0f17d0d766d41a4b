/* edit.h - apply a recipe's edits to unpacked sources, exactly or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_EDIT_H
#define REBUILD_EDIT_H

#include <stddef.h>

#include "rebuild/recipe.h"

/*
 * edit_text - apply @d to @len bytes of @text; *@outp is the result, for free().
 *
 * The first match in each line is replaced.  The number of matching lines has to be the
 * recipe's: otherwise the sources are not those that it is for, and the edit fails.
 */
int edit_text(const struct recipe_edit *d, const char *text, size_t len, char **outp,
	      struct err *e);

/* edit_apply - apply all edits and add all files of @decided in the sources below @dir. */
int edit_apply(const struct recipe *r, const struct recipe_decision *decided, const char *dir,
	       struct err *e);

#endif
