/* test_utf8.c - every character is one, and nothing else. */
#include "base/utf8.h"

#include <string.h>

#include "tap.h"

/* Write @c as UTF-8 would, also where that is forbidden, in @n bytes. */
static void encode(char *s, uint32_t c, int n)
{
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	int i;

	for (i = n - 1; i > 0; i--, c >>= 6)
		s[i] = (char)(0x80 | (c & 0x3f));
	s[0] = (char)(lead[n] | c);
	s[n] = 0;
}

/* How many characters in [@from, @to] are read back from @n bytes, as themselves. */
static uint32_t count_good(uint32_t from, uint32_t to, size_t n)
{
	uint32_t c, got, good = 0;
	char s[5];

	for (c = from; c <= to; c++) {
		encode(s, c, (int)n);
		got = ~c;
		good += utf8_decode(s, UTF8_MOST, &got) == n && got == c;
	}
	return good;
}

int main(void)
{
	uint32_t c = 7;

	ok(count_good(1, 0x7f, 1) == 0x7f && count_good(0x80, 0x7ff, 2) == 0x780,
	   "one, two bytes");
	ok(count_good(0x800, 0xd7ff, 3) == 0xd000 && count_good(0xe000, 0xffff, 3) == 0x2000,
	   "three bytes");
	ok(count_good(0x10000, 0x10ffff, 4) == 0x100000, "four bytes");
	ok(!count_good(0, 0x7f, 2) && !count_good(0, 0x7ff, 3) && !count_good(0, 0xffff, 4),
	   "longer than need be");
	ok(!count_good(0xd800, 0xdfff, 3), "halves of a pair");
	ok(!count_good(0x110000, 0x1fffff, 4), "beyond the last");
	ok(!utf8_decode("\x80", 4, &c) && !utf8_decode("\xff", 4, &c) &&
		   !utf8_decode("\xc3", 4, &c) && !utf8_decode("\xe2\x82", 4, &c) &&
		   !utf8_decode("\xf0\x9f\x98z", 4, &c) && c == 7,
	   "what is cut off, or begins in the middle, changes nothing");
	ok(!utf8_decode("\xe2\x82\xac", 2, &c) && !utf8_decode("a", 0, &c) &&
		   utf8_decode("\xe2\x82\xac", 3, &c) == 3 && c == 0x20ac,
	   "no byte beyond what is left");
	ok(utf8_count("") == 0 && utf8_count("n\xc3\xa9t\xe2\x82\xac") == 4, "characters");
	ok(utf8_is_control(0) && utf8_is_control(27) && utf8_is_control(0x7f) &&
		   utf8_is_control(0x9b) && !utf8_is_control(' ') && !utf8_is_control(0xa0),
	   "controls");
	return tap_done();
}
