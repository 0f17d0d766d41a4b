/* requires.c - read what a distribution requires, and compare it with what is installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/requires.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/release.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum { MAX_METADATA = 4 << 20, MAX_DEPTH = 16 };

#if defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "x86_64"
#endif

/* Markers: conditions such as platform_system == "Linux" and python_version < "3.12". */

struct marker {
	const char *at, *series;
	int depth;
	bool any_extra; /* conditions on extras hold */
	bool is_bad;    /* malformed, or about something unknown */
};

static bool marker_or(struct marker *m);

static void skip_blanks(struct marker *m)
{
	m->at += strspn(m->at, " \t");
}

/* Takes the word @word, which no letter follows. */
static bool take_word(struct marker *m, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(m);
	if (strncmp(m->at, word, n) || isalnum((unsigned char)m->at[n]) || m->at[n] == '_')
		return false;
	m->at += n;
	return true;
}

/* The value of the variable @name on this node; NULL: unknown. */
static const char *marker_value(const struct marker *m, const char *name)
{
	static const char *const all[][2] = {
		{ "platform_system", "Linux" },
		{ "sys_platform", "linux" },
		{ "os_name", "posix" },
		{ "platform_machine", MACHINE },
		{ "implementation_name", "cpython" },
		{ "platform_python_implementation", "CPython" },
		{ "extra", "" },
	};

	if (!strcmp(name, "python_version") || !strcmp(name, "python_full_version"))
		return m->series;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(name, all[i][0]))
			return all[i][1];
	return NULL;
}

/* Takes a variable or a quoted text; the variable's value in @out. */
static void take_operand(struct marker *m, char out[64], bool *is_version)
{
	const char *value;
	char quote, name[64];
	size_t n;

	skip_blanks(m);
	*out = 0;
	quote = *m->at;
	if (quote == '"' || quote == '\'') {
		n = strcspn(++m->at, quote == '"' ? "\"" : "'");
		m->is_bad |= !m->at[n] || n >= 64;
		text_copy(out, 64, m->at, n);
		m->at += n + (m->at[n] != 0);
		return;
	}
	n = strspn(m->at, "abcdefghijklmnopqrstuvwxyz_.");
	text_copy(name, sizeof(name), m->at, n);
	m->at += n;
	value = marker_value(m, name);
	*is_version |= !strncmp(name, "python_", 7);
	if (value)
		text_set(out, 64, value);
	else
		m->is_bad = true;
}

static bool marker_compare(struct marker *m)
{
	char a[64], b[64], op[4] = "", clause[72];
	bool is_version = false, is_in = false, is_not = false, is_extra;
	size_t n;

	skip_blanks(m);
	is_extra = !strncmp(m->at, "extra", 5);
	take_operand(m, a, &is_version);
	skip_blanks(m);
	n = strspn(m->at, "<>=!~");
	if (n && n < sizeof(op)) {
		text_copy(op, sizeof(op), m->at, n);
		m->at += n;
	} else {
		is_not = take_word(m, "not");
		is_in = take_word(m, "in");
		m->is_bad |= !is_in;
	}
	take_operand(m, b, &is_version);
	if (m->is_bad || (is_extra && m->any_extra))
		return !m->is_bad;
	if (is_in)
		return (strstr(b, a) != NULL) != is_not;
	if (is_version) {
		snprintf(clause, sizeof(clause), "%s%s", op, b);
		return requires_compare(a, clause) == REQUIRES_FITS;
	}
	if (!strcmp(op, "=="))
		return !strcmp(a, b);
	if (!strcmp(op, "!="))
		return strcmp(a, b);
	m->is_bad = true;
	return false;
}

static bool marker_one(struct marker *m)
{
	bool is;

	skip_blanks(m);
	if (*m->at != '(')
		return marker_compare(m);
	m->at++;
	m->is_bad |= ++m->depth > MAX_DEPTH;
	is = !m->is_bad && marker_or(m);
	skip_blanks(m);
	m->is_bad |= *m->at != ')';
	m->at += *m->at == ')';
	m->depth--;
	return is;
}

static bool marker_and(struct marker *m)
{
	bool is = marker_one(m);

	while (!m->is_bad && take_word(m, "and"))
		is &= marker_one(m);
	return is;
}

static bool marker_or(struct marker *m)
{
	bool is = marker_and(m);

	while (!m->is_bad && take_word(m, "or"))
		is |= marker_and(m);
	return is;
}

static bool parse(const char *text, const char *series, bool any_extra, struct requirement *out)
{
	static const char of_names[] = "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	struct marker m = { .series = series, .any_extra = any_extra };
	size_t n = strspn(text, of_names), at = 0;

	*out = (struct requirement){ 0 };
	if (!dist_normalise(text, n, out->name, sizeof(out->name)))
		return false;
	text += n + strspn(text + n, " ");
	if (*text == '[')
		text += strcspn(text, "]") + (strchr(text, ']') != NULL);
	/* An address instead of versions is not compared; what follows it is its condition. */
	for (n = *text == '@' ? strcspn(text, ";") : 0; text[n] && text[n] != ';'; n++) {
		if (strchr(" ()", text[n]))
			continue;
		if (!isalnum((unsigned char)text[n]) && !strchr("<>=!~,.*+-_", text[n]))
			return false;
		if (at < sizeof(out->versions) - 1)
			out->versions[at++] = text[n];
	}
	if (text[n] != ';')
		return true;
	m.at = text + n + 1;
	return marker_or(&m) && !m.is_bad;
}

bool requires_parse(const char *text, const char *series, struct requirement *out)
{
	return parse(text, series, false, out);
}

/* Is @version the same as @other, or, with ".*", does it begin with the same numbers? */
static bool is_same(const char *version, const char *other)
{
	size_t n = strlen(other);
	char prefix[64];

	if (n < 2 || strcmp(other + n - 2, ".*"))
		return !release_compare(version, other);
	text_copy(prefix, sizeof(prefix), other, n - 2);
	return release_within(version, prefix, prefix);
}

/* How @version fits the clause @op @bound. */
static enum requires_fit fit(const char *version, const char *op, const char *bound)
{
	int order = release_compare(version, bound);
	char series[64];
	const char *dot;

	if (!strcmp(op, ">="))
		return order < 0 ? REQUIRES_OLDER : REQUIRES_FITS;
	if (!strcmp(op, ">"))
		return order <= 0 ? REQUIRES_OLDER : REQUIRES_FITS;
	if (!strcmp(op, "<="))
		return order > 0 ? REQUIRES_NEWER : REQUIRES_FITS;
	if (!strcmp(op, "<"))
		return order >= 0 ? REQUIRES_NEWER : REQUIRES_FITS;
	if (!strcmp(op, "!="))
		return is_same(version, bound) ? REQUIRES_OTHER : REQUIRES_FITS;
	if (!strcmp(op, "==") || !strcmp(op, "==="))
		return is_same(version, bound) ? REQUIRES_FITS
		       : order < 0             ? REQUIRES_OLDER
					       : REQUIRES_NEWER;
	if (strcmp(op, "~="))
		return REQUIRES_FITS;
	dot = strrchr(bound, '.');
	text_copy(series, sizeof(series), bound, dot ? (size_t)(dot - bound) : 0);
	if (order < 0)
		return REQUIRES_OLDER;
	return !*series || release_within(version, series, series) ? REQUIRES_FITS
								   : REQUIRES_NEWER;
}

enum requires_fit requires_compare(const char *version, const char *versions)
{
	char op[4], bound[64];
	enum requires_fit is;
	size_t n;

	for (; *versions; versions += *versions == ',') {
		versions += strspn(versions, " ");
		n = strspn(versions, "<>=!~");
		text_copy(op, sizeof(op), versions, n);
		versions += n + strspn(versions + n, " ");
		n = strcspn(versions, ",");
		text_copy(bound, sizeof(bound), versions, n);
		versions += n;
		if (!isdigit((unsigned char)*bound))
			continue;
		is = fit(version, op, bound);
		if (is != REQUIRES_FITS)
			return is;
	}
	return REQUIRES_FITS;
}

static void each(struct rootfs *fs, const struct dist *d, const char *series, bool any_extra,
		 requires_see *see, void *arg)
{
	static const char field[] = "Requires-Dist: ";
	char dir[PATH_MAX], path[PATH_MAX], *line, *save = NULL;
	struct requirement r;
	size_t len;
	char *data = *d->folder && rootfs_join(dir, d->site, d->folder) &&
				     rootfs_join(path, dir, "METADATA")
			     ? rootfs_read(fs, path, MAX_METADATA, &len)
			     : NULL;
	char *end = data ? strstr(data, strstr(data, "\r\n") ? "\n\r\n" : "\n\n") : NULL;

	if (end)
		*end = 0; /* the description follows: free text */
	for (line = data ? strtok_r(data, "\r\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\r\n", &save))
		if (!strncmp(line, field, strlen(field)) &&
		    parse(line + strlen(field), series, any_extra, &r) && !see(arg, &r))
			break;
	free(data);
}

void requires_each(struct rootfs *fs, const struct dist *d, const char *series,
		   requires_see *see, void *arg)
{
	each(fs, d, series, false, see, arg);
}

void requires_each_extra(struct rootfs *fs, const struct dist *d, const char *series,
			 requires_see *see, void *arg)
{
	each(fs, d, series, true, see, arg);
}
