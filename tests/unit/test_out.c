/* test_out.c - tables align, JSON is valid, control characters do not pass. */
#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* A terminal of @columns as stdout; its other side. */
static int terminal(int columns)
{
	struct winsize w = { .ws_row = 24, .ws_col = (unsigned short)columns };
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;

	if (master < 0 || grantpt(master) || unlockpt(master))
		exit(99);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	fflush(stdout);
	if (slave < 0 || ioctl(slave, TIOCSWINSZ, &w) || dup2(slave, 1) < 0)
		exit(99);
	close(slave);
	return master;
}

/* What it has got by now, without the CR that terminals put before a newline. */
static const char *shown(int master)
{
	char *from, *to = text;
	ssize_t n;

	fflush(stdout);
	n = read(master, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	for (from = text; *from; from++)
		if (*from != '\r')
			*to++ = *from;
	*to = 0;
	dup2(real, 1);
	close(master);
	return text;
}

static void test_fold(void)
{
	static const char *const heads[] = { "A", "WHY", NULL };
	struct out_table t;
	struct err e;
	int master, columns;

	listen();
	columns = out_width();
	out_fold(OUT_PLAIN, 0, 4, "%s",
		 "one two three four five six seven eight nine ten eleven");
	ok(!strcmp(heard(), "one two three four five six seven eight nine ten eleven\n"),
	   "without a terminal a line is a line: %s", text);
	ok(columns == 0, "a file has no width");

	master = terminal(30);
	columns = out_width();
	out_text("ab: ");
	out_fold(OUT_PLAIN, 4, 4, "%s", "one two three four five six seven eight nine");
	ok(!strcmp(shown(master), "ab: one two three four five\n    six seven eight nine\n"),
	   "folded at blanks, indented: %s", text);
	ok(columns == 30, "a terminal has a width");

	master = terminal(30);
	out_fold(OUT_PLAIN, 0, 2, "%s",
		 "see /a/path/that/is/longer/than/the/terminal/is \xc3\xa4\xc3\xa4 end");
	ok(!strcmp(shown(master), "see\n  /a/path/that/is/longer/than/the/terminal/is\n  "
				  "\xc3\xa4\xc3\xa4 end\n"),
	   "a long word stays whole: %s", text);

	master = terminal(30);
	out_fold(OUT_PLAIN, 0, 20, "%s", "one two three four five six seven eight nine");
	ok(!strcmp(shown(master), "one two three four five six seven eight nine\n"),
	   "too narrow to be worth it: %s", text);

	master = terminal(40);
	out_table_init(&t, heads);
	out_table_cell(&t, OUT_PLAIN, "x");
	out_table_cell(&t, OUT_PLAIN, "one two three four five six seven eight nine ten");
	ok(!out_table_print(&t, &e) &&
		   !strcmp(shown(master),
			   "A  WHY\nx  one two three four five six seven\n   eight nine ten\n"),
	   "the last column of a table: %s", text);
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
	test_fold();
	test_json();
	test_end();
	return tap_done();
}
