/* change.h - the effect that choosing an interface has on a node's files and libraries. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTLE_CHANGE_H
#define SETTLE_CHANGE_H

#include <jansson.h>

#include "nicpick/fix.h"
#include "nicpick/outcome.h"

struct err;

/* A plan in the form that users see, of this node or another.  Of the files it has the
 * differences only: their other contents are confidential. */
struct change_file {
	char path[256];
	char change[16]; /* made, changed, removed or unchanged */
	char *patch;     /* NULL if unchanged                   */
};

struct change_row {
	const struct picker *library;
	char role[24], takes[160], why[OUTCOME_WHY]; /* see outcome.h */
	bool agrees;
};

struct change {
	struct change_file file[FIX_FILES];
	int nfiles;
	char conflict[FIX_CONFLICTS][FIX_TEXT];
	int nconflicts;
	struct change_row row[OUTCOME_ROWS];
	int nrows;
};

/* change_make - make the change of @plan for the files below @root, with its outcome; frees the
 * old contents of @d, which has to be zeroed or made. */
int change_make(struct change *d, const struct fix *plan, const char *root,
		const struct outcome *o, struct err *e);

int change_count(const struct change *d);  /* files that differ afterwards             */
int change_strays(const struct change *d); /* rows that do not agree                   */

/* change_json - "files", "conflicts" and "libraries"; the caller's reference, or NULL. */
json_t *change_json(const struct change *d);

/* change_parse - the reverse; @json is untrusted, RINGUP_EINVAL if it is no change. */
int change_parse(struct change *d, const json_t *json, struct err *e);

void change_free(struct change *d);

#endif
