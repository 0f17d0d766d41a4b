/* test_manifest.c - a manifest says what it was told, and a hostile one is refused. */
#include "rebuild/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

#define KEY             "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SUM             "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HEAD            "ringup-cache/1\nkey " KEY "\nsigner abc\n"
#define FILE_LINE(path) "file 644 0 " SUM " " path "\n"

static void test_round(void)
{
	static const char want[] = HEAD "file 755 3 " SUM " bin/a\n" FILE_LINE(
		"lib/b.so.1") "link b.so.1 lib/b.so\nlink ../lib/b.so.1 x/y\nend 4\n";
	struct manifest m = { .key = KEY, .signer = "abc" }, again;
	struct manifest_item link = { .path = "x/y", .target = "../lib/b.so.1" };
	struct manifest_item file = { .path = "lib/b.so.1" };
	struct err e = { 0 };
	char *text;
	size_t len;

	ok(!manifest_parse(&again, HEAD FILE_LINE("a") "end 1\n",
			   strlen(HEAD FILE_LINE("a") "end 1\n"), &e),
	   "a small one: %s", e.text);
	memcpy(file.sum, again.item[0].sum, 32);
	manifest_free(&again);
	ok(!manifest_add(&m, &link, &e) && !manifest_add(&m, &file, &e), "added: %s", e.text);
	file.path = "bin/a";
	file.program = true;
	file.size = 3;
	link = (struct manifest_item){ .path = "lib/b.so", .target = "b.so.1" };
	ok(!manifest_add(&m, &file, &e) && !manifest_add(&m, &link, &e), "in no order: %s",
	   e.text);
	ok(!manifest_text(&m, &text, &len, &e) && !strcmp(text, want), "sorted: %s", text);
	ok(!manifest_parse(&again, text, len, &e) && again.items == 4 && again.total == 3 &&
		   !strcmp(again.key, KEY) && again.item[0].program &&
		   !strcmp(again.item[3].target, "../lib/b.so.1"),
	   "and read back: %s", e.text);
	free(text);
	manifest_free(&again);
	manifest_free(&m);
}

static void refuse(const char *text, const char *what)
{
	struct err e = { 0 };
	struct manifest m;

	ok(manifest_parse(&m, text, strlen(text), &e) == RINGUP_EINVAL && *e.text, "%s: %s",
	   what, e.text);
	manifest_free(&m);
}

static void test_hostile(void)
{
	static const char *const paths[] = { "/etc/passwd", "../x", "a/../../x", "a//b",
					     "./a",         "a/.",  "a/",        "..",
					     "a\\b",        "a\tb", "\x80",      "a\033b" };
	static const char *const targets[] = { "/etc",    "../x", "b/../../x", "b/../c",
					       "../../x", "..",   ".",         "b/" };
	char text[1024];
	size_t i;

	for (i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		snprintf(text, sizeof(text), HEAD "file 644 0 " SUM " %s\nend 1\n", paths[i]);
		refuse(text, "a path");
	}
	for (i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		snprintf(text, sizeof(text), HEAD "link %s d\nend 1\n", targets[i]);
		refuse(text, "a target");
	}
	refuse(HEAD FILE_LINE("a") FILE_LINE("a") "end 2\n", "twice");
	refuse(HEAD FILE_LINE("b") FILE_LINE("a") "end 2\n", "not in order");
	refuse(HEAD FILE_LINE("a") FILE_LINE("a.b") FILE_LINE("a/b") "end 3\n", "below a file");
	refuse(HEAD FILE_LINE("a/b") "link c a\nend 2\n", "through a link");
	refuse(HEAD "link c a\n" FILE_LINE("b") "end 2\n", "a file after a link");
	refuse(HEAD "file 4755 0 " SUM " a\nend 1\n", "setuid");
	refuse(HEAD "file 644 99999999999999999999 " SUM " a\nend 1\n", "huge");
	refuse(HEAD "file 644 999999999999999999 " SUM " a\nend 1\n", "more than a disk");
	refuse(HEAD "file 644 00 " SUM " a\nend 1\n", "a number in two ways");
	refuse(HEAD "file 644 0 " SUM "0 a\nend 1\n", "a sum too long");
	refuse(HEAD "file 644 0 a\nend 1\n", "too few words");
	refuse(HEAD "file 644 0  " SUM "\nend 1\n", "two blanks for a sum");
	refuse(HEAD "file  0 " SUM " a\nend 1\n", "two blanks for a mode");
	refuse(HEAD FILE_LINE("a b") "end 1\n", "a blank");
	refuse(HEAD FILE_LINE("a") "end 2\n", "another count");
	refuse(HEAD FILE_LINE("a"), "no end");
	refuse(HEAD "end 0\nend 0\n", "two ends");
	refuse(HEAD FILE_LINE("a") "end 1", "the last line cut");
	refuse(HEAD "device 1 2 a\nend 1\n", "an unknown kind");
	refuse("ringup-cache/2\nkey " KEY "\nsigner abc\nend 0\n", "another version");
	refuse("ringup-cache/1\nkey abc\nsigner abc\nend 0\n", "no key");
	refuse("", "nothing");
}

static void test_sizes(void)
{
	struct manifest m = { .key = KEY, .signer = "abc" };
	char name[32], text[] = HEAD "end 0\n\0";
	struct manifest_item it = { .path = name };
	struct err e = { 0 };
	int i, rc = 0;

	for (i = 0; !rc && i < MANIFEST_MOST; i++) {
		snprintf(name, sizeof(name), "d%d/f%d", i % 100, i);
		rc = manifest_add(&m, &it, &e);
	}
	ok(!rc, "%d files are allowed: %s", MANIFEST_MOST, e.text);
	ok(manifest_add(&m, &it, &e) == RINGUP_EINVAL, "and no more: %s", e.text);
	manifest_free(&m);
	ok(manifest_parse(&m, text, sizeof(text) - 1, &e) == RINGUP_EINVAL,
	   "a NUL at the end: %s", e.text);
	manifest_free(&m);
	text[5] = 0;
	ok(manifest_parse(&m, text, strlen(HEAD), &e) == RINGUP_EINVAL, "and inside: %s",
	   e.text);
	manifest_free(&m);
	ok(manifest_is_key(KEY) && !manifest_is_key(KEY "0") && !manifest_is_key("A" KEY) &&
		   !manifest_is_key(""),
	   "what a key is");
}

int main(void)
{
	test_round();
	test_hostile();
	test_sizes();
	return tap_done();
}
