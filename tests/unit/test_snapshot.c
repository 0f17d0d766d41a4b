/* test_snapshot.c - what is written is read again; anything else is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "host/snapshot.h"
#include "ringup.h"
#include "tap.h"

static const char machine[] =
	"{'schema': 'ringup.net.snapshot/1', 'later': [1],"
	" 'interfaces': [{'index': 1, 'name': 'lo', 'type': 'loopback', 'flags': ['UP']},"
	"  {'index': 7, 'name': 'eth0', 'speed_mbps': 10000, 'mtu': 9000, 'flags': []}],"
	" 'addresses': [{'interface': 7, 'address': 'fe80::1%7', 'prefix': 64, 'scope': "
	"'link'},"
	"  {'interface': 7, 'address': '10.0.0.5', 'prefix': 24, 'label': 'eth0:1'}],"
	" 'routes': [{'to': '0.0.0.0', 'prefix': 0, 'interface': 7, 'metric': 4294967295,"
	"  'via': '10.0.0.1'}],"
	" 'hostname': 'me', 'hosts': [{'name': 'me', 'addresses': ['127.0.1.1']}],"
	" 'settings': [{'name': 'A', 'value': 'b', 'source': 'f:1'}],"
	" 'pins': [{'name': 'P', 'value': 'p', 'source': 'g:1', 'via': 'pinned'}],"
	" 'env_plugins': [{'name': 'x', 'path': '/x.so', 'loads': true, 'ringup': true,"
	"  'takes': ['v1', 'v2', 'v9']}, {'name': 'y'}],"
	" 'sources': [{'path': '/etc/nccl.conf', 'grammar': 'nccl',"
	"  'lines': [{'line': 3, 'text': 'NCCL_SOCKET_IFNAME=eth0\\r'}]}]}";

/* JSON with ' for ", so that it can be read here. */
static json_t *load(const char *text)
{
	char copy[2048], *q;

	snprintf(copy, sizeof(copy), "%s", text);
	for (q = copy; *q; q++)
		*q = *q == '\'' ? '"' : *q;
	return json_loads(copy, 0, NULL);
}

static void test_round(void)
{
	json_t *j = load(machine), *again;
	struct snapshot s, t;
	struct err e = { 0 };

	ok(snapshot_parse(&s, j, &e) == 0, "parse: %s", e.text);
	ok(s.ifaces.nifaces == 2 && s.ifaces.ifaces[1].mtu == 9000 &&
		   s.ifaces.ifaces[0].speed_mbps == -1,
	   "interfaces");
	ok(s.ifaces.naddrs == 2 && s.ifaces.addrs[0].ip.scope_id == 7 &&
		   !strcmp(s.ifaces.addrs[1].label, "eth0:1"),
	   "addresses");
	ok(s.ifaces.nroutes == 1 && s.ifaces.routes[0].iface == 1 &&
		   s.ifaces.routes[0].metric == 4294967295,
	   "routes");
	ok(s.sources.nfiles == 1 && s.sources.files[0].grammar == SOURCES_NCCL &&
		   s.sources.files[0].lines[0].number == 3 &&
		   !strcmp(s.sources.files[0].lines[0].text, "NCCL_SOCKET_IFNAME=eth0\r"),
	   "lines");
	ok(netconf_get(&s.settings, "A") && netconf_host_find(&s.settings, "me"), "settings");
	ok(s.settings.rows[0].via == NETCONF_PINNED && !strcmp(s.settings.rows[0].name, "P"),
	   "pins stand before settings");
	ok(s.settings.nplugins == 2 && s.settings.plugins[0].is_ours &&
		   s.settings.plugins[0].loads &&
		   s.settings.plugins[0].takes == (NETCONF_ENV_V1 | NETCONF_ENV_V2) &&
		   !*s.settings.plugins[1].path && !s.settings.plugins[1].loads,
	   "plug-ins");
	again = snapshot_json(&s);
	ok(json_array_size(json_object_get(again, "settings")) == 1,
	   "pins are not among the settings, which older readers take to count");
	ok(snapshot_parse(&t, again, &e) == 0, "parse what was written: %s", e.text);
	json_decref(j);
	j = snapshot_json(&t);
	ok(json_equal(j, again), "writing and reading change nothing");
	json_decref(j);
	json_decref(again);
	snapshot_free(&s);
	snapshot_free(&t);
}

static void test_live(void)
{
	struct snapshot s = { 0 }, t;
	struct err e = { 0 };
	json_t *j, *again;

	ok(iface_read(&s.ifaces, NULL, NULL, &e) == 0, "read: %s", e.text);
	ok(netconf_add(&s.settings, "A", "\xff\xfe", "environment", &e) == 0, "odd bytes");
	j = snapshot_json(&s);
	ok(snapshot_parse(&t, j, &e) == 0, "this machine survives the journey: %s", e.text);
	again = snapshot_json(&t);
	ok(json_equal(j, again), "unchanged");
	json_decref(j);
	json_decref(again);
	snapshot_free(&s);
	snapshot_free(&t);
}

static void test_bad(void)
{
#define IS "'schema': 'ringup.net.snapshot/1', "
#define IF "'interfaces': [{'index': 1, 'name': 'lo'}], "
	static const char *const bad[] = {
		"[]",
		"{}",
		"{'schema': 'ringup.net.snapshot/2'}",
		"{" IS "'interfaces': 1}",
		"{" IS "'interfaces': [1]}",
		"{" IS "'interfaces': [{'index': 0, 'name': 'lo'}]}",
		"{" IS "'interfaces': [{'index': 1}]}",
		"{" IS "'interfaces': [{'index': 1, 'name': 'a-name-that-is-too-long'}]}",
		"{" IS "'interfaces': [{'index': 1, 'name': 'lo', 'mtu': -1}]}",
		"{" IS "'interfaces': [{'index': 1, 'name': 'lo', 'mtu': 'big'}]}",
		"{" IS IF
		"'addresses': [{'interface': 2, 'address': '10.0.0.1', 'prefix': 8}]}",
		"{" IS IF "'addresses': [{'interface': 1, 'address': 'ten', 'prefix': 8}]}",
		"{" IS IF
		"'addresses': [{'interface': 1, 'address': '10.0.0.1', 'prefix': 33}]}",
		"{" IS IF
		"'addresses': [{'interface': 1, 'address': 'fe80::1%lo', 'prefix': 9}]}",
		"{" IS IF "'routes': [{'interface': 1, 'to': '10.0.0.1', 'prefix': -1}]}",
		"{" IS IF "'routes': [{'interface': 1, 'to': '10.0.0.1', 'metric': 'm'}]}",
		"{" IS "'settings': [{'name': 'A'}]}",
		"{" IS "'hostname': 5}",
		"{" IS "'hosts': [{'name': 'a', 'addresses': ['b']}]}",
		"{" IS "'sources': [{'grammar': 'nccl'}]}",
		"{" IS "'sources': [{'path': 'p', 'grammar': 'ini'}]}",
		"{" IS "'sources': [{'path': 'p', 'grammar': 'nccl', 'lines': 1}]}",
		"{" IS "'sources': [{'path': 'p', 'grammar': 'nccl', 'lines': [{}]}]}",
		"{" IS "'sources': [{'path': 'p', 'grammar': 'nccl',"
		"  'lines': [{'line': 1, 'text': 'a\\nb'}]}]}",
	};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *j = load(bad[i]);
		struct snapshot s;
		struct err e = { 0 };

		ok(j && snapshot_parse(&s, j, &e) == RINGUP_EINVAL, "refused: %s", e.text);
		snapshot_free(&s);
		json_decref(j);
	}
}

/* More members than any node has are refused before they are judged. */
static void test_many(void)
{
	json_t *j = load("{" IS IF "'later': 1}"), *list = json_array();
	struct snapshot s;
	struct err e = { 0 };
	int i;

	for (i = 0; i < 10000; i++)
		json_array_append_new(
			list, json_pack("{s:i,s:s}", "interface", 1, "address", "10.0.0.1"));
	json_object_set_new(j, "addresses", list);
	ok(snapshot_parse(&s, j, &e) == RINGUP_EINVAL, "too many: %s", e.text);
	snapshot_free(&s);
	json_decref(j);
}

/* A value of thousands of bytes is a value like any other. */
static void test_long(void)
{
	char value[2001];
	struct snapshot s = { 0 }, t;
	struct err e = { 0 };
	json_t *j;

	memset(value, 'e', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	netconf_add(&s.settings, "NCCL_SOCKET_IFNAME", value, "environment", &e);
	j = snapshot_json(&s);
	ok(snapshot_parse(&t, j, &e) == 0 && !strcmp(t.settings.rows[0].value, value),
	   "2,000 bytes survive %s", e.text);
	json_decref(j);
	snapshot_free(&s);
	snapshot_free(&t);
}

static void test_file(void)
{
	struct snapshot s;
	struct err e = { 0 };

	ok(snapshot_load(&s, "/dev/null/nothing", &e) < 0, "no such file: %s", e.text);
	snapshot_free(&s);
	ok(snapshot_load(&s, "/etc/passwd", &e) == RINGUP_EINVAL, "no JSON: %s", e.text);
	snapshot_free(&s);
}

int main(void)
{
	test_round();
	test_live();
	test_bad();
	test_many();
	test_long();
	test_file();
	return tap_done();
}
