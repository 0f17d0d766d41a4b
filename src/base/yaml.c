/* yaml.c - a reader of a YAML subset for settings: sections of keys with one value each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* The reader's state. */
struct reader {
	int line;
	char section[YAML_KEY_BYTES];
	bool has_section;  /* indented lines belong to section            */
	size_t indent;     /* of the section's lines; 0: none so far      */
	bool has_document; /* something other than comments has been seen */
};

static int wrong(const struct reader *r, const char *why, struct err *e)
{
	return fail(e, RINGUP_EINVAL, "line %d: %s", r->line, why);
}

static bool yaml_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Nothing but blanks and a comment? */
static bool is_rest(const char *p, const char *end)
{
	while (p < end && yaml_is_blank(*p))
		p++;
	return p == end || *p == '#';
}

static bool is_key_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

static int key_read(const struct reader *r, const char **p, const char *end,
		    char key[YAML_KEY_BYTES], struct err *e)
{
	size_t n = 0;

	for (; *p < end && is_key_byte(**p); (*p)++) {
		if (n == YAML_KEY_BYTES - 1)
			return wrong(r, "a key must be shorter than 64 bytes", e);
		key[n++] = **p;
	}
	key[n] = 0;
	while (*p < end && yaml_is_blank(**p))
		(*p)++;
	if (key[0] == '-' && n == 1)
		return wrong(r, "a list; write one value after each key", e);
	if (!n || *p == end || **p != ':')
		return wrong(r, "not \"key: value\"", e);
	(*p)++;
	if (*p < end && !yaml_is_blank(**p))
		return wrong(r, "a blank is missing after the colon", e);
	return 0;
}

static int value_add(const struct reader *r, char value[YAML_VALUE_BYTES], size_t *n, char c,
		     struct err *e)
{
	if (*n == YAML_VALUE_BYTES - 1)
		return wrong(r, "a value must be shorter than 1024 bytes", e);
	if ((unsigned char)c < ' ' || c == 127)
		return wrong(r, "a control character in a value", e);
	value[(*n)++] = c;
	return 0;
}

/* '...' with '' for a quote, or "..." with a backslash before a quote or a backslash. */
static int quoted_read(const struct reader *r, const char **p, const char *end,
		       char value[YAML_VALUE_BYTES], struct err *e)
{
	char quote = *(*p)++;
	size_t n = 0;
	int rc;

	for (; *p < end; (*p)++) {
		if (**p == quote) {
			if (quote == '"' || *p + 1 == end || (*p)[1] != quote)
				break;
			(*p)++;
		} else if (quote == '"' && **p == '\\') {
			if (*p + 1 == end || ((*p)[1] != '"' && (*p)[1] != '\\'))
				return wrong(
					r, "only \" or \\ may follow \\; or use single quotes",
					e);
			(*p)++;
		}
		rc = value_add(r, value, &n, **p, e);
		if (rc)
			return rc;
	}
	if (*p == end)
		return wrong(r, "a quote is not closed on the same line", e);
	(*p)++;
	value[n] = 0;
	return 0;
}

static int plain_read(const struct reader *r, const char **p, const char *end,
		      char value[YAML_VALUE_BYTES], struct err *e)
{
	size_t n = 0;
	int rc;

	if (strchr("&*!|>{}[]%@`,?", **p))
		return wrong(r, "not one plain value; quote it if it is text", e);
	if (**p == '-' && (*p + 1 == end || yaml_is_blank((*p)[1])))
		return wrong(r, "a list; write one value after each key", e);
	for (; *p < end; (*p)++) {
		if (**p == '#' && yaml_is_blank((*p)[-1]))
			break;
		if (**p == ':' && (*p + 1 == end || yaml_is_blank((*p)[1])))
			return wrong(r, "a colon in a value; quote it if it is text", e);
		rc = value_add(r, value, &n, **p == '\t' ? ' ' : **p, e);
		if (rc)
			return rc;
	}
	while (n && yaml_is_blank(value[n - 1]))
		n--;
	value[n] = 0;
	return 0;
}

static bool is_null(const char *value)
{
	return !strcmp(value, "~") || !strcmp(value, "null") || !strcmp(value, "Null") ||
	       !strcmp(value, "NULL");
}

/* Decides from the indentation to which section a line belongs. */
static int level_check(struct reader *r, size_t indent, struct err *e)
{
	if (!indent) {
		r->has_section = false;
		return 0;
	}
	if (!r->has_section)
		return wrong(r, "indented, but no section precedes it", e);
	if (r->indent && indent != r->indent)
		return wrong(r, "not indented as the line above", e);
	r->indent = indent;
	return 0;
}

static int line_read(struct reader *r, const char *p, const char *end, yaml_visit *visit,
		     void *ctx, struct err *e)
{
	char key[YAML_KEY_BYTES], value[YAML_VALUE_BYTES];
	struct yaml_item item = { r->section, key, value, 0, r->line };
	const char *start = p;
	int rc;

	while (p < end && *p == ' ')
		p++;
	if (is_rest(p, end))
		return 0;
	if (*p == '\t')
		return wrong(r, "a tab at the start; indent with blanks", e);
	if (end - start >= 3 && !memcmp(start, "---", 3) && is_rest(start + 3, end)) {
		if (r->has_document)
			return wrong(r, "a second document", e);
		r->has_document = true;
		return 0;
	}
	r->has_document = true;
	rc = level_check(r, (size_t)(p - start), e);
	if (!rc)
		rc = key_read(r, &p, end, key, e);
	if (rc)
		return rc;
	while (p < end && yaml_is_blank(*p))
		p++;
	if (p == end || *p == '#') {
		if (!r->has_section) {
			memcpy(r->section, key, sizeof(key));
			r->has_section = true;
			r->indent = 0;
		}
		return 0;
	}
	item.is_quoted = *p == '\'' || *p == '"';
	rc = item.is_quoted ? quoted_read(r, &p, end, value, e)
			    : plain_read(r, &p, end, value, e);
	if (rc)
		return rc;
	if (!is_rest(p, end))
		return wrong(r, "something behind the value", e);
	if (!item.is_quoted && is_null(value))
		return 0;
	if (!r->has_section)
		item.section = "";
	return visit(ctx, &item, e);
}

int yaml_read(const char *text, size_t len, yaml_visit *visit, void *ctx, struct err *e)
{
	struct reader r = { 0 };
	const char *p, *end, *stop;
	int rc = 0;

	if (len > YAML_FILE_BYTES)
		return fail(e, RINGUP_EINVAL, "longer than 64 KiB");
	for (p = text, end = text + len; p < end && !rc; p = stop + 1) {
		const char *last;

		stop = memchr(p, '\n', (size_t)(end - p));
		if (!stop)
			stop = end;
		last = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
		r.line++;
		if (memchr(p, 0, (size_t)(last - p)))
			return wrong(&r, "a NUL byte", e);
		rc = line_read(&r, p, last, visit, ctx, e);
	}
	return rc;
}
