/* test_yaml.c - what is read of YAML, and what is refused by its line. */
#include "base/yaml.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static char seen[4096];

static int note(void *ctx, const struct yaml_item *item, struct err *e)
{
	size_t n = strlen(seen);

	(void)ctx;
	if (!strcmp(item->value, "stop"))
		return fail(e, RINGUP_EBUSY, "line %d: as the caller says", item->line);
	snprintf(seen + n, sizeof(seen) - n, "%d %s.%s=%s%s;", item->line, item->section,
		 item->key, item->value, item->is_quoted ? "'" : "");
	return 0;
}

static int get(const char *text, struct err *e)
{
	*seen = 0;
	fail_none(e);
	return yaml_read(text, strlen(text), note, NULL, e);
}

static void check(const char *text, const char *want)
{
	struct err e;
	int rc = get(text, &e);

	ok(!rc && !strcmp(seen, want), "read '%s'", want);
	if (rc || strcmp(seen, want))
		printf("# %s / %s\n", seen, e.text);
}

static void check_wrong(const char *text, const char *why)
{
	struct err e;

	ok(get(text, &e) == RINGUP_EINVAL && strstr(e.text, why), "refused: %s", why);
	if (!strstr(e.text, why))
		printf("# %s\n", e.text);
}

int main(void)
{
	static char much[2000];
	struct err e;

	check("", "");
	check("# nothing\n\n   \n", "");
	check("---\ncontroller: gloo\n", "2 .controller=gloo;");
	check("params:\n  cycle_time_ms: 10\n  cache_capacity: 2048 # names\n\nlogging:\n"
	      "    level: INFO\ncontroller: mpi",
	      "2 params.cycle_time_ms=10;3 params.cache_capacity=2048;6 logging.level=INFO;"
	      "7 .controller=mpi;");
	check("a:\n  b: 'it''s # here'\n  c: \"x \\\"y\\\" \\\\\"\r\n", //
	      "2 a.b=it's # here';3 a.c=x \"y\" \\';");
	check("a: b#c\nd:   e f  \ng: http://h:1/\n", "1 .a=b#c;2 .d=e f;3 .g=http://h:1/;");
	check("a: ~\nb: null\nc:\nd: 'null'\ne:\n  f:\n  g: -1\n", "4 .d=null';7 e.g=-1;");

	check_wrong("a: 1\nb\n", "line 2: not \"key: value\"");
	check_wrong("a:1\n", "line 1: a blank is missing");
	check_wrong("a:\n  - 1\n", "line 2: a list");
	check_wrong("a: - 1\n", "a list");
	check_wrong("a: [1, 2]\n", "not one plain value");
	check_wrong("a: {b: 1}\n", "not one plain value");
	check_wrong("a: &x 1\n", "not one plain value");
	check_wrong("a: |\n  text\n", "line 1: not one plain value");
	check_wrong("a: b: c\n", "a colon in a value");
	check_wrong("a:\n\tb: 1\n", "line 2: a tab");
	check_wrong("  a: 1\n", "no section precedes it");
	check_wrong("a: 1\n  b: 2\n", "no section precedes it");
	check_wrong("a:\n  b: 1\n    c: 2\n", "line 3: not indented as the line above");
	check_wrong("a:\n  b:\n    c: 2\n", "line 3: not indented as the line above");
	check_wrong("a: 'b\n", "a quote is not closed");
	check_wrong("a: \"b\\n\"\n", "may follow \\");
	check_wrong("a: 'b' c\n", "something behind the value");
	check_wrong("a: 1\n---\nb: 2\n", "line 2: a second document");
	check_wrong("a: b\x01\n", "a control character");
	memset(much, 'a', 100);
	check_wrong(much, "a key must be shorter");
	snprintf(much, sizeof(much), "a: %01500d\n", 0);
	check_wrong(much, "a value must be shorter");
	ok(yaml_read("a\0: b", 5, note, NULL, &e) == RINGUP_EINVAL, "a NUL byte is refused");
	ok(yaml_read(NULL, YAML_FILE_BYTES + 1, note, NULL, &e) == RINGUP_EINVAL,
	   "a long file is refused unread");
	ok(get("a: 1\nb: stop\nc: 3\n", &e) == RINGUP_EBUSY && !strcmp(seen, "1 .a=1;") &&
		   strstr(e.text, "line 2: as the caller says"),
	   "the caller can end it");
	return tap_done();
}
