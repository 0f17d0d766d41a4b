/* test_rulefile.c - rules of users: the built-in ones as a file, what is refused, and stubs. */
#include "diagnose/rulefile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

static char path[] = "/tmp/test_rulefile.XXXXXX";

static void write_file(const char *text)
{
	FILE *f = fopen(path, "we");

	if (!f)
		abort();
	fputs(text, f);
	fclose(f);
}

static void check_refused(const char *text, const char *why)
{
	struct rulefile r = { 0 };
	struct err e = { 0 };

	write_file(text);
	ok(rulefile_read(&r, path, &e) && strstr(e.text, why) && strstr(e.text, path),
	   "refused: %s", why);
	if (!strstr(e.text, why))
		printf("# %s\n", e.text);
	rulefile_free(&r);
}

/* The built-in table is a file of this form: written and read, it is the same. */
static void check_all(void)
{
	struct rulefile r = { 0 };
	struct err e = { 0 };
	FILE *f = fopen(path, "we");
	int n = signature_count, same = 0;

	for (int i = 0; f && i < n; i++) {
		struct signature s = signatures[i];
		char id[32];

		snprintf(id, sizeof(id), "my-%s", s.id);
		s.id = id;
		rulefile_print(f, &s);
	}
	if (f)
		fclose(f);
	ok(!rulefile_read(&r, path, &e) && r.n == n, "all built-in rules are read: %s", e.text);
	for (int i = 0; i < r.n; i++)
		same += !strcmp(r.list[i].id + 3, signatures[i].id) &&
			!strcmp(r.list[i].texts, signatures[i].texts) &&
			!strcmp(r.list[i].cause, signatures[i].cause) &&
			!strcmp(r.list[i].remedy, signatures[i].remedy) &&
			!strcmp(r.list[i].command, signatures[i].command) &&
			r.list[i].kind == signatures[i].kind &&
			r.list[i].flags == signatures[i].flags;
	ok(same == n, "%d of %d are the same", same, n);
	ok(!rulefile_use(&r, &e) && signature_count == 2 * n && signature_find("my-M1") &&
		   signature_find("M1"),
	   "they are in use before the built-in ones");
	rulefile_free(&r);
	ok(signature_count == n && !signature_find("my-M1"), "and are gone again");
}

static void check_explains(void)
{
	struct rulefile r = { 0 };
	struct err e = { 0 };

	write_file("# one\nrule: a-1\nkind: note\ntext: the gizmo is gone\ncause: no gizmo\n"
		   "fix: buy one\nexplains: S1 M13\r\n\nrule: a-2\ntext: the frob is gone\n"
		   "cause: no frob\nfix: buy one\n");
	ok(!rulefile_read(&r, path, &e) && r.n == 2 && !rulefile_use(&r, &e) &&
		   signature_explains(&signatures[0], signature_find("M13")) &&
		   !signature_explains(&signatures[0], signature_find("M1")) &&
		   !signature_explains(&signatures[1], signature_find("M13")),
	   "a rule says what it explains");
	ok(signatures[1].kind == SIGNATURE_ERROR && !strcmp(signatures[1].library, "user"),
	   "without a kind it is an error, without a library the user's");
	rulefile_free(&r);
	ok(signature_explains(signature_find("K10"), signature_find("S1")),
	   "so do built-in ones");
}

static void check_stub(const char *line, const char *want)
{
	char out[128];

	rulefile_stub(out, sizeof(out), line);
	ok(!strcmp(out, want), "'%s': '%s'", line, want);
	if (strcmp(out, want) != 0)
		printf("# %s\n", out);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	check_all();
	check_explains();
	check_refused("text: x\n", "begins with a line \"rule: ID\"");
	check_refused("rule: a\nfrob: x\n", "\"frob\" is not one of");
	check_refused("rule: a\nkind: bad\n", "kind \"bad\"");
	check_refused("rule: a\nflags: bad\n", "unknown flag \"bad\"");
	check_refused("rule: a\nno colon\n", "not of the form \"key: value\"");
	check_refused("rule: a b\ntext: 12345678\ncause: x\nfix: y\n", "an id must have");
	check_refused("rule: a\ncause: x\nfix: y\n", "no text");
	check_refused("rule: a\ntext: short\ncause: x\nfix: y\n", "7 literal");
	check_refused("rule: a\ntext: literal {frob}\ncause: x\nfix: y\n", "unknown field");
	check_refused("rule: a\ntext: literal {*}\ncause: x\nfix: y\n", "nothing literal");
	check_refused("rule: a\ntext: literal {ip\ncause: x\nfix: y\n", "unknown field");
	check_refused("rule: a\ntext: literal\nfix: y\n", "needs a cause");
	check_refused("rule: a\ntext: literal\ncause: x\n", "needs a fix");
	check_refused("rule: a\ntext: literal\ncause: x\nfix: y\nrun: a; b\n", "one command");
	check_refused("rule: M1\ntext: literal\ncause: x\nfix: y\n", "a built-in rule");
	check_refused("rule: a\ntext: literal\ncause: x\nfix: y\nrule: a\ntext: literal\n"
		      "cause: x\nfix: y\n",
		      "duplicate rule id");
	check_stub("KeyError: 'labels'", "KeyError: 'labels'");
	check_stub("[rank3]: ValueError: 17 gizmos in 4 rows",
		   "ValueError: {errno} gizmos in {errno} rows");
	check_stub("[E1112 10:00:00.1 frob.cpp:12] the gizmo is gone", "the gizmo is gone");
	check_stub("(Worker pid=41) ERROR 11-12 11:02:01 [core.py:708] ValueError: gone",
		   "ValueError: gone");
	check_stub("42 7", "");
	unlink(path);
	return tap_done();
}
