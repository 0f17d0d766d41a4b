/* test_out.c - tables align, JSON is valid, control characters do not pass. */
#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static char text[4096];
static int sink = -1, real;

/* From here on stdout goes to a file in memory... */
static void listen(void)
{
	fflush(stdout);
	sink = memfd_create("out", MFD_CLOEXEC);
	if (sink < 0 || dup2(sink, 1) < 0)
		exit(99);
}

/* ...until it is wanted. */
static const char *heard(void)
{
	ssize_t n;

	fflush(stdout);
	n = pread(sink, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	close(sink);
	dup2(real, 1);
	return text;
}

static void test_table(void)
{
	static const char *const heads[] = { "NAME", "N", "TEXT", NULL };
	struct out_table t;
	struct err e;
	int rc;

	out_table_init(&t, heads);
	t.right = 1 << 1;
	out_table_cell(&t, OUT_PLAIN, "a");
	out_table_cell(&t, OUT_GOOD, "%d", 100);
	out_table_cell(&t, OUT_PLAIN, "x\ny\033");
	out_table_cell(&t, OUT_PLAIN, "l\303\244nger");
	out_table_cell(&t, OUT_PLAIN, "1");
	out_table_cell(&t, OUT_PLAIN, "z\302\233");
	out_table_cell(&t, OUT_PLAIN, "a row that is not whole");
	listen();
	rc = out_table_print(&t, &e);
	heard();
	ok(rc == 0 && !strcmp(text, "NAME      N  TEXT\n"
				    "a       100  x?y?\n"
				    "l\303\244nger    1  z??\n"),
	   "columns align, by characters and not by bytes");
	ok(strstr(text, "x?y?\n") && strstr(text, "z??\n"),
	   "control characters are shown as ?");
	ok(!strstr(text, "whole"), "an unfinished row is not shown");
	out_table_init(&t, heads);
	listen();
	rc = out_table_print(&t, &e);
	ok(rc == 0 && !strcmp(heard(), "NAME  N  TEXT\n"), "an empty table has its headings");
}

static void test_json(void)
{
	static const char *const bytes[] = {
		"plain",
		"gr\303\274n",
		"\377",
		"a\300\200b",
		"\355\240\200",
		"\360\237\230",
		"\360\237\230\200",
		"\370\200\200\200\200",
		"",
	};
	struct err e = { 0 };
	size_t i;
	int rc;

	for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		json_t *s = out_string(bytes[i]);

		ok(json_is_string(s), "string %zu: %s", i, s ? json_string_value(s) : "none");
		json_decref(s);
	}
	listen();
	rc = out_json(json_pack("{ss}", "k", "v"), &e);
	ok(rc == 0 && !strcmp(heard(), "{\n  \"k\": \"v\"\n}\n"), "an object");
	ok(out_json(NULL, &e) == RINGUP_ENOMEM, "no object is no memory");
}

static void test_end(void)
{
	struct err e = { 0 };
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC), rc;

	if (full < 0) {
		printf("ok %d - a full disk # SKIP no /dev/full\n", ++tap_count);
		return;
	}
	fflush(stdout);
	dup2(full, 1);
	out_text("%s", "something");
	rc = out_end(&e);
	dup2(real, 1);
	ok(rc == RINGUP_ESYSTEM && strstr(e.text, "No space left"), "a full disk: %s", e.text);
	ok(out_end(&e) == 0, "is told once");
	fflush(stdout);
	dup2(full, 1);
	/* Written before the end, and errno has changed since. */
	out_text("%*s", 1 << 16, "much");
	out_note("%s", "");
	errno = 0;
	rc = out_end(&e);
	dup2(real, 1);
	close(full);
	ok(rc == RINGUP_ESYSTEM && strstr(e.text, "No space left"), "also in between: %s",
	   e.text);
}

int main(void)
{
	real = dup(1);
	out_start();
	test_table();
	test_json();
	test_end();
	return tap_done();
}
