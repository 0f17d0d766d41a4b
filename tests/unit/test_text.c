/* test_text.c - foreign bytes come out fit to print; small formats are read right. */
#include <string.h>

#include "detect/text.h"
#include "tap.h"

static void test_clean(void)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "torch", "torch" },
		{ "", "" },
		{ "a\033[31mb\n\x7f", "a?[31mb??" },
		{ "\xc3\xa9", "\xc3\xa9" }, /* e acute            */
		{ "\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "\xc3", "?" },                /* cut off            */
		{ "\xff\xfe", "??" },           /* never UTF-8        */
		{ "\xc0\xaf", "??" },           /* '/' in disguise    */
		{ "\xed\xa0\x80", "???" },      /* half a surrogate   */
		{ "\xf4\x90\x80\x80", "????" }, /* beyond Unicode     */
		{ "\xc2\x9b", "?" },            /* control, in two    */
		{ "\xe2\x80\xae", "?" },        /* right-to-left mark */
	};
	char out[64];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text_clean(out, sizeof(out), rows[i].in);
		ok(!strcmp(out, rows[i].out), "row %zu is clean", i);
	}
	text_clean(out, 4, "ab\xe2\x82\xac");
	ok(!strcmp(out, "ab"), "cut before a character that does not fit");
	text_clean(out, 3, "abcdef");
	ok(!strcmp(out, "ab"), "cut where it is full");
}

static void test_json(void)
{
	json_t *s = text_json("x\xffy"), *none = text_json(NULL), *empty = text_json("");

	ok(s && !strcmp(json_string_value(s), "x?y"), "any bytes make a JSON string");
	ok(json_is_null(none) && json_is_null(empty), "nothing is null");
	json_decref(s);
	json_decref(none);
	json_decref(empty);
}

static void test_version(void)
{
	ok(text_is_version("2.1.0+cu121") && text_is_version("2.4.0a0+git1.g2") &&
		   text_is_version("1!2.0-3_x"),
	   "versions are versions");
	ok(!text_is_version("") && !text_is_version("torch") && !text_is_version("2.1;rm") &&
		   !text_is_version("2.1\n") && !text_is_version("2 1"),
	   "and nothing else is");
	ok(!text_is_version("1111111111222222222233333333334444444444555555555566666666667777"),
	   "nor what is too long");
}

static int assigned(const char *data, const char *name, const char *want)
{
	char out[16] = "";

	return text_assigned(data, strlen(data), name, out, sizeof(out)) ? !strcmp(out, want)
									 : !want;
}

static void test_formats(void)
{
	char out[16];

	ok(assigned("cuda = '12.1'\n", "cuda", "12.1"), "an assignment");
	ok(assigned("x = 1\r\ncuda: Optional[str] = \"12.1\"\r\n", "cuda", "12.1"),
	   "with an annotation and Windows' ends of line");
	ok(assigned("cuda: Optional[str] = None\n", "cuda", NULL), "None is nothing");
	ok(assigned("cuda_extra = '1'\n  cuda = '2'\n", "cuda", NULL),
	   "other names are others");
	ok(assigned("cuda = '12.1", "cuda", NULL), "a string without an end");
	ok(assigned("cuda = '0123456789abcdef'\n", "cuda", NULL), "one that does not fit");
	ok(assigned("cuda = 'a\\'b'\n", "cuda", NULL), "one with an escape");
	ok(assigned("cuda = '1'\ncuda = '2'", "cuda", "1"), "the first counts");
	ok(assigned("", "cuda", NULL) && assigned("cuda", "cuda", NULL), "too short");
	ok(text_keyed("('cuda_version', '12.3')", 24, "cuda_version", out, 16) &&
		   !strcmp(out, "12.3"),
	   "a pair");
	ok(text_keyed("{\"v\": \"1\"}", 10, "v", out, 16) && !strcmp(out, "1"), "a member");
	ok(!text_keyed("('cuda_version', False)", 23, "cuda_version", out, 16) &&
		   !text_keyed("cuda_version'", 13, "cuda_version", out, 16) &&
		   !text_keyed("'cuda_version", 13, "cuda_version", out, 16),
	   "no string there");
	ok(text_defined(" # define\tA  12 /* x */\n", 23, "A", out, 16) && !strcmp(out, "12"),
	   "a define");
	ok(text_defined("#define AB 1\n#define A \"4.0 2\"", 30, "A", out, 16) &&
		   !strcmp(out, "4.0 2"),
	   "a quoted one");
	ok(!text_defined("#define A", 9, "A", out, 16) &&
		   !text_defined("#undef A 1\n", 11, "A", out, 16) &&
		   !text_defined("#define A 01234567890123456\n", 28, "A", out, 16),
	   "no define");
	ok(text_field("home = /usr/bin \r\n", 18, "home", '=', out, 16) &&
		   !strcmp(out, "/usr/bin"),
	   "a field");
	ok(!text_field("homepage = x\n", 13, "home", '=', out, 16) &&
		   !text_field("home", 4, "home", '=', out, 16) &&
		   !text_field("home = 0123456789abcdef\n", 24, "home", '=', out, 16),
	   "no field");
}

int main(void)
{
	test_clean();
	test_json();
	test_version();
	test_formats();
	return tap_done();
}
