/* traps_form.c - checks for lines that the library parses differently than intended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/netnames.h"
#include "nicpick/trap.h"

enum { NCCL_VALUE = 1023 };

static const char bom[] = "\xef\xbb\xbf";

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

/* The position of a comment after a value; the length if there is none. */
static size_t comment_at(const char *value)
{
	for (size_t i = 1; value[0] && value[i]; i++)
		if (value[i] == '#' && isblank((unsigned char)value[i - 1]))
			return i;
	return strlen(value);
}

/* The intended value: without blanks, quotes, CR or comment around it. */
static char *meant_value(const struct trap_row *r)
{
	const char *v = r->value;
	size_t len = comment_at(v);

	if (r->line && !strchr(r->line, '=')) {
		char name[SOURCES_NAME];

		v = r->line + sources_meant(r->grammar, r->line, strlen(r->line), name);
		v += strspn(v, ": \t");
		len = comment_at(v);
	}
	while (len && (isspace((unsigned char)*v) || is_quote(*v))) {
		v++;
		len--;
	}
	while (len && (isspace((unsigned char)v[len - 1]) || is_quote(v[len - 1])))
		len--;
	return strndup(v, len);
}

/* Adds a '=' as well if the name is a prefix of others. */
static char *exact(const struct trap_case *t, char *value)
{
	struct picker_item x = { value, (int)strlen(value) };
	char *out;

	if (!trap_label(t, &x) || !trap_also(t, &x) || asprintf(&out, "=%s", value) < 0)
		return value;
	free(value);
	return out;
}

/* The remedy also corrects a misspelt name. */
static void broken(struct trap_case *t, struct trap_row *r, const char *what)
{
	const char *known = netnames_near(r->meant);
	char *value = meant_value(r);

	if (value && !strcmp(known ? known : r->meant, "NCCL_SOCKET_IFNAME"))
		value = exact(t, value);
	r->broken = true;
	trap_found(t, r, known, value, "%s", what);
	free(value);
}

static bool begins_with_word(const char *line, const char *word)
{
	size_t len = strlen(word);

	line += strspn(line, " \t");
	return !strncmp(line, word, len) && isblank((unsigned char)line[len]);
}

void trap_form_bom(struct trap_case *t)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].line && !strncmp(t->rows[i].line, bom, 3))
			broken(t, &t->rows[i], "the file begins with a byte order mark");
}

static bool is_exported(const struct trap_row *r)
{
	return r->line && r->grammar != SOURCES_ENVIRONMENT && r->grammar != SOURCES_SHELL &&
	       (begins_with_word(r->line, "export") || begins_with_word(r->line, "setenv"));
}

void trap_form_export(struct trap_case *t)
{
	for (int i = 0; i < t->nrows; i++)
		if (is_exported(&t->rows[i]))
			broken(t, &t->rows[i], "the line is written for a shell");
}

void trap_form_no_value(struct trap_case *t)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].line && t->rows[i].grammar != SOURCES_SHELL &&
		    !strchr(t->rows[i].line, '=') && !t->rows[i].broken)
			broken(t, &t->rows[i], "the line has no '='");
}

static bool has_blank_around(const char *s)
{
	size_t len = strlen(s);

	while (len && s[len - 1] == '\r')
		len--;
	return len && (isblank((unsigned char)*s) || isblank((unsigned char)s[len - 1]));
}

void trap_form_blank(struct trap_case *t)
{
	struct trap_row *r;

	for (int i = 0; i < t->nrows; i++) {
		r = &t->rows[i];
		if (r->grammar == SOURCES_MCA || is_exported(r) ||
		    (r->line && !strchr(r->line, '=')))
			continue;
		if (has_blank_around(r->name))
			broken(t, r, "spaces around the name are part of the name");
		else if (has_blank_around(r->value))
			broken(t, r, "spaces around the value are part of the value");
	}
}

void trap_form_quotes(struct trap_case *t)
{
	struct trap_row *r;
	size_t len;

	for (int i = 0; i < t->nrows; i++) {
		r = &t->rows[i];
		len = strlen(r->value);
		while (len && strchr(" \t\r", r->value[len - 1]))
			len--;
		if (len && (is_quote(r->value[strspn(r->value, " \t")]) ||
			    is_quote(r->value[len - 1])))
			broken(t, r, "the quotes are part of the value");
	}
}

void trap_form_cr(struct trap_case *t)
{
	size_t len;

	for (int i = 0; i < t->nrows; i++) {
		len = strlen(t->rows[i].value);
		if (t->rows[i].grammar != SOURCES_MCA && len &&
		    t->rows[i].value[len - 1] == '\r')
			broken(t, &t->rows[i],
			       "the line has a DOS ending, and its CR is part of the value");
	}
}

void trap_form_comment(struct trap_case *t)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].grammar != SOURCES_ENVIRONMENT &&
		    t->rows[i].grammar != SOURCES_SHELL &&
		    t->rows[i].value[comment_at(t->rows[i].value)])
			broken(t, &t->rows[i], "the comment is part of the value");
}

void trap_form_long(struct trap_case *t)
{
	struct trap_row *r;

	for (int i = 0; i < t->nrows; i++) {
		r = &t->rows[i];
		if (r->grammar != SOURCES_NCCL || strlen(r->value) <= NCCL_VALUE)
			continue;
		r->broken = true;
		trap_found(t, r, NULL, NULL, "the value has %zu bytes", strlen(r->value));
	}
}

void trap_shell_unknown(struct trap_case *t)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].unknown)
			trap_found(t, &t->rows[i], NULL, NULL, "the value of %s is unknown",
				   t->rows[i].meant);
}

void trap_mca_prefix(struct trap_case *t)
{
	static const char twice[] = "OMPI_MCA_OMPI_MCA_";

	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].grammar == SOURCES_MCA &&
		    !strncmp(t->rows[i].name, twice, sizeof(twice) - 1))
			broken(t, &t->rows[i], "the name has the prefix OMPI_MCA_");
}

void trap_wrong_file(struct trap_case *t)
{
	struct trap_row *r;

	for (int i = 0; i < t->nrows; i++) {
		r = &t->rows[i];
		if (r->grammar != SOURCES_NCCL || !strncmp(r->meant, "NCCL_", 5) ||
		    netnames_find(r->meant) != NETNAMES_NETWORK)
			continue;
		r->broken = true;
		trap_remove(t, r, "%s is not an NCCL setting; export it where the job starts",
			    r->meant);
	}
}

void trap_unknown_name(struct trap_case *t)
{
	const char *known;

	for (int i = 0; i < t->nrows; i++) {
		known = t->rows[i].broken ? NULL : netnames_near(t->rows[i].meant);
		if (!known)
			continue;
		t->rows[i].broken = true;
		trap_found(t, &t->rows[i], known, t->rows[i].value,
			   "no setting %s; did you mean %s?", t->rows[i].meant, known);
	}
}

/* The row that overrides @r in its own file, or NULL. */
static const struct trap_row *winner_beside(const struct trap_case *t, const struct trap_row *r)
{
	const struct trap_row *best = NULL, *other;

	for (int i = 0; i < t->nrows; i++) {
		other = &t->rows[i];
		if (other->path == r->path && !strcmp(other->name, r->name) &&
		    (!best || r->grammar == SOURCES_MCA))
			best = other;
	}
	return best == r ? NULL : best;
}

void trap_duplicate_line(struct trap_case *t)
{
	const struct trap_row *other;
	struct trap_row *r;

	for (int i = 0; i < t->nrows; i++) {
		r = &t->rows[i];
		if (r->grammar == SOURCES_ENVIRONMENT || r->grammar == SOURCES_SHELL ||
		    r->broken || !r->line)
			continue;
		other = winner_beside(t, r);
		if (other && strcmp(other->value, r->value) != 0)
			trap_remove(t, r, "line %d sets %s to %.80s and wins", other->number,
				    r->meant, other->value);
	}
}

/* The next weaker row with another value, or NULL. */
static const struct trap_row *weaker(const struct trap_case *t, const struct trap_row *r)
{
	const struct trap_row *other;

	for (int i = 0; i < t->nrows; i++) {
		other = &t->rows[i];
		if (other != r && other->path != r->path && !other->unknown &&
		    !strcmp(other->name, r->name) && strcmp(other->value, r->value) != 0)
			return other;
	}
	return NULL;
}

void trap_empty_shadow(struct trap_case *t)
{
	const struct trap_row *other;

	for (int i = 0; i < t->nrows; i++) {
		other = t->rows[i].in_force && !*t->rows[i].value ? weaker(t, &t->rows[i])
								  : NULL;
		if (!other)
			continue;
		t->rows[i].broken = true;
		trap_remove(t, &t->rows[i], "%s is empty and hides %.80s of %s:%d",
			    t->rows[i].meant, other->value, other->path, other->number);
	}
}

void trap_shadow(struct trap_case *t)
{
	const struct trap_row *other;

	for (int i = 0; i < t->nrows; i++) {
		if (trap_pin(t, t->rows[i].name))
			continue;
		other = t->rows[i].in_force && *t->rows[i].value ? weaker(t, &t->rows[i])
								 : NULL;
		if (other)
			trap_found(t, &t->rows[i], NULL, NULL, "%s hides %.80s of %s:%d",
				   t->rows[i].meant, other->value, other->path, other->number);
	}
}
