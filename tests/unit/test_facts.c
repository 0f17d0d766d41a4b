/* test_facts.c - facts have room for as many as there are, and nothing is lost. */
#include "probe/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "checks.h"
#include "ringup.h"
#include "tap.h"

static void test_room(void)
{
	struct probe_facts f = { 0 };
	struct probe_path *p;
	struct probe_node *n;
	int i;

	for (i = 0; i < 100; i++) {
		p = facts_add_path(&f);
		p->from = i;
	}
	ok(f.npaths == 100 && f.paths[0].from == 0 && f.paths[99].from == 99,
	   "a hundred paths keep their order");
	ok(f.paths[50].answered == -1 && f.paths[50].mtu.segment == -1 &&
		   f.paths[50].latency_min_us < 0 && f.paths[50].bandwidth_mbs < 0,
	   "what has not been measured is not 0");
	n = facts_add_node(&f, "n1");
	ok(!strcmp(n->name, "n1") && !facts_add_rule(n, "drop") && facts_add_host(n, "n2") &&
		   facts_add_use(n) && n->nuses == 1 && n->nresolves == 1 &&
		   !strcmp(n->firewall[0], "drop"),
	   "a node has uses, names and rules");
	facts_add_finding(&f)->what = strdup("it rains");
	ok(f.findings[0].from == -1, "a finding need not be about a path");
	facts_free(&f);
	ok(!f.paths && !f.nodes && !f.findings, "nothing is left");
}

static void test_unmeasured(void)
{
	struct probe_facts f;
	int n, of;

	checks_well(&f, 3);
	n = facts_unmeasured(&f, &of);
	ok(n == 0 && of == 6, "one path to each other node, and all are measured");
	f.paths[0].latency_median_us = f.paths[3].latency_median_us = -1;
	f.paths[3].state = FACTS_FILTERED;
	n = facts_unmeasured(&f, &of);
	ok(n == 1 && of == 5, "one is not, and one cannot be");
	facts_free(&f);
}

static void test_round(void)
{
	struct probe_facts f, g;
	struct probe_finding *p;
	struct err e = { 0 };
	json_t *first, *second;

	checks_well(&f, 3);
	facts_add_rule(&f.nodes[1], "nft: a \"rule\", and \xff of no alphabet");
	snprintf(f.nodes[2].error, FACTS_TEXT, "ssh: no");
	f.paths[0].state = FACTS_IMPOSTOR;
	f.paths[0].answered = 2;
	f.paths[1].via[0] = 0;
	first = facts_json(&f);
	ok(first && !facts_parse(&g, first, &e), "what is written is read: %s", e.text);
	second = facts_json(&g);
	ok(json_equal(first, second), "and written again, it is the same");
	ok(g.nnodes == 3 && g.nodes[1].nfirewall == 1 && g.nodes[0].nresolves == 3 &&
		   g.nodes[0].snapshot.ifaces.nifaces == 2 && g.paths[0].answered == 2 &&
		   g.paths[0].mtu.df == 8972 && g.paths[1].latency_min_us < 0,
	   "nothing is lost");
	json_decref(first);
	json_decref(second);
	facts_free(&g);

	p = facts_add_finding(&f);
	p->severity = FACTS_ERROR;
	p->what = strdup("it rains");
	p->to = 1;
	f.verdict = strdup("it rains");
	first = facts_json(&f);
	second = json_array_get(json_object_get(first, "findings"), 0);
	ok(!strcmp(json_string_value(json_object_get(second, "what")), "it rains") &&
		   !strcmp(json_string_value(json_object_get(second, "to")), "n2") &&
		   !strcmp(json_string_value(json_object_get(second, "severity")), "error") &&
		   json_is_null(json_object_get(second, "from")) &&
		   !strcmp(json_string_value(json_object_get(first, "verdict")), "it rains"),
	   "findings and verdict are written");
	ok(!facts_parse(&g, first, &e) && !g.nfindings && !g.verdict, "but not believed");
	json_decref(first);
	facts_free(&f);
	facts_free(&g);
}

/* A check of @text, with ' for ", is refused; the sentence says what is wrong. */
static void refuse(const char *text, const char *says)
{
	struct probe_facts f;
	struct err e = { 0 };
	char copy[2048], *q;
	json_t *j;

	snprintf(copy, sizeof(copy), "{'schema': 'ringup.net.check/1', %s}", text);
	for (q = copy; *q; q++)
		*q = *q == '\'' ? '"' : *q;
	j = json_loads(copy, 0, NULL);
	ok(j && facts_parse(&f, j, &e) == RINGUP_EINVAL && strstr(e.text, says), "%s: %s", text,
	   e.text);
	facts_free(&f);
	json_decref(j);
}

static void test_refused(void)
{
	static const char two[] =
		"'nodes': [{'name': 'a'}, {'name': 'b'}], 'paths': [{'from': 'a', ";
	static const char *const paths[] = {
		"'to': 'c', 'state': 'open'",
		"'to': 'a', 'state': 'open'",
		"'to': 'b'",
		"'to': 'b', 'state': 'ajar'",
		"'to': 'b', 'state': 'open', 'address': 'eth0'",
		"'to': 'b', 'state': 'open', 'address': 'fe80::1%lo'",
		"'to': 'b', 'state': 'open', 'interface': 'aninterfacewithalongname'",
		"'to': 'b', 'state': 'open', 'port': {'number': 65536}",
		"'to': 'b', 'state': 'open', 'bandwidth_mbs': -1",
		"'to': 'b', 'state': 'open', 'bandwidth_mbs': 1e300",
		"'to': 'b', 'state': 'open', 'latency_us': {'median': '5'}",
		"'to': 'b', 'state': 'open', 'mtu': {'df': -28}",
		"'to': 'b', 'state': 'open', 'mtu': {'segment': 1}",
	};
	char text[512];
	size_t i;

	refuse("'seconds': 'many'", "seconds");
	refuse("'nodes': {}", "nodes: not a list");
	refuse("'nodes': [{}]", "nodes[0]: it has no name");
	refuse("'nodes': [{'name': 'a', 'uses': 5}]", "nodes[0]");
	refuse("'nodes': [{'name': 'a', 'firewall': [5]}]", "nodes[0]");
	refuse("'nodes': [{'name': 'a', 'snapshot': {}}]", "nodes[0]: snapshot: its schema");
	refuse("'nodes': [{'name': 'a', 'resolves': [{'name': 'b', 'addresses': ['x']}]}]",
	       "nodes[0]");
	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		snprintf(text, sizeof(text), "%s%s}]", two, paths[i]);
		refuse(text, "paths[0] is not understood");
	}
}

static json_t *repeat(json_t *one, int n)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_array_append(list, one);
	json_decref(one);
	return list;
}

/* Does the parser look at @n of what @member lists, or find it too long? */
static bool looks_at(const char *member, int n)
{
	bool has_paths = !strcmp(member, "paths"), has_rules = !strcmp(member, "firewall");
	json_t *nodes, *all;
	struct probe_facts f;
	struct err e = { 0 };
	bool looks;

	nodes = has_rules ? json_pack("[{ss so}]", "name", "a", member,
				      repeat(json_string("drop"), n))
			  : repeat(json_object(), has_paths ? 0 : n);
	all = json_pack("{ss so so}", "schema", "ringup.net.check/1", "nodes", nodes, "paths",
			repeat(json_object(), has_paths ? n : 0));
	looks = !facts_parse(&f, all, &e) || strstr(e.text, "[0] is not understood") ||
		strstr(e.text, "has no name");
	facts_free(&f);
	json_decref(all);
	return looks;
}

static void test_limits(void)
{
	ok(looks_at("nodes", 4095) && !looks_at("nodes", 4096), "so many nodes");
	ok(looks_at("firewall", 4096) && !looks_at("firewall", 4097), "rules of a node");
	ok(looks_at("paths", 1 << 18) && !looks_at("paths", (1 << 18) + 1), "and paths");
}

int main(void)
{
	test_room();
	test_unmeasured();
	test_round();
	test_refused();
	test_limits();
	ok(!strcmp(facts_state_text(FACTS_FILTERED), "filtered") &&
		   !strcmp(facts_state_text(99), "?"),
	   "states have words");
	return tap_done();
}
