/* wrap.c - unwrap log lines from JSON or from the head of a syslog line. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/wrap.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* The place after the first of @keys that has a string value, or NULL. */
static const char *find_value(const char *line, const char *end, const char *const *keys)
{
	const char *at;

	for (; *keys; keys++) {
		at = memmem(line, (size_t)(end - line), *keys, strlen(*keys));
		for (at = at ? at + strlen(*keys) : end; at < end && *at == ' '; at++)
			;
		if (at < end && *at == '"')
			return at + 1;
	}
	return NULL;
}

/* The end of the string that begins at @p, or NULL. */
static const char *find_quote(const char *p, const char *end)
{
	while (p < end && *p != '"')
		p += *p == '\\' && p + 1 < end ? 2 : 1;
	return p < end ? p : NULL;
}

static bool says_error(const char *line, const char *end)
{
	static const char *const keys[] = { "\"level\":",    "\"levelname\":", "\"severity\":",
					    "\"loglevel\":", "\"lvl\":",       NULL };
	static const char *const levels[] = { "error\"",     "fatal\"", "critical\"",
					      "emergency\"", "alert\"", "panic\"" };
	const char *at = find_value(line, end, keys);
	size_t n;

	for (size_t i = 0; at && i < sizeof(levels) / sizeof(levels[0]); i++) {
		n = strlen(levels[i]);
		if ((size_t)(end - at) >= n && !strncasecmp(at, levels[i], n))
			return true;
	}
	return false;
}

bool wrap_open(const char **line, const char **end)
{
	static const char *const keys[] = { "\"log\":", "\"message\":",     "\"MESSAGE\":",
					    "\"msg\":", "\"textPayload\":", NULL };
	const char *at, *stop;
	bool is_error;

	if (*end - *line < 16 || **line != '{')
		return false;
	at = find_value(*line, *end, keys);
	/* The end may be beyond the bytes read. */
	stop = at ? find_quote(at, *end) : NULL;
	if (!at)
		return false;
	is_error = says_error(*line, *end);
	*line = at;
	if (stop)
		*end = stop;
	if (stop && stop - at > 1 && stop[-2] == '\\' && (stop[-1] == 'n' || stop[-1] == 'r'))
		*end -= 2;
	return is_error;
}

enum { TAIL = 1024 }; /* bytes of JSON after a message */

const char *wrap_next(const char *p, const char *end, const char **stop)
{
	const char *eol, *line;

	if (end - p < 4 || *p != '"' || (p[1] != '}' && p[1] != ','))
		return NULL;
	eol = memchr(p, '\n', (size_t)(end - p < TAIL ? end - p : TAIL));
	if (!eol || eol[-1] != '}' || end - eol < 4 || eol[1] != '{')
		return NULL;
	line = eol + 1;
	*stop = memchr(line, '\n', (size_t)(end - line));
	*stop = *stop ? *stop : end;
	wrap_open(&line, stop);
	return line > eol + 1 ? line : NULL;
}

const char *wrap_skip_syslog(const char *line, const char *end)
{
	const char *p = line;
	int fields;

	if (end - line < 16 || *p != '<')
		return line;
	for (p++; p < end && *p >= '0' && *p <= '9'; p++)
		;
	if (end - p < 3 || memcmp(p, ">1 ", 3) != 0)
		return line;
	for (p += 3, fields = 0; fields < 6 && p; fields++) {
		/* The last field is data in brackets, or a dash. */
		if (fields == 5 && p < end && *p == '[')
			p = memchr(p, ']', (size_t)(end - p));
		p = p ? memchr(p, ' ', (size_t)(end - p)) : NULL;
		p = p ? p + 1 : NULL;
	}
	return p ? p : line;
}
