/* text.c - make untrusted bytes printable: valid UTF-8, no control characters. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/text.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

static bool is_shown(uint32_t c)
{
	return !utf8_is_control(c) && !(c >= 0x200e && c <= 0x200f) &&
	       !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069);
}

void text_clean(char *out, size_t cap, const char *in)
{
	size_t n = 0;

	while (*in) {
		uint32_t c = 0;
		size_t len = utf8_decode(in, UTF8_MOST, &c);

		if (n + (len ? len : 1) >= cap)
			break;
		if (len && is_shown(c)) {
			memcpy(out + n, in, len);
			n += len;
		} else {
			out[n++] = '?';
		}
		in += len ? len : 1;
	}
	out[n] = 0;
}

json_t *text_json(const char *in)
{
	char clean[PATH_MAX];

	if (!in || !*in)
		return json_null();
	text_clean(clean, sizeof(clean), in);
	return json_string(clean);
}

bool text_is_version(const char *s)
{
	if (!isdigit((unsigned char)*s) && *s != 'v')
		return false;
	for (size_t n = 0; s[n]; n++)
		if (n >= 63 || (!isalnum((unsigned char)s[n]) && !strchr(".+!_-", s[n])))
			return false;
	return true;
}

void text_copy(char *out, size_t cap, const char *in, size_t len)
{
	if (len >= cap)
		len = cap - 1;
	memcpy(out, in, len);
	out[len] = 0;
}

void text_set(char *out, size_t cap, const char *in)
{
	text_copy(out, cap, in, strlen(in));
}

/* The line that starts at @p, without its end; *@next is the line after it. */
static size_t line_at(const char *p, const char *end, const char **next)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));
	size_t len = (size_t)((nl ? nl : end) - p);

	*next = nl ? nl + 1 : end;
	return len && p[len - 1] == '\r' ? len - 1 : len;
}

static bool text_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Copies the text between two equal quotes at @p; false if it is no string, does not end before
 * @end, has an escape, or does not fit. */
static bool quoted_copy(const char *p, const char *end, char *out, size_t cap)
{
	const char *close;
	size_t len;

	if (p >= end || (*p != '"' && *p != '\''))
		return false;
	close = memchr(p + 1, *p, (size_t)(end - p - 1));
	if (!close)
		return false;
	len = (size_t)(close - p - 1);
	if (len >= cap || memchr(p + 1, '\\', len) || memchr(p + 1, 0, len))
		return false;
	text_copy(out, cap, p + 1, len);
	return true;
}

bool text_assigned(const char *data, size_t len, const char *name, char *out, size_t cap)
{
	const char *p = data, *end = data + len, *next;
	size_t n = strlen(name);

	for (; p < end; p = next) {
		size_t l = line_at(p, end, &next);
		const char *eq, *stop = p + l;

		if (l <= n || memcmp(p, name, n) ||
		    (!text_is_blank(p[n]) && p[n] != ':' && p[n] != '='))
			continue;
		eq = memchr(p, '=', l);
		if (!eq)
			continue;
		for (eq++; eq < stop && text_is_blank(*eq); eq++)
			;
		if (quoted_copy(eq, stop, out, cap))
			return true;
	}
	return false;
}

bool text_keyed(const char *data, size_t len, const char *key, char *out, size_t cap)
{
	const char *p = data, *end = data + len;
	size_t n = strlen(key);

	while ((p = memmem(p, (size_t)(end - p), key, n))) {
		const char *q = p + n;

		p = q;
		if (q - n == data || q == end || (*q != '"' && *q != '\'') ||
		    q[-(long)n - 1] != *q)
			continue;
		for (q++;
		     q < end && (text_is_blank(*q) || *q == ':' || *q == ',' || *q == '\n');
		     q++)
			;
		if (quoted_copy(q, end, out, cap))
			return true;
	}
	return false;
}

bool text_defined(const char *data, size_t len, const char *name, char *out, size_t cap)
{
	const char *p = data, *end = data + len, *next;
	size_t n = strlen(name);

	for (; p < end; p = next) {
		const char *stop = p + line_at(p, end, &next), *q = p, *last;

		while (q < stop && text_is_blank(*q))
			q++;
		if (q == stop || *q++ != '#')
			continue;
		while (q < stop && text_is_blank(*q))
			q++;
		if (stop - q < 7 || memcmp(q, "define", 6) || !text_is_blank(q[6]))
			continue;
		for (q += 6; q < stop && text_is_blank(*q); q++)
			;
		if ((size_t)(stop - q) <= n || memcmp(q, name, n) || !text_is_blank(q[n]))
			continue;
		for (q += n; q < stop && text_is_blank(*q); q++)
			;
		if (q < stop && *q == '"')
			return quoted_copy(q, stop, out, cap);
		for (last = q; last < stop && !text_is_blank(*last); last++)
			;
		if (last == q || (size_t)(last - q) >= cap)
			return false;
		text_copy(out, cap, q, (size_t)(last - q));
		return true;
	}
	return false;
}

bool text_field(const char *data, size_t len, const char *name, char sep, char *out, size_t cap)
{
	const char *p = data, *end = data + len, *next;
	size_t n = strlen(name);

	for (; p < end; p = next) {
		const char *stop = p + line_at(p, end, &next), *q = p + n;

		if (stop < q || memcmp(p, name, n))
			continue;
		while (q < stop && text_is_blank(*q))
			q++;
		if (q == stop || *q++ != sep)
			continue;
		while (q < stop && text_is_blank(*q))
			q++;
		while (stop > q && text_is_blank(stop[-1]))
			stop--;
		if ((size_t)(stop - q) >= cap || memchr(q, 0, (size_t)(stop - q)))
			return false;
		text_copy(out, cap, q, (size_t)(stop - q));
		return true;
	}
	return false;
}
