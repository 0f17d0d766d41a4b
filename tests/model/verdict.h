/* verdict.h - a test's result from an exploration; after shadow.h and tap.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_VERDICT_H
#define MODEL_VERDICT_H

#include "model/explore.h"
#include "tap.h"

/* explore_judge - run @x, and report @what: no bug in any order, or, if @bug is not NULL, one
 * whose text contains it. */
static inline struct explored explore_judge(const char *what, const struct explore *x,
					    const char *bug)
{
	struct explored got = explore_run(x, !bug);

	printf("# %s: %ld runs%s%s%s\n", what, got.runs, got.all ? ", all" : "",
	       *got.bug ? ": " : "", got.bug);
	if (bug)
		ok(*got.bug && strstr(got.bug, bug), "found: %s", what);
	else
		ok(got.all && !*got.bug, "%s: no bug in %ld runs", what, got.runs);
	return got;
}

#endif
