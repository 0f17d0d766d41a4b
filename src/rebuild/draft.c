/* draft.c - a plan under construction: helpers that write into it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/draft.h"

#include <stdarg.h>

const char *draft_keep(struct draft *d, const char *text)
{
	return textpool_keep(&d->plan->pool, text);
}

void draft_add(struct draft *d, struct textpairs *list, const char *name, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	textpool_add(&d->plan->pool, list, name, textpool_format(&d->plan->pool, fmt, ap));
	va_end(ap);
}

void draft_cannot(struct draft *d, const char *nearest, const char *fmt, ...)
{
	va_list ap;

	if (!d->plan->possible)
		return;
	d->plan->possible = false;
	va_start(ap, fmt);
	d->plan->why_not = textpool_format(&d->plan->pool, fmt, ap);
	va_end(ap);
	d->plan->nearest = draft_keep(d, nearest);
}

void draft_differ(struct draft *d, const char *about, const char *probe, const char *table)
{
	struct buildplan *p = d->plan;
	struct buildplan_disagreement *o =
		textpool_more(&p->pool, &p->disagreements, &p->disagreement_count, sizeof(*o));

	if (o)
		*o = (struct buildplan_disagreement){ draft_keep(d, about),
						      draft_keep(d, probe),
						      draft_keep(d, table) };
}
