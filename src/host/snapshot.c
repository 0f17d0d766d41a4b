/* snapshot.c - all inputs of the choice of an interface, as one JSON object. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/snapshot.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "ringup.h"

/* More than a node has; with more, comparisons of all pairs would take minutes. */
enum { FILE_CAP = 64 << 20, MOST = 4096, MOST_ADDRESSES = 1024 };

static const char schema[] = "ringup.net.snapshot/1";
static const char *const grammars[] = { "environment", "nccl", "mca", "shell" };
static const char *const scopes[] = { "global", "link", "host" };

static json_t *ip_text(const struct iface_ip *ip)
{
	char out[IFACE_TEXT];

	return json_string(iface_text(ip, out));
}

static json_t *flags_json(unsigned flags)
{
	json_t *list = json_array();
	const char *word;
	unsigned bit;

	for (int n = 0; (word = iface_flag_at(n, &bit)); n++)
		if (flags & bit)
			json_array_append_new(list, json_string(word));
	return list;
}

static json_t *addr_json(const struct iface_list *l, const struct iface_addr *a)
{
	json_t *j = json_pack("{s:i,s:o,s:o,s:i,s:s}", "interface", l->ifaces[a->iface].index,
			      "label", jsonio_text(a->label), "address", ip_text(&a->ip),
			      "prefix", a->prefix, "scope", scopes[a->scope]);

	if (a->turn)
		json_object_set_new(j, "turn", json_integer(a->turn));
	return j;
}

static json_t *iface_json(const struct iface *f)
{
	return json_pack("{s:i,s:o,s:s,s:o,s:i,s:o,s:i,s:s}", "index", f->index, "name",
			 jsonio_text(f->name), "type", iface_kind_text(f->kind), "flags",
			 flags_json(f->flags), "mtu", f->mtu, "speed_mbps",
			 f->speed_mbps < 0 ? json_null() : json_integer(f->speed_mbps),
			 "master", f->master, "mac", f->mac);
}

static json_t *route_json(const struct iface_list *l, const struct iface_route *r)
{
	return json_pack("{s:o,s:i,s:i,s:I,s:o}", "to", ip_text(&r->to), "prefix", r->prefix,
			 "interface", l->ifaces[r->iface].index, "metric",
			 (json_int_t)r->metric, "via",
			 r->via.family ? ip_text(&r->via) : json_null());
}

json_t *snapshot_host(const struct netconf_host *h)
{
	json_t *list = json_array();

	for (int n = 0; n < h->nips; n++)
		json_array_append_new(list, ip_text(&h->ips[n]));
	return json_pack("{s:o,s:o,s:o*}", "name", jsonio_text(h->name), "addresses", list,
			 "line", h->line ? json_integer(h->line) : NULL);
}

static json_t *row_json(const struct netconf_row *r)
{
	json_t *j = json_pack("{s:o,s:o,s:o}", "name", jsonio_text(r->name), "value",
			      jsonio_text(r->value), "source", jsonio_text(r->source));

	if (r->via != NETCONF_ANY)
		json_object_set_new(j, "via", json_string(netconf_via_text(r->via)));
	return j;
}

/* A name that the loader does not find is recorded, too. */
static json_t *plugin_json(const struct netconf_plugin *p)
{
	json_t *takes = json_array();

	if (p->takes & NETCONF_ENV_V1)
		json_array_append_new(takes, json_string("v1"));
	if (p->takes & NETCONF_ENV_V2)
		json_array_append_new(takes, json_string("v2"));
	return json_pack("{s:o,s:o,s:b,s:b,s:o}", "name", jsonio_text(p->name), "path",
			 jsonio_text(p->path), "loads", p->loads, "ringup", p->is_ours, "takes",
			 takes);
}

static json_t *source_json(const struct sources_file *f)
{
	json_t *list = json_array();

	for (int n = 0; n < f->nlines; n++)
		json_array_append_new(list, json_pack("{s:i,s:o}", "line", f->lines[n].number,
						      "text", jsonio_text(f->lines[n].text)));
	return json_pack("{s:o,s:s,s:o}", "path", jsonio_text(f->path), "grammar",
			 grammars[f->grammar], "lines", list);
}

json_t *snapshot_json(const struct snapshot *s)
{
	const struct iface_list *l = &s->ifaces;
	const struct netconf *c = &s->settings;
	json_t *ifaces = json_array(), *addrs = json_array(), *routes = json_array();
	json_t *hosts = json_array(), *rows = json_array(), *versions = json_array();
	json_t *sources = json_array(), *pins = json_array(), *plugins = json_array();
	json_t *rdma = s->rdma ? json_boolean(s->rdma > 0) : NULL;

	for (int i = 0; i < l->nifaces; i++)
		json_array_append_new(ifaces, iface_json(&l->ifaces[i]));
	for (int i = 0; i < l->naddrs; i++)
		json_array_append_new(addrs, addr_json(l, &l->addrs[i]));
	for (int i = 0; i < l->nroutes; i++)
		json_array_append_new(routes, route_json(l, &l->routes[i]));
	for (int i = 0; i < c->nhosts; i++)
		json_array_append_new(hosts, snapshot_host(&c->hosts[i]));
	/* Pins have a list of their own: older readers take every row for one in force. */
	for (int i = 0; i < c->nrows; i++)
		json_array_append_new(c->rows[i].via == NETCONF_PINNED ? pins : rows,
				      row_json(&c->rows[i]));
	for (int i = 0; i < c->nplugins; i++)
		json_array_append_new(plugins, plugin_json(&c->plugins[i]));
	for (int i = 0; i < c->nversions; i++)
		json_array_append_new(versions,
				      json_pack("{s:o,s:o}", "library",
						jsonio_text(c->versions[i].library), "version",
						jsonio_text(c->versions[i].version)));
	for (int i = 0; i < s->sources.nfiles; i++)
		json_array_append_new(sources, source_json(&s->sources.files[i]));
	return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o*}", "schema", schema,
			 "interfaces", ifaces, "addresses", addrs, "routes", routes, "hostname",
			 jsonio_text(c->hostname), "hosts", hosts, "settings", rows, "versions",
			 versions, "pins", pins, "env_plugins", plugins, "sources", sources,
			 "rdma", rdma);
}

static bool get_ip(const json_t *j, struct iface_ip *ip)
{
	return json_is_string(j) && iface_parse_recorded(ip, json_string_value(j));
}

bool snapshot_host_ips(struct netconf_host *h, const json_t *j)
{
	const json_t *list = json_object_get(j, "addresses"), *ip;
	size_t i;

	if (json_array_size(list) > NETCONF_IPS)
		return false;
	json_array_foreach(list, i, ip)
		if (!get_ip(ip, &h->ips[h->nips++]))
			return false;
	return true;
}

static bool get_position(const struct iface_list *l, const json_t *j, int *at)
{
	int index;

	if (!jsonio_get_int(j, "interface", 1, INT_MAX, 0, &index))
		return false;
	*at = iface_position(l, index);
	return *at >= 0;
}

static bool parse_iface(struct snapshot *s, const json_t *j)
{
	struct iface *f = iface_add(&s->ifaces);
	char kind[32];
	const json_t *flag;
	size_t i;

	if (!f || !jsonio_get_text(j, "name", f->name, sizeof(f->name)) || !*f->name ||
	    !jsonio_get_text(j, "type", kind, sizeof(kind)) ||
	    !jsonio_get_text(j, "mac", f->mac, sizeof(f->mac)) ||
	    !jsonio_get_int(j, "index", 1, INT_MAX, 0, &f->index) ||
	    !jsonio_get_int(j, "mtu", 0, INT_MAX, 0, &f->mtu) ||
	    !jsonio_get_int(j, "speed_mbps", 0, INT_MAX, -1, &f->speed_mbps) ||
	    !jsonio_get_int(j, "master", 0, INT_MAX, 0, &f->master) || !f->index)
		return false;
	f->kind = iface_kind_find(kind);
	json_array_foreach(json_object_get(j, "flags"), i, flag)
		f->flags |= json_is_string(flag) ? iface_flag(json_string_value(flag)) : 0;
	return true;
}

static bool parse_addr(struct snapshot *s, const json_t *j)
{
	struct iface_addr a = { 0 }, *new;
	char scope[16];

	if (!get_position(&s->ifaces, j, &a.iface) ||
	    !jsonio_get_text(j, "label", a.label, sizeof(a.label)) ||
	    !get_ip(json_object_get(j, "address"), &a.ip) ||
	    !jsonio_get_int(j, "prefix", 0, a.ip.family == AF_INET ? 32 : 128, 0, &a.prefix) ||
	    !jsonio_get_text(j, "scope", scope, sizeof(scope)) ||
	    !jsonio_get_int(j, "turn", 0, INT_MAX, 0, &a.turn))
		return false;
	for (int i = 0; i < 3; i++)
		if (!strcmp(scope, scopes[i]))
			a.scope = (enum iface_scope)i;
	if (!*a.label)
		memcpy(a.label, s->ifaces.ifaces[a.iface].name, sizeof(a.label));
	new = iface_add_addr(&s->ifaces);
	if (new)
		*new = a;
	return new != NULL;
}

static bool parse_route(struct snapshot *s, const json_t *j)
{
	struct iface_route r = { 0 }, *new;
	const json_t *via = json_object_get(j, "via");
	const json_t *metric = json_object_get(j, "metric");

	if (!get_position(&s->ifaces, j, &r.iface) || (metric && !json_is_integer(metric)) ||
	    !get_ip(json_object_get(j, "to"), &r.to) ||
	    !jsonio_get_int(j, "prefix", 0, r.to.family == AF_INET ? 32 : 128, 0, &r.prefix) ||
	    (via && !json_is_null(via) && !get_ip(via, &r.via)))
		return false;
	r.metric = json_integer_value(metric);
	new = iface_add_route(&s->ifaces);
	if (new)
		*new = r;
	return new != NULL;
}

static bool parse_host(struct snapshot *s, const json_t *j)
{
	char name[256];
	struct netconf_host *h;

	if (!jsonio_get_text(j, "name", name, sizeof(name)))
		return false;
	h = netconf_host_add(&s->settings, name);
	return h && jsonio_get_int(j, "line", 0, INT_MAX, 0, &h->line) &&
	       snapshot_host_ips(h, j);
}

static bool parse_setting(struct snapshot *s, const json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "name"));
	const char *value = json_string_value(json_object_get(j, "value"));
	const char *source = json_string_value(json_object_get(j, "source"));

	const char *via = json_string_value(json_object_get(j, "via"));

	if (!name || !value ||
	    netconf_add(&s->settings, name, value, source && *source ? source : "snapshot",
			NULL))
		return false;
	s->settings.rows[s->settings.nrows - 1].via = netconf_via_find(via ? via : "");
	return true;
}

static bool parse_version(struct snapshot *s, const json_t *j)
{
	struct netconf_version v;

	return jsonio_get_text(j, "library", v.library, sizeof(v.library)) &&
	       jsonio_get_text(j, "version", v.version, sizeof(v.version)) &&
	       !netconf_set_version(&s->settings, v.library, v.version, NULL);
}

static bool parse_plugin(struct snapshot *s, const json_t *j)
{
	struct netconf_plugin p = { 0 };
	const json_t *word;
	size_t i;

	if (!jsonio_get_text(j, "name", p.name, sizeof(p.name)) || !*p.name ||
	    !jsonio_get_text(j, "path", p.path, sizeof(p.path)))
		return false;
	p.loads = json_is_true(json_object_get(j, "loads"));
	p.is_ours = json_is_true(json_object_get(j, "ringup"));
	json_array_foreach(json_object_get(j, "takes"), i, word) {
		const char *text = json_string_value(word);

		p.takes |= !text                 ? 0
			   : !strcmp(text, "v1") ? NETCONF_ENV_V1
			   : !strcmp(text, "v2") ? NETCONF_ENV_V2
						 : 0;
	}
	return !netconf_add_plugin(&s->settings, &p, NULL);
}

static bool parse_line(struct sources_file *f, const json_t *j)
{
	const char *line = json_string_value(json_object_get(j, "text"));
	int number;

	return line && !strchr(line, '\n') &&
	       jsonio_get_int(j, "line", 0, INT_MAX, 0, &number) &&
	       !sources_line(f, number, line, strlen(line), NULL);
}

static bool parse_source(struct snapshot *s, const json_t *j)
{
	const char *path = json_string_value(json_object_get(j, "path"));
	const json_t *lines = json_object_get(j, "lines"), *one;
	struct sources_file *f;
	char word[16];
	size_t i;
	int g;

	if (!path || strlen(path) >= PATH_MAX ||
	    !jsonio_get_text(j, "grammar", word, sizeof(word)))
		return false;
	for (g = 0; g < SOURCES_GRAMMARS && strcmp(word, grammars[g]); g++)
		;
	f = g < SOURCES_GRAMMARS ? sources_file(&s->sources, g, path, NULL) : NULL;
	if (!f || (lines && !json_is_array(lines)))
		return false;
	json_array_foreach(lines, i, one)
		if (!parse_line(f, one))
			return false;
	return true;
}

static int parse_list(struct snapshot *s, const json_t *json, const char *key, int most,
		      bool (*parse)(struct snapshot *, const json_t *), struct err *e)
{
	const json_t *list = json_object_get(json, key), *one;
	size_t i;

	if (list && !json_is_array(list))
		return fail(e, RINGUP_EINVAL, "%s is not a list", key);
	if (json_array_size(list) > (size_t)most)
		return fail(e, RINGUP_EINVAL, "%s has more than %d members", key, most);
	json_array_foreach(list, i, one)
		if (!parse(s, one))
			return fail(e, RINGUP_EINVAL, "%s[%zu] is not understood", key, i);
	return 0;
}

int snapshot_parse(struct snapshot *s, const json_t *json, struct err *e)
{
	/* Addresses and routes name interfaces, and the first setting of a name counts. */
	static const struct {
		const char *key;
		int most;
		bool (*parse)(struct snapshot *, const json_t *);
	} lists[] = {
		{ "interfaces", MOST, parse_iface },
		{ "addresses", MOST_ADDRESSES, parse_addr },
		{ "routes", MOST, parse_route },
		{ "hosts", MOST, parse_host },
		{ "pins", MOST, parse_setting },
		{ "settings", MOST, parse_setting },
		{ "env_plugins", MOST, parse_plugin },
		{ "versions", MOST, parse_version },
		{ "sources", MOST, parse_source },
	};
	const char *is = json_string_value(json_object_get(json, "schema"));
	const json_t *rdma;
	int rc = 0;

	memset(s, 0, sizeof(*s));
	if (!is || strcmp(is, schema))
		return fail(e, RINGUP_EINVAL, "its schema is not %s", schema);
	if (!jsonio_get_text(json, "hostname", s->settings.hostname,
			     sizeof(s->settings.hostname)))
		return fail(e, RINGUP_EINVAL, "hostname is not understood");
	rdma = json_object_get(json, "rdma");
	s->rdma = json_is_true(rdma) ? 1 : json_is_false(rdma) ? -1 : 0;
	for (size_t i = 0; !rc && i < sizeof(lists) / sizeof(lists[0]); i++)
		rc = parse_list(s, json, lists[i].key, lists[i].most, lists[i].parse, e);
	return rc;
}

int snapshot_load(struct snapshot *s, const char *path, struct err *e)
{
	json_t *json = jsonio_read(path, FILE_CAP, e);
	int rc;

	memset(s, 0, sizeof(*s));
	if (!json)
		return e->code;
	rc = snapshot_parse(s, json, e);
	json_decref(json);
	return rc ? fail_in(e, "%s", path) : 0;
}

void snapshot_free(struct snapshot *s)
{
	iface_free(&s->ifaces);
	netconf_free(&s->settings);
	sources_free(&s->sources);
}
