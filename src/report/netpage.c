/* netpage.c - the results of a network check as an HTML page. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/netpage.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "probe/facts.h"
#include "probe/pairs.h"
#include "probe/verdict.h"
#include "ringup.h"

enum { PAGE_CAP = 1 << 20 };

/* Users pass the page on, so it keeps only the data that it shows. */
static void node_trim(json_t *node)
{
	static const char *const not_shown[] = { "machine_id", "resolves", "firewall" };
	json_t *snapshot = json_object_get(node, "snapshot");

	for (size_t i = 0; i < sizeof(not_shown) / sizeof(not_shown[0]); i++)
		json_object_del(node, not_shown[i]);
	if (json_is_object(snapshot))
		json_object_set_new(node, "snapshot",
				    json_pack("{sO? sO?}", "interfaces",
					      json_object_get(snapshot, "interfaces"),
					      "addresses",
					      json_object_get(snapshot, "addresses")));
}

/* A network address of the @at-th node shown, with the paths that lead to it. */
static json_t *port_json(const struct probe_facts *f, int node, int at,
			 const struct iface_addr *a)
{
	const struct iface *iface = &f->nodes[node].snapshot.ifaces.ifaces[a->iface];
	char address[IFACE_TEXT], net[IFACE_TEXT];
	int open = 0, failed = 0;

	iface_text(&a->ip, address);
	for (int i = 0; i < f->npaths; i++) {
		if (f->paths[i].to != node || strcmp(f->paths[i].address, address) != 0)
			continue;
		open += f->paths[i].state == FACTS_OPEN;
		failed += f->paths[i].state != FACTS_OPEN;
	}
	return json_pack("{si so ss so si si si si}", "node", at, "interface",
			 jsonio_text(iface->name), "address", address, "net",
			 jsonio_text(facts_net(f, node, address, net)), "mtu", iface->mtu,
			 "speed_mbps", iface->speed_mbps, "open", open, "failed", failed);
}

static json_t *ports_json(const struct probe_facts *f, const struct pairs *p)
{
	json_t *all = json_array();

	for (int at = 0; at < p->n; at++) {
		const struct iface_list *l = &f->nodes[p->node[at]].snapshot.ifaces;

		for (int k = 0; k < l->naddrs; k++)
			if (iface_is_global(&l->addrs[k].ip) &&
			    l->ifaces[l->addrs[k].iface].flags & IFF_UP)
				json_array_append_new(
					all, port_json(f, p->node[at], at, &l->addrs[k]));
	}
	return all;
}

/* False and unmeasured members are left out: a check has thousands of pairs. */
static json_t *pair_json(const struct pair *x, int from, int to)
{
	json_t *pair = json_pack("{si si si}", "from", from, "to", to, "tried", x->tried);
	const struct {
		const char *name;
		bool is_set;
	} marks[] = { { "dead", pairs_is_dead(x) },
		      { "cut", x->cut },
		      { "lost", x->lost },
		      { "slow", x->slow },
		      { "weak", x->weak } };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (marks[i].is_set)
			json_object_set_new(pair, marks[i].name, json_true());
	if (x->failed) {
		json_object_set_new(pair, "failed", json_integer(x->failed));
		json_object_set_new(pair, "state", json_string(facts_state_text(x->state)));
	}
	if (x->us >= 0)
		json_object_set_new(pair, "us", json_real(x->us));
	if (x->mbs >= 0)
		json_object_set_new(pair, "mbs", json_real(x->mbs));
	return pair;
}

static json_t *map_json(const struct probe_facts *f, struct err *e)
{
	struct pairs p = { 0 };
	json_t *map = NULL, *nodes = json_array(), *pairs = json_array();

	if (!pairs_make(&p, f, NETPAGE_NODES, e)) {
		for (int a = 0; a < p.n; a++) {
			json_array_append_new(nodes, json_integer(p.node[a]));
			for (int b = 0; b < p.n; b++)
				if (a != b && pairs_at(&p, a, b)->tried)
					json_array_append_new(
						pairs, pair_json(pairs_at(&p, a, b), a, b));
		}
		map = json_pack("{sO sO so}", "nodes", nodes, "pairs", pairs, "ports",
				ports_json(f, &p));
	}
	json_decref(nodes);
	json_decref(pairs);
	pairs_free(&p);
	return map;
}

static char *data_text(const struct probe_facts *f, struct err *e)
{
	json_t *all = facts_json(f), *map = map_json(f, e), *node;
	char *text;
	size_t i;

	json_array_foreach(json_object_get(all, "nodes"), i, node) {
		node_trim(node);
	}
	json_object_del(all, "paths");
	json_object_set_new(all, "connections", json_integer(f->npaths));
	json_object_set_new(all, "well", json_boolean(verdict_is_well(f)));
	text = json_object_set_new(all, "map", map)
		       ? NULL
		       : json_dumps(all,
				    JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
	json_decref(all);
	return text;
}

/* In JSON these three occur only in strings; escaped, they cannot form markup. */
static void data_put(FILE *out, const char *json)
{
	for (; *json; json++) {
		size_t n = strcspn(json, "<>&");

		fwrite(json, 1, n, out);
		json += n;
		if (!*json)
			break;
		fprintf(out, "\\u%04x", (unsigned)*json);
	}
}

int netpage_make(const struct probe_facts *f, char **datap, size_t *lenp, struct err *e)
{
	static const char mark[] = "@data@";
	char path[PATH_MAX], *page = NULL, *at = NULL, *data = NULL;
	FILE *out = NULL;
	size_t len;
	int rc = data_find(path, "report/page.html", e);

	*datap = NULL;
	if (!rc)
		rc = file_read(NULL, path, PAGE_CAP, &page, &len, e);
	if (!rc && !(at = strstr(page, mark)))
		rc = fail(e, RINGUP_EINVAL, "%s: no place for the data", path);
	if (!rc && (!(data = data_text(f, e)) || !(out = open_memstream(datap, lenp))))
		rc = fail(e, RINGUP_ENOMEM, "no memory for the page");
	if (!rc) {
		fwrite(page, 1, (size_t)(at - page), out);
		data_put(out, data);
		fputs(at + strlen(mark), out);
	}
	if (out && fclose(out))
		rc = fail(e, RINGUP_ENOMEM, "no memory for the page");
	free(page);
	free(data);
	return rc;
}

int netpage_write(const struct probe_facts *f, const char *path, struct err *e)
{
	size_t len;
	char *data;
	int rc = netpage_make(f, &data, &len, e);

	if (!rc)
		rc = file_save(path, 0644, data, len, e);
	free(data);
	return rc;
}
