/* bare.c - match system messages, such as strerror(3)'s, in lines of any program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/bare.h"

#include <stddef.h>
#include <string.h>

#include "base/num.h"
#include "diagnose/complaint.h"
#include "diagnose/signature.h"

static bool is_word(const char *at, const char *end, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(end - at) == n && !memcmp(at, text, n);
}

/* True if only closing marks follow: a dot, brackets, quotes, the error number, the end of a
 * colour, and the JSON of log collectors. */
static bool is_over(const char *p, const char *end)
{
	for (; p < end; p++) {
		if (*p == '\\' || *p == 0x1b ||
		    (*p == '"' && p + 1 < end && (p[1] == ',' || p[1] == '}')))
			return true;
		if ((unsigned char)*p > ' ' && !strchr(".)]'\"(", *p) && !num_is_digit(*p))
			return false;
	}
	return true;
}

/* True for a shell's name: "sh", "/bin/ksh93", "-bash", "ksh[3]", "zsh:1". */
static bool is_shell(const char *at, const char *end)
{
	static const char *const names[] = { "sh",   "bash",  "dash", "ash",  "zsh",
					     "ksh",  "ksh93", "mksh", "lksh", "rbash",
					     "yash", "fish",  "exec", "env",  "sudo" };
	const char *base = memrchr(at, '/', (size_t)(end - at)), *stop;

	at = base ? base + 1 : at;
	while (at < end && (*at == '-' || *at == ':'))
		at++;
	for (stop = at; stop < end && *stop != '[' && *stop != ':'; stop++)
		;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_word(at, stop, names[i]))
			return true;
	return false;
}

static bool is_number(const char *at, const char *end)
{
	while (at < end && num_is_digit(*at))
		at++;
	return at == end;
}

/* The last word before a colon, since marks of ranks and dates come before it. */
static const char *last_word(const char *at, const char *end)
{
	const char *p = end, *colour = memrchr(at, 0x1b, (size_t)(end - at));

	while (colour && colour < end && *colour != 'm')
		colour++;
	if (colour && colour < end)
		at = colour + 1;
	while (p > at && !strchr(" \t\r>]|\"", p[-1]))
		p--;
	/* "ksh[3]" has a bracket of its own. */
	return p == end && end > at && end[-1] == ']' ? last_word(at, end - 1) : p;
}

/* True for "job.sh:3". */
static bool is_numbered(const char *word, const char *end)
{
	const char *colon = memrchr(word, ':', (size_t)(end - word));

	while (word < end && *word == ':')
		word++;
	return colon && colon > word && colon + 1 < end &&
	       memchr(word, '.', (size_t)(colon - word)) &&
	       !memchr(word, ':', (size_t)(colon - word)) && is_number(colon + 1, end);
}

/* Does a part before a colon name a shell, or the line of a script? */
static bool is_of_shell(const char *line, const char *eol)
{
	const char *at = line, *colon, *word;

	for (; (colon = memmem(at, (size_t)(eol - at), ": ", 2)); at = colon + 2) {
		word = last_word(at, colon);
		if (colon > at && is_shell(word, colon))
			return true;
		/* "job.sh: line 3: ", "job.sh: 3: ", and "job.sh:3: " of zsh */
		if (is_numbered(word, colon))
			return true;
		if (at > line && colon > word && is_number(word, colon) &&
		    (word == at || (word - at == 5 && !memcmp(at, "line ", 5))))
			return true;
	}
	return false;
}

bool bare_fits(const struct signature *s, const char *line, const char *eol, const char *behind)
{
	enum complaint level;

	if (behind && !is_over(behind, eol))
		return false;
	/* Output of strace(1) is no complaint. */
	if (memmem(line, (size_t)(eol - line), " = -1 E", 7))
		return false;
	if (complaint_has_level(line, eol, &level) &&
	    (level != COMPLAINT_ERROR || s->kind > SIGNATURE_RESULT))
		return false;
	return !(s->flags & SIGNATURE_SHELL) || is_of_shell(line, eol);
}
