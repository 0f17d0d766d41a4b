/* versions.c - the table of compatible versions: strict parser and look-up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/versions.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "base/near.h"
#include "base/release.h"
#include "ringup.h"

enum { TABLE_BYTES = 1 << 20, TABLE_LINES = 8192, FIELDS = 8, WORD = 64 };

/* Forms of values. */
enum kind { VERSION, RANGES, ABI, STANDARD, COMPILER, NAMES };

static const struct {
	const char *name;
	enum kind kind;
} attributes[] = {
	{ "bad", NAMES },             /* an engine that must not be used with it     */
	{ "clang", RANGES },          /* a distribution: the clang it has            */
	{ "clang_max", VERSION },     /* the newest clang that it works with         */
	{ "clang_min", VERSION },     /* and the oldest                              */
	{ "compiler", COMPILER },     /* what built it: "gcc 9.3.1"                  */
	{ "cuda", RANGES },           /* the CUDA it is for                          */
	{ "cxx11_abi", ABI },         /* _GLIBCXX_USE_CXX11_ABI of its build         */
	{ "cxx_standard", STANDARD }, /* that its headers need; a compiler's newest */
	{ "gcc", RANGES },            /* a distribution: the gcc it has              */
	{ "gcc_max", VERSION },       /* the newest gcc that it works with           */
	{ "gcc_min", VERSION },       /* and the oldest                              */
	{ "glibcxx", VERSION },       /* a gcc: the newest symbols of its libstdc++  */
	{ "keras", RANGES },          /* the Keras that is TensorFlow's own          */
	{ "numpy", RANGES },          /* the NumPy it was built with                 */
	{ "python", RANGES },         /* the Pythons it exists for                   */
	{ "tensorflow", RANGES },     /* an engine: the TensorFlow it knows          */
	{ "torch", RANGES },          /* and the torch                               */
};

static const char *const subjects[] = { "clang",   "cuda",  "debian",     "fedora", "gcc",
					"horovod", "keras", "mpich",      "mxnet",  "nccl",
					"openmpi", "rhel",  "tensorflow", "torch",  "ubuntu" };

static const char *const trusts[] = { "memory", "issue", "recipe", "doc", "tested" };

static int bad(struct err *e, const char *name, int line, const char *what, const char *word)
{
	return fail(e, RINGUP_EINVAL, "%s:%d: %s '%.40s'", name, line, what, word);
}

/* Is @s a version such as "12", "7.3.1", "2.6": digits with single dots between? */
static bool is_number(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] == '.' ? !i || i + 1 == n || s[i - 1] == '.'
				: !isdigit((unsigned char)s[i]))
			return false;
	return n && n < WORD;
}

static bool is_bound(const char *s)
{
	return !strcmp(s, "-") || is_number(s, strlen(s));
}

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

static bool is_ordered(const char *min, const char *max)
{
	return !strcmp(min, "-") || !strcmp(max, "-") || release_within(min, "-", max);
}

static bool is_ranges(const char *s)
{
	char min[WORD], max[WORD];

	if (!*s)
		return false;
	while (*s)
		if (!next_range(&s, min, max) || !is_bound(min) || !is_bound(max) ||
		    !is_ordered(min, max) || *s == ',')
			return false;
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

static bool is_of_kind(enum kind kind, const char *v)
{
	static const char *const standards[] = { "11", "14", "17", "20", "23" };

	switch (kind) {
	case VERSION:
		return is_number(v, strlen(v));
	case RANGES:
		return is_ranges(v);
	case ABI:
		return !strcmp(v, "0") || !strcmp(v, "1");
	case STANDARD:
		for (size_t i = 0; i < sizeof(standards) / sizeof(standards[0]); i++)
			if (!strcmp(v, standards[i]))
				return true;
		return false;
	case COMPILER:
		v += !strncmp(v, "gcc ", 4) ? 4 : !strncmp(v, "clang ", 6) ? 6 : strlen(v);
		return is_number(v, strlen(v));
	case NAMES:
		return !strcmp(v, "horovod") || !strcmp(v, "ringup");
	}
	return false;
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

static bool is_variant(const char *s)
{
	return !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] && strlen(s) < 24;
}

static int find_attribute(const char *name, int line, struct version_fact *f, enum kind *kind,
			  struct err *e)
{
	struct near n = { 0 };

	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		if (!strcmp(attributes[i].name, f->attr)) {
			*kind = attributes[i].kind;
			return 0;
		}
		near_offer(&n, f->attr, attributes[i].name);
	}
	if (n.best)
		return fail(e, RINGUP_EINVAL, "%s:%d: no attribute '%.40s'; did you mean '%s'?",
			    name, line, f->attr, n.best);
	return bad(e, name, line, "no attribute", f->attr);
}

static bool versions_is_in(const char *const *list, size_t n, const char *word, int *index)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], word)) {
			*index = (int)i;
			return true;
		}
	return false;
}

static int read_fact(const char *name, char *line, struct version_fact *f, struct err *e)
{
	char *part[FIELDS], *at = line, *p;
	enum kind kind = NAMES;
	int i, n;

	for (p = line, n = 1; *p; p++)
		n += *p == '\t';
	if (n != FIELDS)
		return fail(e, RINGUP_EINVAL, "%s:%d: %d fields instead of %d", name, f->line,
			    n, FIELDS);
	for (i = 0; i < FIELDS; i++)
		part[i] = field(&at);
	f->subject = part[0];
	f->min = part[1];
	f->max = part[2];
	f->attr = part[3];
	f->value = part[4];
	f->source = part[6];
	f->note = part[7];
	p = strchr(f->attr, '@');
	f->variant = p ? p + 1 : f->attr + strlen(f->attr);
	if (p)
		*p = 0;
	if (!versions_is_in(subjects, sizeof(subjects) / sizeof(subjects[0]), f->subject, &i))
		return bad(e, name, f->line, "no subject", f->subject);
	if (find_attribute(name, f->line, f, &kind, e))
		return RINGUP_EINVAL;
	if ((p && !*f->variant) || !is_variant(f->variant))
		return bad(e, name, f->line, "no variant", f->variant);
	if (!is_bound(f->min) || !is_bound(f->max) || !is_ordered(f->min, f->max))
		return fail(e, RINGUP_EINVAL, "%s:%d: no range: '%.20s' to '%.20s'", name,
			    f->line, f->min, f->max);
	if (!is_of_kind(kind, f->value))
		return fail(e, RINGUP_EINVAL, "%s:%d: no value for %s: '%.40s'", name, f->line,
			    f->attr, f->value);
	if (!versions_is_in(trusts, sizeof(trusts) / sizeof(trusts[0]), part[5], &i))
		return bad(e, name, f->line, "no confidence", part[5]);
	f->trust = (enum version_trust)i;
	if (!*f->source)
		return bad(e, name, f->line, "no source for", f->value);
	return 0;
}

static bool is_about_same(const struct version_fact *a, const struct version_fact *b)
{
	return !strcmp(a->subject, b->subject) && !strcmp(a->attr, b->attr) &&
	       !strcmp(a->variant, b->variant);
}

static bool is_open(const char *bound)
{
	return !strcmp(bound, "-");
}

/* Does any version lie in both ranges? */
static bool overlap(const struct version_fact *a, const struct version_fact *b)
{
	bool a_first =
		is_open(a->min) || is_open(b->max) || release_within(a->min, "-", b->max);
	bool b_first =
		is_open(b->min) || is_open(a->max) || release_within(b->min, "-", a->max);

	return a_first && b_first;
}

static int order(const struct version_fact *a, const struct version_fact *b)
{
	int o = strcmp(a->subject, b->subject);

	if (!o)
		o = strcmp(a->attr, b->attr);
	if (!o)
		o = strcmp(a->variant, b->variant);
	if (!o)
		o = is_open(b->min) - is_open(a->min);
	return o || is_open(a->min) ? o : release_compare(a->min, b->min);
}

/* Facts are in order, so only neighbours with the same name are compared. */
static int versions_check(const struct versions *t, const char *name, struct err *e)
{
	for (int i = 1; i < t->count; i++) {
		if (order(&t->at[i - 1], &t->at[i]) > 0)
			return fail(e, RINGUP_EINVAL,
				    "%s:%d: out of order: by subject, attribute, variant and "
				    "first version",
				    name, t->at[i].line);
		for (int j = i - 1; j >= 0 && is_about_same(&t->at[j], &t->at[i]); j--)
			if (t->at[j].trust == t->at[i].trust && overlap(&t->at[j], &t->at[i]) &&
			    strcmp(t->at[j].value, t->at[i].value))
				return fail(e, RINGUP_EINVAL,
					    "%s:%d: contradicts line %d, which is as sure: "
					    "%s %s is %s or %s",
					    name, t->at[i].line, t->at[j].line,
					    t->at[i].subject, t->at[i].attr, t->at[j].value,
					    t->at[i].value);
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
		t->at[t->count].line = n;
		rc = read_fact(name, line, &t->at[t->count], e);
		if (rc)
			return rc;
		t->count++;
	}
	return versions_check(t, name, e);
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
