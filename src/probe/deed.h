/* deed.h - what settling an interface does to the files of a node, and to its libraries. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_DEED_H
#define PROBE_DEED_H

#include <jansson.h>

#include "nicpick/fix.h"
#include "nicpick/outcome.h"

struct err;

/*
 * A plan as it is told to people, here or from another node.  Of the files it has the
 * difference only: what else is in them is nobody's business.
 */
struct deed_file {
	char path[256];
	char change[16]; /* made, changed, removed or unchanged */
	char *patch;     /* NULL if unchanged                   */
};

struct deed_row {
	const struct picker *library;
	char role[24], takes[160], why[OUTCOME_WHY]; /* see outcome.h */
	bool agrees;
};

struct deed {
	struct deed_file file[FIX_FILES];
	int nfiles;
	char conflict[FIX_CONFLICTS][FIX_TEXT];
	int nconflicts;
	struct deed_row row[OUTCOME_ROWS];
	int nrows;
};

/* deed_make - of @plan for the files below @root, and what comes of it; frees what @d was,
 * which has to be zeroed or made. */
int deed_make(struct deed *d, const struct fix *plan, const char *root, const struct outcome *o,
	      struct err *e);

int deed_changes(const struct deed *d); /* how many files are different afterwards  */
int deed_strays(const struct deed *d);  /* how many rows do not agree               */

/* deed_json - "files", "conflicts" and "libraries"; the caller's reference, or NULL. */
json_t *deed_json(const struct deed *d);

/* deed_parse - the reverse; @json may be anything, RINGUP_EINVAL if it is no deed. */
int deed_parse(struct deed *d, const json_t *json, struct err *e);

void deed_free(struct deed *d);

#endif
