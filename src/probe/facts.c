/* facts.c - the facts of a network check: nodes, paths, findings; to and from JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/facts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/array.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "ringup.h"

/* Limits on input: the check of a thousand nodes fits, a mistake does not. */
enum { FILE_CAP = 256 << 20, NODES_CAP = 4095, LIST_CAP = 4096, PATHS_CAP = 1 << 18 };

static const char schema[] = "ringup.net.check/1";

struct probe_node *facts_add_node(struct probe_facts *f, const char *name)
{
	struct probe_node *n = array_more(&f->nodes, &f->nnodes, sizeof(*n));

	if (n)
		snprintf(n->name, sizeof(n->name), "%s", name);
	return n;
}

struct probe_use *facts_add_use(struct probe_node *n)
{
	return array_more(&n->uses, &n->nuses, sizeof(*n->uses));
}

struct netconf_host *facts_add_host(struct probe_node *n, const char *name)
{
	struct netconf_host *h = array_more(&n->resolves, &n->nresolves, sizeof(*h));

	if (h)
		snprintf(h->name, sizeof(h->name), "%s", name);
	return h;
}

int facts_add_rule(struct probe_node *n, const char *rule)
{
	char *copy = strdup(rule);
	char **one = copy ? array_more(&n->firewall, &n->nfirewall, sizeof(*one)) : NULL;

	if (!one) {
		free(copy);
		return RINGUP_ENOMEM;
	}
	*one = copy;
	return 0;
}

struct probe_path *facts_add_path(struct probe_facts *f)
{
	struct probe_path *p = array_more(&f->paths, &f->npaths, sizeof(*p));

	if (!p)
		return NULL;
	p->answered = -1;
	p->mtu.segment = -1;
	p->latency_min_us = p->latency_median_us = p->bandwidth_mbs = -1;
	return p;
}

struct probe_finding *facts_add_finding(struct probe_facts *f)
{
	struct probe_finding *p = array_more(&f->findings, &f->nfindings, sizeof(*p));

	if (p)
		p->from = p->to = -1;
	return p;
}

static const char *const state_words[] = {
#define X(name, word) word,
	FACTS_STATES(X)
#undef X
};

const char *facts_state_text(enum facts_state s)
{
	return (int)s >= 0 && s < FACTS_STATE_COUNT ? state_words[s] : "?";
}

const char *facts_severity_text(enum facts_severity s)
{
	static const char *const text[] = { "note", "warning", "error" };

	return text[s];
}

static void free_node(struct probe_node *n)
{
	snapshot_free(&n->snapshot);
	free(n->uses);
	free(n->resolves);
	for (int i = 0; i < n->nfirewall; i++)
		free(n->firewall[i]);
	free(n->firewall);
}

static void free_finding(struct probe_finding *p)
{
	free(p->nodes);
	free(p->what);
	free(p->why);
	free(p->fix);
	free(p->run);
}

void facts_free(struct probe_facts *f)
{
	for (int i = 0; i < f->nnodes; i++)
		free_node(&f->nodes[i]);
	for (int i = 0; i < f->nfindings; i++)
		free_finding(&f->findings[i]);
	free(f->nodes);
	free(f->paths);
	free(f->findings);
	free(f->verdict);
	memset(f, 0, sizeof(*f));
}

bool facts_is_live(const struct probe_facts *f, int node)
{
	return !*f->nodes[node].error && f->nodes[node].has_snapshot;
}

int facts_unmeasured(const struct probe_facts *f, int *ofp)
{
	int n = 0;

	*ofp = 0;
	for (int i = 0; i < f->npaths; i++) {
		const struct probe_path *p = &f->paths[i];

		if (p->state != FACTS_OPEN || p->mtu.segment != 1 ||
		    !facts_is_live(f, p->from) || !facts_is_live(f, p->to))
			continue;
		++*ofp;
		n += p->latency_median_us < 0;
	}
	return n;
}

const struct iface_addr *facts_owner(const struct probe_facts *f, int node, const char *address)
{
	struct iface_ip ip;

	return iface_parse(&ip, address) ? iface_owner(&f->nodes[node].snapshot.ifaces, &ip)
					 : NULL;
}

const char *facts_net(const struct probe_facts *f, int node, const char *address,
		      char out[IFACE_TEXT])
{
	const struct iface_list *l = &f->nodes[node].snapshot.ifaces;
	const struct iface_addr *a = facts_owner(f, node, address);

	*out = 0;
	if (a && a->prefix < (a->ip.family == AF_INET ? 32 : 128))
		iface_net_text(&a->ip, a->prefix, out);
	else if (a)
		snprintf(out, IFACE_TEXT, "%s", l->ifaces[a->iface].name);
	return out;
}

static json_t *or_null(const char *s)
{
	return s && *s ? jsonio_text(s) : json_null();
}

static json_t *size_json(int n)
{
	return n > 0 ? json_integer(n) : json_null();
}

static json_t *measured(double x)
{
	return x >= 0 ? json_real(x) : json_null();
}

static json_t *use_json(const struct probe_use *u)
{
	return json_pack("{s:o,s:o,s:o,s:o}", "library", jsonio_text(u->library), "role",
			 jsonio_text(u->role), "interface", or_null(u->interface), "address",
			 or_null(u->address));
}

static json_t *node_json(const struct probe_node *n)
{
	json_t *uses = json_array(), *resolves = json_array(), *firewall = json_array();

	for (int i = 0; i < n->nuses; i++)
		json_array_append_new(uses, use_json(&n->uses[i]));
	for (int i = 0; i < n->nresolves; i++)
		json_array_append_new(resolves, snapshot_host(&n->resolves[i]));
	for (int i = 0; i < n->nfirewall; i++)
		json_array_append_new(firewall, jsonio_text(n->firewall[i]));
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "name", jsonio_text(n->name),
			 "hostname", or_null(n->hostname), "error", or_null(n->error),
			 "machine_id", or_null(n->machine_id), "snapshot",
			 n->has_snapshot ? snapshot_json(&n->snapshot) : json_null(), "uses",
			 uses, "resolves", resolves, "firewall", firewall, "neighbours_full",
			 n->is_table_full);
}

static json_t *mtu_json(const struct probe_mtu *m)
{
	if (m->link <= 0 && m->df <= 0 && m->segment < 0)
		return json_null();
	return json_pack("{s:o,s:o,s:o}", "link", size_json(m->link), "df", size_json(m->df),
			 "segment", m->segment < 0 ? json_null() : json_boolean(m->segment));
}

static json_t *latency_json(const struct probe_path *p)
{
	if (p->latency_min_us < 0 && p->latency_median_us < 0)
		return json_null();
	return json_pack("{s:o,s:o}", "min", measured(p->latency_min_us), "median",
			 measured(p->latency_median_us));
}

/* The name of a node, or null for none. */
static json_t *name_json(const struct probe_facts *f, int node)
{
	return node >= 0 && node < f->nnodes ? jsonio_text(f->nodes[node].name) : json_null();
}

static json_t *path_json(const struct probe_facts *f, const struct probe_path *p)
{
	json_t *port = json_pack("{s:i,s:o}", "number", p->port.number, "kind",
				 jsonio_text(p->port.kind));

	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o}",
			 "from", name_json(f, p->from), "to", name_json(f, p->to), "address",
			 or_null(p->address), "interface", or_null(p->interface), "via",
			 or_null(p->via), "source", or_null(p->source), "seen",
			 or_null(p->seen), "neighbour", or_null(p->neighbour), "port", port,
			 "state", facts_state_text(p->state), "errno", or_null(p->error),
			 "answered", name_json(f, p->answered), "mtu", mtu_json(&p->mtu),
			 "latency_us", latency_json(p), "bandwidth_mbs",
			 measured(p->bandwidth_mbs));
}

static json_t *finding_json(const struct probe_facts *f, const struct probe_finding *p)
{
	json_t *nodes = json_array();

	for (int i = 0; i < p->nnodes; i++)
		json_array_append_new(nodes, name_json(f, p->nodes[i]));
	/* "next" and "command" are the former keys of "fix" and "run". */
	return json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "code",
			 jsonio_text(p->code), "severity", facts_severity_text(p->severity),
			 "nodes", nodes, "interface", or_null(p->interface), "address",
			 or_null(p->address), "from", name_json(f, p->from), "to",
			 name_json(f, p->to), "what", or_null(p->what), "why", or_null(p->why),
			 "fix", or_null(p->fix), "run", or_null(p->run), "next",
			 or_null(p->fix), "command", or_null(p->run));
}

json_t *facts_json(const struct probe_facts *f)
{
	json_t *nodes = json_array(), *paths = json_array(), *findings = json_array();

	for (int i = 0; i < f->nnodes; i++)
		json_array_append_new(nodes, node_json(&f->nodes[i]));
	for (int i = 0; i < f->npaths; i++)
		json_array_append_new(paths, path_json(f, &f->paths[i]));
	for (int i = 0; i < f->nfindings; i++)
		json_array_append_new(findings, finding_json(f, &f->findings[i]));
	return json_pack("{s:s,s:f,s:o,s:o,s:o,s:o}", "schema", schema, "seconds", f->seconds,
			 "nodes", nodes, "paths", paths, "findings", findings, "verdict",
			 or_null(f->verdict));
}

static bool get_real(const json_t *j, const char *key, double *out)
{
	const json_t *v = json_object_get(j, key);

	*out = -1;
	if (jsonio_is_absent(v))
		return true;
	*out = json_number_value(v);
	return json_is_number(v) && *out >= 0 && *out <= 1e15;
}

static bool get_address(const json_t *j, const char *key, char out[IFACE_TEXT])
{
	struct iface_ip ip;

	return jsonio_get_text(j, key, out, IFACE_TEXT) &&
	       (!*out || iface_parse_recorded(&ip, out));
}

static bool parse_use(struct probe_node *n, const json_t *j)
{
	struct probe_use *u = facts_add_use(n);

	return u && jsonio_get_text(j, "library", u->library, sizeof(u->library)) &&
	       jsonio_get_text(j, "role", u->role, sizeof(u->role)) &&
	       jsonio_get_text(j, "interface", u->interface, sizeof(u->interface)) &&
	       get_address(j, "address", u->address);
}

static bool parse_host(struct probe_node *n, const json_t *j)
{
	char name[sizeof(((struct netconf_host *)0)->name)];
	struct netconf_host *h;

	if (!jsonio_get_text(j, "name", name, sizeof(name)))
		return false;
	h = facts_add_host(n, name);
	return h && snapshot_host_ips(h, j);
}

static bool parse_rule(struct probe_node *n, const json_t *j)
{
	return json_is_string(j) && !facts_add_rule(n, json_string_value(j));
}

/* Parses every element of the list @key of node @j, if there is such a list. */
static bool each(struct probe_node *n, const json_t *j, const char *key,
		 bool (*parse)(struct probe_node *, const json_t *))
{
	const json_t *list = json_object_get(j, key), *one;
	size_t i;

	if (jsonio_is_absent(list))
		return true;
	if (!json_is_array(list) || json_array_size(list) > LIST_CAP)
		return false;
	json_array_foreach(list, i, one)
		if (!parse(n, one))
			return false;
	return true;
}

static int parse_node(struct probe_facts *f, const json_t *j, struct err *e)
{
	const json_t *snapshot = json_object_get(j, "snapshot");
	char name[FACTS_NAME];
	struct probe_node *n;

	if (!jsonio_get_text(j, "name", name, sizeof(name)) || !*name)
		return fail(e, RINGUP_EINVAL, "it has no name");
	n = facts_add_node(f, name);
	if (!n)
		return fail(e, RINGUP_ENOMEM, "no memory for a node");
	if (!jsonio_get_text(j, "hostname", n->hostname, sizeof(n->hostname)) ||
	    !jsonio_get_text(j, "error", n->error, sizeof(n->error)) ||
	    !jsonio_get_text(j, "machine_id", n->machine_id, sizeof(n->machine_id)) ||
	    !each(n, j, "uses", parse_use) || !each(n, j, "resolves", parse_host) ||
	    !each(n, j, "firewall", parse_rule))
		return fail(e, RINGUP_EINVAL, "it is not understood");
	n->is_table_full = json_is_true(json_object_get(j, "neighbours_full"));
	n->has_snapshot = !jsonio_is_absent(snapshot);
	if (n->has_snapshot && snapshot_parse(&n->snapshot, snapshot, e))
		return fail_in(e, "snapshot");
	return 0;
}

/* Nodes sorted by name, since paths refer to them by name. */
struct index {
	const char *name;
	int node;
};

static int facts_by_name(const void *a, const void *b)
{
	const struct index *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : x->node - y->node;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct index *)a)->name, ((const struct index *)b)->name);
}

/* The position of the node that @key names, or -1. */
static int get_node(const struct index *all, int n, const json_t *j, const char *key)
{
	struct index want = { json_string_value(json_object_get(j, key)), 0 };
	const struct index *found =
		want.name ? bsearch(&want, all, (size_t)n, sizeof(*all), by_key) : NULL;

	return found ? found->node : -1;
}

static bool parse_state(const json_t *j, enum facts_state *state)
{
	const char *word = json_string_value(json_object_get(j, "state"));

	for (int i = 0; word && i < FACTS_STATE_COUNT; i++)
		if (!strcmp(word, state_words[i])) {
			*state = (enum facts_state)i;
			return true;
		}
	return false;
}

static bool parse_mtu(const json_t *j, struct probe_mtu *m)
{
	const json_t *segment = json_object_get(j, "segment");

	m->segment = jsonio_is_absent(segment) ? -1 : json_is_true(segment);
	return (jsonio_is_absent(segment) || json_is_boolean(segment)) &&
	       jsonio_get_int(j, "link", 0, INT_MAX, 0, &m->link) &&
	       jsonio_get_int(j, "df", 0, INT_MAX, 0, &m->df);
}

static bool parse_path(struct probe_path *p, const json_t *j, const struct index *all, int n)
{
	const json_t *port = json_object_get(j, "port"), *us = json_object_get(j, "latency_us");

	p->from = get_node(all, n, j, "from");
	p->to = get_node(all, n, j, "to");
	p->answered = get_node(all, n, j, "answered");
	return p->from >= 0 && p->to >= 0 && p->from != p->to &&
	       get_address(j, "address", p->address) &&
	       jsonio_get_text(j, "interface", p->interface, sizeof(p->interface)) &&
	       jsonio_get_text(j, "via", p->via, sizeof(p->via)) &&
	       get_address(j, "source", p->source) && get_address(j, "seen", p->seen) &&
	       jsonio_get_text(j, "neighbour", p->neighbour, sizeof(p->neighbour)) &&
	       jsonio_get_int(port, "number", 0, 65535, 0, &p->port.number) &&
	       jsonio_get_text(port, "kind", p->port.kind, sizeof(p->port.kind)) &&
	       parse_state(j, &p->state) &&
	       jsonio_get_text(j, "errno", p->error, sizeof(p->error)) &&
	       parse_mtu(json_object_get(j, "mtu"), &p->mtu) &&
	       get_real(us, "min", &p->latency_min_us) &&
	       get_real(us, "median", &p->latency_median_us) &&
	       get_real(j, "bandwidth_mbs", &p->bandwidth_mbs);
}

static int parse_nodes(struct probe_facts *f, const json_t *list, struct err *e)
{
	const json_t *one;
	size_t i;
	int rc;

	if (!json_is_array(list) || json_array_size(list) > NODES_CAP)
		return fail(e, RINGUP_EINVAL, "nodes: not a list, or longer than %d",
			    NODES_CAP);
	json_array_foreach(list, i, one) {
		rc = parse_node(f, one, e);
		if (rc)
			return fail_in(e, "nodes[%zu]", i);
	}
	return 0;
}

static int parse_paths(struct probe_facts *f, const json_t *list, struct err *e)
{
	struct index *all;
	const json_t *one;
	struct probe_path *p;
	size_t i;
	int rc = 0;

	if (jsonio_is_absent(list))
		return 0;
	if (!json_is_array(list) || json_array_size(list) > PATHS_CAP)
		return fail(e, RINGUP_EINVAL, "paths: not a list, or longer than %d",
			    PATHS_CAP);
	all = calloc((size_t)f->nnodes + 1, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for the nodes' names");
	for (i = 0; i < (size_t)f->nnodes; i++)
		all[i] = (struct index){ f->nodes[i].name, (int)i };
	qsort(all, (size_t)f->nnodes, sizeof(*all), facts_by_name);
	json_array_foreach(list, i, one) {
		p = facts_add_path(f);
		if (p && parse_path(p, one, all, f->nnodes))
			continue;
		rc = p ? fail(e, RINGUP_EINVAL, "paths[%zu] is not understood", i)
		       : fail(e, RINGUP_ENOMEM, "no memory for a path");
		break;
	}
	free(all);
	return rc;
}

int facts_parse(struct probe_facts *f, const json_t *json, struct err *e)
{
	const char *is = json_string_value(json_object_get(json, "schema"));
	int rc;

	memset(f, 0, sizeof(*f));
	if (!is || strcmp(is, schema) != 0)
		return fail(e, RINGUP_EINVAL, "its schema is not %s", schema);
	if (!get_real(json, "seconds", &f->seconds))
		return fail(e, RINGUP_EINVAL, "seconds is not a time");
	if (f->seconds < 0)
		f->seconds = 0;
	rc = parse_nodes(f, json_object_get(json, "nodes"), e);
	return rc ? rc : parse_paths(f, json_object_get(json, "paths"), e);
}

int facts_load(struct probe_facts *f, const char *path, struct err *e)
{
	json_t *json = jsonio_read(path, FILE_CAP, e);
	int rc;

	memset(f, 0, sizeof(*f));
	if (!json)
		return e->code;
	rc = facts_parse(f, json, e);
	json_decref(json);
	return rc ? fail_in(e, "%s", path) : 0;
}
