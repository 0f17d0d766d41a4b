/* test_page.c - the page stands alone, and all foreign text in it is text. */
#include "report/page.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "checks.h"
#include "probe/verdict.h"
#include "tap.h"

/* memmem() and not strstr(): a sanitizer measures the whole page at each call of that. */
static int count(const char *s, const char *what)
{
	const char *end = s + strlen(s);
	int n = 0;

	for (; (s = memmem(s, (size_t)(end - s), what, strlen(what))); s++)
		n++;
	return n;
}

static void test_kind(int nodes, enum page_kind kind)
{
	struct probe_facts f;
	struct err e = { 0 };
	char *page = NULL;
	size_t len;
	int i;

	checks_well(&f, nodes);
	snprintf(f.nodes[0].name, FACTS_NAME, "<script>alert('&')</script>");
	snprintf(f.nodes[0].hostname, FACTS_NAME, "\xff\"><img alt=x>\033[31m");
	checks_iface(&f, 0, "<i>&\"'", IFACE_BRIDGE, "172.17.0.1", 16);
	for (i = 0; i < f.npaths; i++)
		if (f.paths[i].to == 0)
			f.paths[i].state = FACTS_FILTERED;
	ok(!verdict_find(&f, &e) && !page_make(&f, kind, &page, &len, &e) &&
		   strlen(page) == len,
	   "%d nodes, %s: %s", nodes, kind == PAGE_HTML ? "HTML" : "SVG", e.text);
	ok(page && !strstr(page, "<script") && !strstr(page, "<img") && !strstr(page, "<i>") &&
		   !strchr(page, 27) && strstr(page, "&lt;script&gt;"),
	   "foreign text is text");
	ok(page && !strstr(page, "src=") && !strstr(page, "href=") &&
		   !strstr(page, "@import") && !strstr(page, "url(h") &&
		   count(page, "http://") ==
			   count(page, "xmlns=\"http://www.w3.org/2000/svg\""),
	   "nothing leads outside");
	ok(page && count(page, "<svg") == count(page, "</svg>") &&
		   count(page, "<g>") == count(page, "</g>") &&
		   count(page, "<text") == count(page, "</text>"),
	   "what begins ends");
	ok(page && strstr(page, "prefers-color-scheme: dark"), "light and dark");
	free(page);
	facts_free(&f);
}

static void test_file(void)
{
	char path[] = "/tmp/test_page-XXXXXX";
	struct probe_facts f;
	struct err e = { 0 };
	int fd = mkstemp(path);

	checks_well(&f, 2);
	ok(!verdict_find(&f, &e) && !page_write(&f, PAGE_SVG, path, &e), "written: %s", e.text);
	ok(page_write(&f, PAGE_SVG, "/dev/null/x", &e) && *e.text, "not written: %s", e.text);
	close(fd);
	unlink(path);
	facts_free(&f);
}

/* What a colour means stands in words beside it. */
static void test_legend(void)
{
	static const char *const words[] = { "all connections work",
					     "none works",
					     "node with an error",
					     "cut off",
					     "not tried",
					     "error: " };
	enum page_kind kind;
	struct probe_facts f;
	struct err e = { 0 };
	char *data;
	size_t len, i;

	for (kind = PAGE_HTML; kind <= PAGE_SVG; kind++) {
		checks_well(&f, 3);
		for (i = 0; i < (size_t)f.npaths; i++)
			if (f.paths[i].to == 1)
				f.paths[i].state = FACTS_FILTERED;
		ok(!verdict_find(&f, &e) && !page_make(&f, kind, &data, &len, &e), "a page");
		for (i = 0; i < 5 + (kind == PAGE_SVG); i++)
			ok(strstr(data, words[i]) != NULL, "it says: %s", words[i]);
		free(data);
		facts_free(&f);
	}
}

int main(void)
{
	static const int nodes[] = { 1, 2, 16, 64, 130 };
	size_t i;

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		test_kind(nodes[i], PAGE_HTML);
		test_kind(nodes[i], PAGE_SVG);
	}
	test_file();
	test_legend();
	return tap_done();
}
