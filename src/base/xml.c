/* xml.c - escape untrusted text for XML and HTML. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xml.h"

#include <limits.h>

#include "base/utf8.h"

/* The length of the character at @s if XML allows it and no terminal obeys it, else 0. */
static int character_length(const char *s)
{
	uint32_t c;
	size_t n = utf8_decode(s, UTF8_MOST, &c);

	return n && !utf8_is_control(c) && (c & 0xfffe) != 0xfffe ? (int)n : 0;
}

static void character_put(FILE *out, const char *s, int n)
{
	if (!n)
		fputc('?', out);
	else if (*s == '<')
		fputs("&lt;", out);
	else if (*s == '>')
		fputs("&gt;", out);
	else if (*s == '&')
		fputs("&amp;", out);
	else if (*s == '"')
		fputs("&quot;", out);
	else if (*s == '\'')
		fputs("&#39;", out);
	else
		fwrite(s, 1, (size_t)n, out);
}

void xml_clip(FILE *out, const char *s, int most)
{
	const char *p = s;
	int n, count = 0;

	for (; *p; p += n ? n : 1, count++)
		n = character_length(p);
	for (most = count <= most ? INT_MAX : most; *s && most > 1; s += n ? n : 1, most--) {
		n = character_length(s);
		character_put(out, s, n);
	}
	if (*s)
		fputs("\xe2\x80\xa6", out);
}

void xml_text(FILE *out, const char *s)
{
	xml_clip(out, s, INT_MAX);
}
