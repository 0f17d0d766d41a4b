/* style.c - style sheets from data files, in the colours of the program's palette. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/style.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "report/template.h"
#include "ringup.h"

static bool is_colour(const char *s)
{
	return s && *s == '#' && strlen(s) == 7 && strspn(s + 1, "0123456789abcdef") == 6;
}

static int colour_add(struct style_palette *p, char *line, struct err *e)
{
	char *at = line, *name = strsep(&at, "\t");
	char *light = strsep(&at, "\t"), *dark = strsep(&at, "\t");

	if (p->n == STYLE_COLOURS || !is_colour(light) || !is_colour(dark) || at)
		return fail(e, RINGUP_EINVAL, "palette.tsv: \"%.40s\" is no colour", name);
	p->colour[p->n].name = name;
	p->colour[p->n].light = light;
	p->colour[p->n++].dark = dark;
	return 0;
}

int style_load(struct style_palette *p, struct err *e)
{
	char *at, *line;
	int rc;

	p->n = 0;
	rc = template_load(&p->text, "palette.tsv", e);
	for (at = p->text; !rc && (line = strsep(&at, "\n"));)
		if (*line && *line != '#')
			rc = colour_add(p, line, e);
	return rc;
}

void style_free(struct style_palette *p)
{
	free(p->text);
	*p = (struct style_palette){ 0 };
}

static int sheet_put(FILE *out, const char *sheet, const struct style_palette *p, bool is_dark,
		     struct err *e)
{
	struct template_field fields[STYLE_COLOURS];

	for (int i = 0; i < p->n; i++)
		fields[i] = (struct template_field){ p->colour[i].name,
						     is_dark ? p->colour[i].dark
							     : p->colour[i].light };
	return template_put(out, sheet, fields, p->n, e);
}

int style_put(FILE *out, const char *sheet, struct err *e)
{
	struct style_palette p = { 0 };
	char *text = NULL, *rules;
	int rc = style_load(&p, e);

	if (!rc)
		rc = template_load(&text, sheet, e);
	/* The first line describes the file for its readers only. */
	rules = rc ? NULL : strchr(text, '\n');
	rules = rules ? rules + 1 : text;
	if (!rc)
		rc = sheet_put(out, rules, &p, false, e);
	if (!rc) {
		fputs("@media (prefers-color-scheme: dark) {\n", out);
		rc = sheet_put(out, rules, &p, true, e);
		fputs("}\n", out);
	}
	free(text);
	style_free(&p);
	return rc;
}
