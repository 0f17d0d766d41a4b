/* draft.c - a plan in the making: what all its parts write into. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/draft.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/jsonio.h"

enum { SENTENCE = 512 };

void draft_set(json_t *o, const char *key, const char *value)
{
	json_object_set_new(o, key, *value ? jsonio_text(value) : json_null());
}

void draft_add(struct draft *d, const char *key, const char *a, const char *value,
	       const char *b, const char *fmt, ...)
{
	char sentence[SENTENCE];
	json_t *o = json_object();
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	json_object_set_new(o, a, jsonio_text(value));
	json_object_set_new(o, b, jsonio_text(sentence));
	json_array_append_new(json_object_get(d->plan, key), o);
}

void draft_cannot(struct draft *d, const char *nearest, const char *fmt, ...)
{
	char sentence[SENTENCE];
	va_list ap;

	if (!d->possible)
		return;
	d->possible = false;
	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	draft_set(d->plan, "why_not", sentence);
	draft_set(d->plan, "nearest", nearest);
}

void draft_differ(struct draft *d, const char *about, const char *probe, const char *table)
{
	json_t *o = json_object();

	draft_set(o, "about", about);
	draft_set(o, "probe", probe);
	draft_set(o, "table", table);
	json_array_append_new(json_object_get(d->plan, "disagreements"), o);
}
