/* utf8.c - decode UTF-8 from untrusted bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

size_t utf8_decode(const char *s, size_t left, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	size_t n;
	uint32_t c;

	if (!left)
		return 0;
	n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
	if (!n || n > left)
		return 0;
	c = n == 1 ? *p : *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*cp = c;
	return n;
}

int utf8_count(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

bool utf8_is_control(uint32_t c)
{
	return c < ' ' || (c >= 0x7f && c < 0xa0);
}
