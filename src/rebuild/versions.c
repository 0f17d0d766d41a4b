/* versions.c - the table of compatible versions: parser and look-up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/versions.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "base/release.h"
#include "ringup.h"

enum { TABLE_BYTES = 1 << 20, TABLE_LINES = 8192, FIELDS = 8, WORD = 64 };

static const char *const trusts[] = { "memory", "issue", "recipe", "doc", "tested" };

/* Takes the next range of "2.7,3.5-3.8" at *@s; false at the end, or where there is none. */
static bool next_range(const char **s, char *min, char *max)
{
	size_t n = strcspn(*s, ","), m;
	const char *dash;

	if (!n || n >= WORD)
		return false;
	dash = memchr(*s, '-', n);
	m = dash ? (size_t)(dash - *s) : n;
	snprintf(min, WORD, "%.*s", (int)m, *s);
	snprintf(max, WORD, "%.*s", dash ? (int)(n - m - 1) : (int)n, dash ? dash + 1 : *s);
	/* "3.9-" has no end. */
	if (dash && !*max)
		snprintf(max, WORD, "-");
	if (!*min)
		snprintf(min, WORD, "-");
	*s += n + ((*s)[n] == ',' && (*s)[n + 1]);
	return true;
}

int versions_in(const char *version, const char *ranges)
{
	char min[WORD], max[WORD];

	while (*ranges && next_range(&ranges, min, max))
		if (release_within(version, min, max))
			return 1;
	return 0;
}

/* Cuts *@at at the next tab or the end of the line; *@at is then behind it. */
static char *field(char **at)
{
	char *start = *at, *tab = strchr(start, '\t');

	if (tab)
		*tab = 0;
	*at = tab ? tab + 1 : start + strlen(start);
	return start;
}

static int read_fact(const char *name, int line, char *text, struct version_fact *f,
		     struct err *e)
{
	char *part[FIELDS], *at = text, *p;
	size_t trust = 0;
	int n;

	for (p = text, n = 1; *p; p++)
		n += *p == '\t';
	if (n != FIELDS)
		return fail(e, RINGUP_EINVAL, "%s:%d: %d fields instead of %d", name, line, n,
			    FIELDS);
	for (int i = 0; i < FIELDS; i++)
		part[i] = field(&at);
	while (trust <= VERSION_TESTED && strcmp(trusts[trust], part[5]))
		trust++;
	if (trust > VERSION_TESTED)
		return fail(e, RINGUP_EINVAL, "%s:%d: no confidence '%.40s'", name, line,
			    part[5]);
	*f = (struct version_fact){ .subject = part[0],
				    .min = part[1],
				    .max = part[2],
				    .attr = part[3],
				    .variant = part[3] + strlen(part[3]),
				    .value = part[4],
				    .trust = (enum version_trust)trust,
				    .source = part[6],
				    .note = part[7] };
	p = strchr(f->attr, '@');
	if (p) {
		*p = 0;
		f->variant = p + 1;
	}
	return 0;
}

int versions_parse(struct versions *t, const char *name, const char *text, size_t len,
		   struct err *e)
{
	char *line, *next;
	int n = 0, rc;

	memset(t, 0, sizeof(*t));
	if (len > TABLE_BYTES)
		return fail(e, RINGUP_EINVAL, "%s: more than %d bytes", name, TABLE_BYTES);
	if (memchr(text, 0, len))
		return fail(e, RINGUP_EINVAL, "%s: not a text", name);
	t->text = strndup(text, len);
	t->at = calloc(TABLE_LINES, sizeof(*t->at));
	if (!t->text || !t->at)
		return fail(e, RINGUP_ENOMEM, "%s", name);
	for (line = t->text; *line; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = 0;
		n++;
		if (!*line || *line == '#' || !strncmp(line, "subject\t", 8))
			continue;
		if (t->count == TABLE_LINES)
			return fail(e, RINGUP_EINVAL, "%s: more than %d facts", name,
				    TABLE_LINES);
		rc = read_fact(name, n, line, &t->at[t->count], e);
		if (rc)
			return rc;
		t->count++;
	}
	return 0;
}

int versions_load(struct versions *t, const char *path, struct err *e)
{
	char own[PATH_MAX];
	char *text;
	size_t len;
	int rc;

	memset(t, 0, sizeof(*t));
	rc = path ? 0 : data_find(own, "compat/versions.tsv", e);
	if (!rc)
		rc = file_read("", path ? path : own, TABLE_BYTES, &text, &len, e);
	if (rc)
		return fail_in(e, "the table of versions");
	rc = versions_parse(t, path ? path : own, text, len, e);
	free(text);
	return rc;
}

void versions_free(struct versions *t)
{
	free(t->text);
	free(t->at);
	memset(t, 0, sizeof(*t));
}

/* How well the variant of a fact fits: 0: it does not; a fact about all: 1. */
static int fit(const struct version_fact *f, const char *const *variants)
{
	int n = 0;

	if (!*f->variant)
		return 1;
	for (int i = 0; variants && variants[i]; i++)
		n++;
	for (int i = 0; i < n; i++)
		if (!strcmp(variants[i], f->variant))
			return 1 + n - i;
	return 0;
}

const struct version_fact *versions_ask(const struct versions *t, const char *subject,
					const char *version, const char *attr,
					const char *const *variants)
{
	const struct version_fact *best = NULL;
	int n, best_fit = 0;

	for (int i = 0; i < t->count; i++) {
		const struct version_fact *f = &t->at[i];

		if (strcmp(f->subject, subject) || strcmp(f->attr, attr))
			continue;
		n = fit(f, variants);
		if (!n || n < best_fit || (n == best_fit && best && f->trust <= best->trust) ||
		    !release_within(version, f->min, f->max))
			continue;
		best = f;
		best_fit = n;
	}
	return best;
}
