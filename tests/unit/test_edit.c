/* test_edit.c - edits are made where their pattern matches, as often as it has to. */
#include "rebuild/edit.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tap.h"

static char *edited(const char *match, const char *with, int times, const char *text,
		    struct err *e)
{
	struct recipe_edit d = {
		.name = "n", .file = "f", .match = match, .with = with, .times = times
	};
	char *out = NULL;

	fail_none(e);
	if (edit_text(&d, text, strlen(text), &out, e))
		return NULL;
	return out;
}

int main(void)
{
	static const struct {
		const char *match, *with;
		int times;
		const char *text, *want; /* NULL: refused */
	} rows[] = {
		{ "b", "x", 1, "a\nb\nc\n", "a\nx\nc\n" },
		{ "b", "x", 1, "abc", "axc" },
		{ "^b$", "x", 1, "ab\nb", "ab\nx" },
		{ "b", "x", 2, "b b\nb\n", "x b\nx\n" },
		{ "b", "x", 1, "b\nb\n", NULL },
		{ "b", "x", 1, "a\n", NULL },
		{ "b", "x", 1, "", NULL },
		{ "(a+)(c?)", "<\\2\\1>", 1, "xaaz\n", "x<aa>z\n" },
		{ "a.*", "\\0 \\n\\t\\\\", 1, "ab\n", "ab \n\t\\\n" },
		{ "a", "b\nc", 1, "a\n\n\n", "b\nc\n\n\n" },
		{ "a|b", "-", 2, "a\nb\nc\n", "-\n-\nc\n" },
		{ "a", "", 1, "xay\n", "xy\n" },
		{ "^", "> ", 1, "a\n", "> a\n" },
	};
	struct recipe_edit d = {
		.name = "n", .file = "f", .match = "b", .with = "x", .times = 1
	};
	struct err e;
	char *out;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		out = edited(rows[i].match, rows[i].with, rows[i].times, rows[i].text, &e);
		if (rows[i].want)
			ok(out && !strcmp(out, rows[i].want), "row %zu: %s", i,
			   out ? out : e.text);
		else
			ok(!out && strstr(e.text, "not the sources"), "row %zu is refused: %s",
			   i, e.text);
		free(out);
	}
	ok(edit_text(&d, "b\0", 2, &out, &e) && strstr(e.text, "no text"), "bytes are no text");
	return tap_done();
}
