/* fetch.h - fetch an engine's sources, check them against the recipe, and unpack them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_FETCH_H
#define REBUILD_FETCH_H

#include <stdbool.h>

#include "rebuild/job.h"
#include "rebuild/recipe.h"

struct fetch_how {
	const struct recipe *recipe;
	const char *source;   /* a release file or a folder; NULL: from pip's index */
	const char *python;   /* the Python whose pip is used                      */
	const char *tools;    /* for PYTHONPATH, or NULL                           */
	const char *dir;      /* parent of the sub-folders "src" and "got"         */
	const char *home;     /* HOME; a folder of @user's                          */
	struct job_user user; /* runs all programs                                 */
	bool offline;
	int log_fd;
};

/* fetch_foresee - can @source be read or, without one, may the network be used?  Looks at files
 * only. */
int fetch_foresee(const struct recipe *recipe, const char *source, bool offline, struct err *e);

/*
 * fetch_sources - fresh sources in dir/src.
 *
 * A file is accepted only with the recipe's SHA-256, a folder as it is: then the edits, which
 * have to match exactly, prove that it is the recipe's version.
 *
 * Returns 0, RINGUP_EINVAL for wrong sources, or RINGUP_ESYSTEM.
 */
int fetch_sources(const struct fetch_how *how, struct err *e);

#endif
