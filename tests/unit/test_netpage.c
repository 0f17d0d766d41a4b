/* test_netpage.c - the page stands alone, and all foreign text in it is text. */
#include "report/netpage.h"

#include <jansson.h>
#include <sodium.h>
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

static void test_text(int nodes)
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
	ok(!verdict_find(&f, &e) && !netpage_make(&f, &page, &len, &e) && strlen(page) == len,
	   "%d nodes: %s", nodes, e.text);
	ok(page && count(page, "<script") == 2 && count(page, "</script") == 2 &&
		   !strstr(page, "<img") && !strstr(page, "<i>") && !strchr(page, 27) &&
		   strstr(page, "\\u003cscript\\u003e"),
	   "foreign text is text");
	ok(page && !strstr(page, "src=") && !strstr(page, "href=") &&
		   !strstr(page, "@import") && !strstr(page, "url(h") &&
		   count(page, "http") == 2 &&
		   strstr(page, "createElementNS(\"http://www.w3.org/2000/svg\""),
	   "nothing leads outside");
	ok(page && strstr(page, "prefers-color-scheme: dark"), "light and dark");
	free(page);
	facts_free(&f);
}

/* A browser runs the script only if the policy has its hash. */
static void test_policy(void)
{
	static const char begin[] = "\n<script>", end[] = "</script>\n</body>";
	unsigned char hash[crypto_hash_sha256_BYTES];
	char name[80] = "script-src 'sha256-", *page = NULL;
	const char *from;
	struct probe_facts f;
	struct err e = { 0 };
	size_t len;

	checks_well(&f, 2);
	ok(!verdict_find(&f, &e) && !netpage_make(&f, &page, &len, &e), "a page: %s", e.text);
	from = page ? strstr(page, begin) : NULL;
	ok(from && strstr(from, end), "it has a script");
	if (!from || !strstr(from, end))
		return;
	from += strlen(begin);
	crypto_hash_sha256(hash, (const unsigned char *)from,
			   (unsigned long long)(strstr(from, end) - from));
	sodium_bin2base64(name + strlen(name), sizeof(name) - strlen(name), hash, sizeof(hash),
			  sodium_base64_VARIANT_ORIGINAL);
	ok(strstr(page, name) != NULL, "page.html has to say: %s'", name);
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
	ok(!verdict_find(&f, &e) && !netpage_make(&f, &page, &len, &e), "a page");
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
	ok(json_array_size(json_object_get(json_object_get(data, "map"), "pairs")) == 6 &&
		   json_array_size(json_object_get(json_object_get(data, "map"), "ports")) > 2,
	   "each pair, and where each node is on which network");
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
	ok(!verdict_find(&f, &e) && !netpage_write(&f, path, &e), "written: %s", e.text);
	ok(netpage_write(&f, "/dev/null/x", &e) && *e.text, "not written: %s", e.text);
	close(fd);
	unlink(path);
	facts_free(&f);
}

int main(void)
{
	static const int nodes[] = { 1, 2, 16, 64, 130 };
	size_t i;

	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		test_text(nodes[i]);
	test_policy();
	test_data();
	test_file();
	return tap_done();
}
