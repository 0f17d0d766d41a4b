/* edit.h - a recipe's edits made to unpacked sources, exactly or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_EDIT_H
#define REBUILD_EDIT_H

#include <stddef.h>

#include "rebuild/recipe.h"

/*
 * edit_text - what @d makes of @len bytes, into *@outp for free().
 *
 * The first match in each line is replaced.  Lines that match have to be as many as the
 * recipe says: else the sources are not those that it knows, and nothing is returned.
 */
int edit_text(const struct recipe_edit *d, const char *text, size_t len, char **outp,
	      struct err *e);

/* edit_apply - make all edits and lay over all files of @decided in the sources below @dir. */
int edit_apply(const struct recipe *r, const struct recipe_decision *decided, const char *dir,
	       struct err *e);

#endif
