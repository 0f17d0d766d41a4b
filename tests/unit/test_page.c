/* test_page.c - a page admits its own script alone, and shows any data as it is. */
#include "report/page.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tap.h"

static char *page_of(const struct page *p, struct err *e)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int rc = page_put(out, p, e);

	fclose(out);
	if (!rc)
		return text;
	free(text);
	return NULL;
}

static int count(const char *s, const char *what)
{
	int n = 0;

	for (; (s = strstr(s, what)); s++)
		n++;
	return n;
}

/* Is what the policy names the hash of what a browser would run? */
static int is_script_named(const char *page)
{
	const char *from = strstr(page, "<script>"),
		   *to = from ? strstr(from, "</script>") : NULL;
	unsigned char hash[crypto_hash_sha256_BYTES];
	char name[128] = "script-src 'sha256-";

	if (!to)
		return 0;
	from += strlen("<script>");
	crypto_hash_sha256(hash, (const unsigned char *)from, (unsigned long long)(to - from));
	sodium_bin2base64(name + strlen(name), sizeof(name) - strlen(name), hash, sizeof(hash),
			  sodium_base64_VARIANT_ORIGINAL);
	strncat(name, "'", sizeof(name) - strlen(name) - 1);
	return strstr(page, name) != NULL;
}

int main(void)
{
	static const char hostile[] = "</script><script>x()</script><!-- @title@ &\"'\x1b";
	json_t *data = json_pack("{ss ss}", "schema", "x", "name", hostile), *again;
	struct page p = { hostile, "<svg></svg>\n", data };
	struct err e = { 0 };
	const char *from;
	char *text;

	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	text = page_of(&p, &e);
	ok(text != NULL, "a page: %s", e.text);
	if (!text)
		return tap_done();
	ok(is_script_named(text), "the policy names the script that stands there");
	ok(count(text, "<script") == 2 && count(text, "</script") == 2 &&
		   !strstr(text, "script>x()") && !strchr(text, 27),
	   "there is no other, whatever texts say");
	ok(count(text, "&lt;/script&gt;") == 4, "the title is a text, at its two places");
	from = strstr(text, "id=\"data\">");
	again = json_loads(strchr(from, '>') + 1, JSON_DISABLE_EOF_CHECK, NULL);
	ok(json_equal(again, data), "the data are in it, byte for byte");
	ok(count(text, "<svg></svg>\n") == 1 && strstr(text, "prefers-color-scheme: dark") &&
		   !strstr(text, "var(") && !strstr(text, "src=") && !strstr(text, "href="),
	   "pictures, light and dark, and nothing from elsewhere");
	json_decref(again);
	json_decref(data);
	free(text);
	return tap_done();
}
