/* test_netpage.c - page and picture stand alone, and all foreign text in them is text. */
#include "report/netpage.h"

#include <jansson.h>
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

static void test_kind(int nodes, enum netpage_kind kind)
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
	ok(!verdict_find(&f, &e) && !netpage_make(&f, kind, &page, &len, &e) &&
		   strlen(page) == len,
	   "%d nodes, %s: %s", nodes, kind == NETPAGE_HTML ? "HTML" : "SVG", e.text);
	ok(page && count(page, "<script") == 2 * (kind == NETPAGE_HTML) &&
		   count(page, "</script") == count(page, "<script") && !strstr(page, "<img") &&
		   !strstr(page, "<i>") && !strchr(page, 27) && strstr(page, "&lt;script&gt;"),
	   "foreign text is text");
	ok(page && !strstr(page, "src=") && !strstr(page, "href=") &&
		   !strstr(page, "@import") && !strstr(page, "url(h") &&
		   count(page, "http://") == count(page, "xmlns='http://www.w3.org/2000/svg'"),
	   "nothing leads outside");
	ok(page && count(page, "<svg") == count(page, "</svg>") &&
		   count(page, "<g>") == count(page, "</g>") &&
		   count(page, "<text") == count(page, "</text>"),
	   "what begins ends");
	ok(page && count(page, "role='img'") == count(page, "<desc>") &&
		   count(page, "<desc>") > 0 && !strstr(page, "var("),
	   "each picture has a name and a description, and colours that any program knows");
	ok(page && strstr(page, "prefers-color-scheme: dark"), "light and dark");
	free(page);
	facts_free(&f);
}

/* What the page's script reads: the verdict, the nodes, and nothing that is not shown. */
static void test_data(void)
{
	static const char begin[] = "id=\"data\">";
	struct probe_facts f;
	struct err e = { 0 };
	const char *from;
	json_t *data, *node;
	char *page = NULL;
	size_t len;

	checks_well(&f, 3);
	snprintf(f.nodes[0].name, FACTS_NAME, "</script><!--<script>&\xe2\x80\xa8");
	snprintf(f.nodes[1].machine_id, FACTS_ID, "0123456789");
	ok(!verdict_find(&f, &e) && !netpage_make(&f, NETPAGE_HTML, &page, &len, &e), "a page");
	from = page ? strstr(page, begin) : NULL;
	data = from ? json_loads(from + strlen(begin), JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	node = json_array_get(json_object_get(data, "nodes"), 0);
	ok(data && json_is_true(json_object_get(data, "well")) &&
		   json_integer_value(json_object_get(data, "connections")) == f.npaths &&
		   !strcmp(json_string_value(json_object_get(data, "verdict")), f.verdict),
	   "the verdict");
	ok(node && !strcmp(json_string_value(json_object_get(node, "name")), f.nodes[0].name) &&
		   json_array_size(json_object_get(data, "nodes")) == 3,
	   "the nodes, whatever they are called");
	ok(!json_object_get(data, "paths") && !json_object_get(node, "machine_id") &&
		   !json_object_get(node, "firewall") &&
		   json_object_size(json_object_get(node, "snapshot")) == 2 &&
		   !strstr(page, "0123456789"),
	   "what is not shown is not in it");
	json_decref(data);
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
	ok(!verdict_find(&f, &e) && !netpage_write(&f, NETPAGE_SVG, path, &e), "written: %s",
	   e.text);
	ok(netpage_write(&f, NETPAGE_SVG, "/dev/null/x", &e) && *e.text, "not written: %s",
	   e.text);
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
	enum netpage_kind kind;
	struct probe_facts f;
	struct err e = { 0 };
	char *data;
	size_t len, i;

	for (kind = NETPAGE_HTML; kind <= NETPAGE_SVG; kind++) {
		checks_well(&f, 3);
		for (i = 0; i < (size_t)f.npaths; i++)
			if (f.paths[i].to == 1)
				f.paths[i].state = FACTS_FILTERED;
		ok(!verdict_find(&f, &e) && !netpage_make(&f, kind, &data, &len, &e), "a page");
		for (i = 0; i < 5 + (kind == NETPAGE_SVG); i++)
			ok(strstr(data, words[i]) != NULL, "it says: %s", words[i]);
		free(data);
		facts_free(&f);
	}
}

int main(void)
{
	static const int nodes[] = { 1, 2, 16, 64, 130 };
	size_t i;

	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		test_kind(nodes[i], NETPAGE_HTML);
		test_kind(nodes[i], NETPAGE_SVG);
	}
	test_data();
	test_file();
	test_legend();
	return tap_done();
}
