/* bootstrap.c - bootstrap exchange: small messages between ranks, which all fail together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bootstrap.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* The result of one rank, so that all fail together. */
struct report {
	int32_t code;
	char text[252];
};

int bootstrap_exchange(const struct bootstrap *c, const void *mine, size_t len, void *all,
		       struct err *e)
{
	if (c->size == 1) {
		memcpy(all, mine, len);
		return 0;
	}
	if (!c->exchange(c->ctx, mine, len, all))
		return 0;
	if (c->why && c->why->code)
		*e = *c->why;
	else
		fail(e, RINGUP_EPEER, "the exchange between ranks failed");
	return e->code;
}

static int fail_as_reported(const struct report *report, int rank, struct err *e)
{
	return fail(e, report->code < 0 ? report->code : RINGUP_ESYSTEM, "rank %d: %.200s",
		    rank, report->text);
}

int bootstrap_heard(const void *bytes, size_t len, int rank, struct err *e)
{
	struct report report;

	if (len != sizeof(report))
		return 0;
	memcpy(&report, bytes, sizeof(report));
	return report.code ? fail_as_reported(&report, rank, e) : 0;
}

int bootstrap_agree(const struct bootstrap *c, int rc, struct err *e)
{
	struct report mine = { 0 }, *all;
	struct err why;
	int r;

	if (c->size == 1)
		return rc;
	all = calloc((size_t)c->size, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks' reports", c->size);
	mine.code = rc;
	if (rc)
		snprintf(mine.text, sizeof(mine.text), "%.*s", (int)sizeof(mine.text) - 1,
			 e->text);
	if (bootstrap_exchange(c, &mine, sizeof(mine), all, &why)) {
		free(all);
		if (!rc)
			*e = why;
		return e->code;
	}
	for (r = 0; r < c->size && !all[r].code; r++)
		;
	if (r < c->size && r == c->rank)
		rc = all[r].code;
	else if (r < c->size)
		rc = fail_as_reported(&all[r], r, e);
	free(all);
	return rc;
}
