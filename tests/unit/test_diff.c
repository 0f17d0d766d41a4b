/* test_diff.c - differences are told as patch(1) takes them, and never a reason to fail. */
#include "settle/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tap.h"

static int is_told(const char *a, const char *b, const char *want)
{
	struct err e = { 0 };
	char *text = (char *)"?";
	int same = !diff_make(&text, "/etc/a", a, b, &e) &&
		   (want ? text && !strcmp(text, want) : !text);

	if (!same)
		printf("# got: %s\n", text ? text : "nothing");
	free(text);
	return same;
}

static void test_texts(void)
{
	ok(is_told("x\n", "x\n", NULL) && is_told(NULL, NULL, NULL) && is_told("", "", NULL),
	   "the same is nothing");
	ok(is_told("x\n", "y\n", "--- /etc/a\n+++ /etc/a\n@@ -1 +1 @@\n-x\n+y\n"), "a line");
	ok(is_told(NULL, "y\n", "--- /dev/null\n+++ /etc/a\n@@ -0,0 +1 @@\n+y\n"),
	   "a new file");
	ok(is_told("x\n", NULL, "--- /etc/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"),
	   "one that goes");
	ok(is_told("x", "x\n",
		   "--- /etc/a\n+++ /etc/a\n@@ -1 +1 @@\n-x\n\\ No newline at end of "
		   "file\n+x\n"),
	   "the end of a line");
	ok(is_told("\xff\n", "\xfe\n", "--- /etc/a\n+++ /etc/a\n@@ -1 +1 @@\n-\xff\n+\xfe\n"),
	   "any bytes");
}

static void test_long(void)
{
	size_t len = 2 << 20;
	char *a = malloc(len + 1), *b, *text;
	struct err e = { 0 };

	memset(a, '\n', len);
	a[len] = 0;
	b = strdup(a);
	b[len / 2] = 'x';
	ok(!diff_make(&text, "/etc/a", a, b, &e) && text && strstr(text, "\n+x\n") &&
		   strlen(text) < 200,
	   "a long file");
	free(text);
	free(a);
	free(b);
}

/* Where there is no diff, that is said, and the change is one all the same. */
static void test_without(void)
{
	char *path = strdup(getenv("PATH")), *text;
	struct err e = { 0 };

	setenv("PATH", "/nonexistent", 1);
	ok(!diff_make(&text, "/etc/a", "secret\n", "y\n", &e) && text && !e.code &&
		   strstr(text, "/etc/a changes") && strstr(text, "diff") &&
		   !strstr(text, "secret"),
	   "no diff: %s", text ? text : "nothing");
	free(text);
	ok(is_told("x\n", "x\n", NULL), "what is the same needs none");
	setenv("PATH", path, 1);
	free(path);
}

int main(void)
{
	if (system("diff --version >/dev/null 2>&1") == 0) {
		test_texts();
		test_long();
	} else {
		ok(1, "differences # SKIP diff is not installed");
	}
	test_without();
	return tap_done();
}
