/* xml.c - foreign text in XML and HTML: nothing of it is markup. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xml.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

/* The length of the character at @s if XML allows it, else 0. */
static int length(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	int i, n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t c = n < 2 ? *s : *s & (0x7fu >> n);

	for (i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (n == 1)
		return c >= ' ' && c != 127;
	/* Overlong, C1 controls, surrogates, no characters. */
	if (!n || c < least[n] || c < 0xa0 || (c >= 0xd800 && c < 0xe000) ||
	    (c & 0xfffe) == 0xfffe || c > 0x10ffff)
		return 0;
	return n;
}

static void put(FILE *out, const char *s, int n)
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
		n = length((const unsigned char *)p);
	for (most = count <= most ? INT_MAX : most; *s && most > 1; s += n ? n : 1, most--) {
		n = length((const unsigned char *)s);
		put(out, s, n);
	}
	if (*s)
		fputs("\xe2\x80\xa6", out);
}

void xml_text(FILE *out, const char *s)
{
	xml_clip(out, s, INT_MAX);
}
