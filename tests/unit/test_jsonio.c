/* test_jsonio.c - bytes that are no UTF-8, members that do not fit, files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "ringup.h"
#include "tap.h"

static void test_text(void)
{
	json_t *good = jsonio_text("caf\xc3\xa9"), *bad = jsonio_text("a\xff\xc3z");

	ok(!strcmp(json_string_value(good), "caf\xc3\xa9"), "UTF-8 stays as it is");
	ok(!strcmp(json_string_value(bad), "a??z"), "other bytes become as many '?'");
	json_decref(bad);
	bad = jsonio_text("caf\xc3\xa9 \xed\xa0\x80 \xe2\x82");
	ok(!strcmp(json_string_value(bad), "caf\xc3\xa9 ??? ??"), "and leave the others alone");
	json_decref(good);
	json_decref(bad);
}

static void test_members(void)
{
	json_t *j = json_pack("{ss sn si sI ss}", "text", "four", "null", "five", 5, "large",
			      (json_int_t)1 << 40, "word", "5");
	char out[5];
	int n;

	ok(jsonio_get_text(j, "text", out, 5) && !strcmp(out, "four"), "a text that fits");
	ok(!jsonio_get_text(j, "text", out, 4) && !*out, "and one that does not");
	ok(jsonio_get_text(j, "null", out, 5) && !*out && jsonio_get_text(j, "none", out, 5),
	   "null and nothing are empty");
	ok(!jsonio_get_text(j, "five", out, 5), "a number is no text");
	ok(jsonio_get_int(j, "five", 0, 5, 9, &n) && n == 5, "a number in its bounds");
	ok(!jsonio_get_int(j, "five", 0, 4, 9, &n) && !jsonio_get_int(j, "five", 6, 9, 9, &n) &&
		   !jsonio_get_int(j, "large", 0, 1 << 30, 9, &n),
	   "and outside");
	ok(jsonio_get_int(j, "null", 0, 5, 9, &n) && n == 9, "what stands for an absent one");
	ok(!jsonio_get_int(j, "word", 0, 9, 9, &n), "a text is no number");
	json_decref(j);
}

static void test_files(void)
{
	char path[] = "jsonio.XXXXXX";
	struct err e = { 0 };
	int fd = mkstemp(path);
	json_t *j;

	ok(fd >= 0 && write(fd, "{\"a\": 1}\n", 9) == 9 && !close(fd), "a file");
	j = jsonio_read(path, 100, &e);
	ok(json_is_object(j), "is read");
	json_decref(j);
	ok(!jsonio_read(path, 5, &e) && e.code, "within its bound");
	ok(truncate(path, 4) == 0 && !jsonio_read(path, 100, &e) && e.code == RINGUP_EINVAL &&
		   strstr(e.text, "line 1"),
	   "and with the place of what is wrong");
	unlink(path);
}

int main(void)
{
	test_text();
	test_members();
	test_files();
	return tap_done();
}
