/* exam.c - the list of an examination's findings, built line by line. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/exam.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/jsonio.h"

bool exam_is_live(const struct exam *x)
{
	return !*x->root;
}

void exam_add(struct exam *x, enum exam_state state, const char *fmt, ...)
{
	static const char *const states[] = { "good", "note", "bad" };
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_array_append_new(x->findings, json_pack("{ss ss so sn sn}", "section", x->section,
						     "state", states[state], "text",
						     jsonio_text(text), "why", "todo"));
	x->bad += state == EXAM_BAD;
}

void exam_why(struct exam *x, const char *why, const char *todo)
{
	size_t n = json_array_size(x->findings);
	json_t *last = n ? json_array_get(x->findings, n - 1) : NULL;

	if (!last)
		return;
	json_object_set_new(last, "why", jsonio_text(why));
	json_object_set_new(last, "todo", jsonio_text(todo));
}
