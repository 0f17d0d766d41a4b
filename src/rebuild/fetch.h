/* fetch.h - sources of an engine: got, compared with what the recipe says, unpacked. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_FETCH_H
#define REBUILD_FETCH_H

#include <stdbool.h>

#include "rebuild/errand.h"
#include "rebuild/recipe.h"

struct fetch_how {
	const struct recipe *recipe;
	const char *source;    /* a release file or a folder; NULL: from pip's index */
	const char *python;    /* whose pip                                         */
	const char *tools;     /* for PYTHONPATH, or NULL                           */
	const char *dir;       /* whose sub-folders "src" and "got" are made        */
	const char *home;      /* a folder of who's, for what it leaves             */
	struct errand_who who; /* does all of it                                    */
	bool offline;
	int log_fd;
};

/* fetch_foresee - is there a @source to read, or, without one, a network to ask?  Looks, and
 * asks nobody. */
int fetch_foresee(const struct recipe *recipe, const char *source, bool offline, struct err *e);

/*
 * fetch_sources - fresh sources in dir/src.
 *
 * A file is taken only with the recipe's SHA-256, a folder as it is: then the edits, which have
 * to match exactly, tell whether it is what the recipe is for.  An archive is unpacked only if
 * it has nothing but files and folders below one folder, and is not absurdly large.
 *
 * Returns 0, RINGUP_EINVAL for what is not what it should be, or RINGUP_ESYSTEM.
 */
int fetch_sources(const struct fetch_how *how, struct err *e);

/* fetch_list_is_sound - is that which `tar -tv` prints harmless?  Else why not, in @e. */
int fetch_list_is_sound(const char *list, struct err *e);

#endif
