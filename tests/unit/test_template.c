/* test_template.c - fields are filled in once, and what is no field is told. */
#include "report/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tap.h"

static int fills(const char *text, const char *expect)
{
	static const struct template_field fields[] = { { "a", "@b@" },
							{ "b", "" },
							{ "c3", "<" } };
	struct err e = { 0 };
	char *got = NULL;
	size_t len;
	FILE *out = open_memstream(&got, &len);
	int rc = template_put(out, text, fields, 3, &e);

	fclose(out);
	rc = expect ? !rc && !strcmp(got, expect) : rc && *e.text;
	free(got);
	return rc;
}

int main(void)
{
	struct err e = { 0 };
	char *text;

	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	ok(fills("", "") && fills("x", "x") && fills("x@a@y@b@z@c3@", "x@b@yz<"),
	   "fields, in which none is looked for");
	ok(fills("@", "@") && fills("@@", "@@") && fills("a@b", "a@b") &&
		   fills("@media (x)", "@media (x)") && fills("@ a@a@", "@ a@b@"),
	   "an @ that begins no name stays");
	ok(fills("x@nothing@", NULL) && fills("@c@", NULL),
	   "a name that is no field's is told");
	ok(!template_load(&text, "page.html", &e) && strstr(text, "@data@"), "a file: %s",
	   e.text);
	free(text);
	ok(template_load(&text, "nothing.html", &e) < 0 && !text && strstr(e.text, "install"),
	   "none: %s", e.text);
	return tap_done();
}
