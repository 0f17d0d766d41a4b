/* nccl.c - the picker for NCCL 2.16 to 2.32: sockets of its bootstrap and NET/Socket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/release.h"
#include "host/netconf.h"
#include "nicpick/envplugin.h"
#include "nicpick/picker.h"

/* Versions whose rules changed, found by asking 19 versions. */
static const char reads_conf_file[] = "2.23.4";
static const char calls_it_usage[] = "2.24.3";
static const char asks_running[] = "2.28.3";
static const char errs_about_nets[] = "2.29.2", errs_no_more[] = "2.30.3";
static const char reads_home[] = "2.30.3";

static const char conf_file[] = "NCCL_CONF_FILE", env_plugin[] = "NCCL_ENV_PLUGIN";

/* ncclResult_t */
enum { SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

static const char *const results[] = {
	[SYSTEM_ERROR] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
	[INTERNAL_ERROR] = "internal error - please report this issue to the NCCL developers",
	[INVALID_ARGUMENT] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
	[INVALID_USAGE] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
};

enum { MAX_NAMES = 16, MAX_PICKS = 16, NAME = 64 };

/* NCCL_SOCKET_IFNAME taken apart: [^][=]name,name:port,... */
struct spec {
	bool negate, exact;
	char names[MAX_NAMES][NAME];
	int n; /* none: everything matches */
};

static void parse_spec(struct spec *s, const char *text)
{
	size_t len, name;

	memset(s, 0, sizeof(*s));
	s->negate = *text == '^';
	text += s->negate;
	s->exact = *text == '=';
	text += s->exact;
	for (; *text && s->n < MAX_NAMES; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		/* A port is cut off, and does not matter for sockets. */
		name = strcspn(text, ",:");
		if (!name)
			continue;
		snprintf(s->names[s->n++], NAME, "%.*s", (int)(name < NAME ? name : NAME - 1),
			 text);
	}
}

static bool nccl_is_listed(const struct spec *s, const char *label)
{
	for (int i = 0; i < s->n; i++)
		if (s->exact ? !strcmp(label, s->names[i])
			     : !strncmp(label, s->names[i], strlen(s->names[i])))
			return true;
	return s->n == 0;
}

/* Criteria of the search. */
struct want {
	const char *named; /* NCCL_SOCKET_IFNAME, or NULL */
	const char *id;    /* NCCL_COMM_ID, or NULL       */
	int family;        /* 0: any                      */
	bool running;      /* must it be RUNNING?         */
};

/* The reason to exclude an address whatever its name; NULL: none. */
static const char *unfit(const struct iface_list *l, const struct iface_addr *a,
			 const struct want *w)
{
	if (w->running && !(l->ifaces[a->iface].flags & IFF_RUNNING))
		return "not RUNNING, which NCCL checks since 2.28.3";
	if (w->family && a->ip.family != w->family)
		return "has no address of the family in NCCL_SOCKET_FAMILY";
	if (a->ip.family == AF_INET6 && iface_is_loopback(&a->ip))
		return "::1 is never used";
	return NULL;
}

struct found {
	const struct iface_addr *at[MAX_PICKS];
	int n;
};

static bool has_label(const struct found *f, const char *label)
{
	for (int i = 0; i < f->n; i++)
		if (!strcmp(f->at[i]->label, label))
			return true;
	return false;
}

/* The first address of every name that matches, in the kernel's order. */
static void nccl_find(struct found *f, const struct iface_list *l, const char *text,
		      const struct want *w)
{
	struct spec s;

	parse_spec(&s, text);
	f->n = 0;
	for (int i = 0; i < l->naddrs && f->n < MAX_PICKS; i++) {
		const struct iface_addr *a = &l->addrs[i];

		if (!unfit(l, a, w) && nccl_is_listed(&s, a->label) != s.negate &&
		    !has_label(f, a->label))
			f->at[f->n++] = a;
	}
}

/* Parses "[v6]:port" or "[fe80::1%eth0]:port"; the interface is looked up in @l. */
static bool bracket_address(const struct iface_list *l, const char *id, struct iface_ip *ip)
{
	size_t len = strcspn(id, "]"), text = strcspn(id, "%]");
	const struct iface *f;
	char host[IFACE_TEXT];

	if (!id[len] || text >= sizeof(host))
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)text, id);
	if (!iface_parse(ip, host) || ip->family != AF_INET6)
		return false;
	ip->scope_id = 0;
	if (text == len)
		return true;
	snprintf(host, sizeof(host), "%.*s", (int)(len - text - 1), id + text + 1);
	f = iface_find(l, host);
	ip->scope_id = f ? (uint32_t)f->index : 0;
	return true;
}

/* The host of NCCL_COMM_ID: the text before the first colon, which for an IPv6 address without
 * brackets is not the intended one. */
static bool id_address(const struct iface_list *l, const struct netconf *c, const char *id,
		       struct iface_ip *ip)
{
	const struct netconf_host *h;
	struct in_addr v4;
	char host[256];

	if (strlen(id) < 2)
		return false;
	if (*id == '[')
		return bracket_address(l, id + 1, ip);
	while (*id == ',' || *id == ':')
		id += *id == ':' ? strcspn(id, ",") : 1;
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(id, ",:"), id);
	if (iface_parse(ip, host))
		return true;
	if (*host && inet_aton(host, &v4)) {
		memset(ip, 0, sizeof(*ip));
		ip->family = AF_INET;
		memcpy(ip->bytes, &v4, 4);
		return true;
	}
	h = netconf_host_find(c, host);
	if (!h || !h->nips)
		return false;
	*ip = h->ips[0];
	ip->scope_id = 0;
	return true;
}

/* Between these versions IPv4 networks are compared the wrong way round. */
static bool errs(const struct picked *p)
{
	return picker_since(p, errs_about_nets) && !picker_since(p, errs_no_more);
}

/* The first interface whose subnet contains @ip; flags are ignored. */
static void find_subnet(struct found *f, const struct iface_list *l, const struct picked *p,
			const struct iface_ip *ip)
{
	f->n = 0;
	for (int i = 0; i < l->naddrs && !f->n; i++) {
		const struct iface_addr *a = &l->addrs[i];
		bool wrong = errs(p) && ip->family == AF_INET;

		if (a->ip.family == ip->family &&
		    iface_within(ip, &a->ip, a->prefix) != wrong &&
		    (ip->family == AF_INET || ip->scope_id == a->ip.scope_id))
			f->at[f->n++] = a;
	}
}

/* The steps of the search, to report which one found an interface. */
enum step { NAMED, IB, SUBNET, USUAL, DOCKER, LO, VIRBR, NOTHING };

/* The names that a step of @p's version searches for, or NULL if it has no such step. */
static const char *step_spec(const struct picked *p, enum step s)
{
	static const char *const specs[] = {
		[IB] = "ib",         [USUAL] = "^docker,lo,virbr",
		[DOCKER] = "docker", [LO] = "lo",
		[VIRBR] = "virbr",   [NOTHING] = NULL,
	};

	if (picker_since(p, asks_running))
		return specs[s];
	return s == USUAL ? "^docker,lo" : s == VIRBR ? NULL : specs[s];
}

static enum step search(struct found *f, const struct iface_list *l, const struct netconf *c,
			const struct picked *p, const struct want *w)
{
	struct iface_ip ip;

	if (w->named) {
		nccl_find(f, l, w->named, w);
		return f->n ? NAMED : NOTHING;
	}
	for (int s = IB; s < NOTHING; s++) {
		const char *spec = step_spec(p, (enum step)s);

		if (spec)
			nccl_find(f, l, spec, w);
		else if (s == SUBNET && w->id && id_address(l, c, w->id, &ip))
			find_subnet(f, l, p, &ip);
		if (f->n)
			return (enum step)s;
	}
	return NOTHING;
}

static void add_all(struct picked *p, struct pick_role *r, const struct found *f, int max)
{
	for (int i = 0; i < f->n && i < max; i++)
		picker_add(p, r, f->at[i]->label, &f->at[i]->ip);
}

/* Explains why the name excluded interface @i. */
static void explain_name(struct picked *p, int i, const char *name, enum step step,
			 const char *named)
{
	static const char *const last[] = { "docker", "lo", "virbr" };
	int n, lasts = picker_since(p, asks_running) ? 3 : 2;
	struct spec s;

	if (named) {
		parse_spec(&s, named);
		picker_rule(p, i, false, "skipped: NCCL_SOCKET_IFNAME=%.80s %s", named,
			    s.negate  ? "excludes it"
			    : s.exact ? "does not name it"
				      : "is not a prefix of its name");
		return;
	}
	if (step == IB) {
		picker_rule(p, i, false, "skipped: names that begin with ib come first");
		return;
	}
	if (step == SUBNET) {
		picker_rule(p, i, false,
			    "skipped: NCCL_COMM_ID is not in its subnet, or was found before");
		return;
	}
	for (n = 0; n < lasts; n++)
		if (!strncmp(name, last[n], strlen(last[n]))) {
			picker_rule(p, i, false,
				    "skipped: a name that begins with %s is used only if "
				    "nothing else is found",
				    last[n]);
			return;
		}
	picker_rule(p, i, false, "skipped: another step of the search found something first");
}

/* Explains why interface @i, which no role uses, was skipped. */
static void explain_unused(struct picked *p, const struct iface_list *l, int i, enum step step,
			   const struct want *w)
{
	const char *why = NULL, *reason;

	for (int a = 0; a < l->naddrs; a++) {
		if (l->addrs[a].iface != i)
			continue;
		reason = unfit(l, &l->addrs[a], w);
		if (!reason) {
			explain_name(p, i, l->addrs[a].label, step, w->named);
			return;
		}
		/* An IPv4 address tells more than ::1 does. */
		if (!why || l->addrs[a].ip.family == AF_INET)
			why = reason;
	}
	picker_rule(p, i, false, "skipped: %s", why ? why : "has no address");
}

static void nccl_explain(struct picked *p, const struct iface_list *l, int i, enum step step,
			 const struct want *w)
{
	bool boot = picker_which(&p->roles[0], l, i) >= 0;
	bool net = picker_which(&p->roles[1], l, i) >= 0;
	const struct pick_role *r = &p->roles[0];

	if (boot && net)
		picker_rule(p, i, true, "first that matches: bootstrap and data");
	else if (boot)
		picker_rule(p, i, true, "bootstrap only");
	else if (net)
		picker_rule(
			p, i, true, "data only: the bootstrap uses one interface, %s",
			r->npicks && *r->picks[0].interface ? r->picks[0].interface : "and found none");
	else
		explain_unused(p, l, i, step, w);
	if ((boot || net) && !(l->ifaces[i].flags & IFF_RUNNING))
		picker_rule(p, i, true, "not RUNNING, which NCCL %s",
			    w->running ? "does not check in NCCL_COMM_ID's network"
				       : "only checks since 2.28.3");
}

static void nccl_refuse(struct pick_role *r, int result, const char *named)
{
	if (named)
		picker_refuse(r,
			      "NCCL_SOCKET_IFNAME=%.80s matches no interface: names are "
			      "prefixes, a leading = makes them exact, blanks and quotes count",
			      named);
	else
		picker_refuse(r, "no interface found: none has a usable address");
	picker_result(r, result, results[result]);
}

/* The bootstrap where NCCL_COMM_ID names the root: an interface in its network or none. */
static void pick_by_id(const struct iface_list *l, const struct netconf *c, struct picked *p,
		       const struct want *w)
{
	struct pick_role *r = &p->roles[0];
	struct found f;
	struct iface_ip ip;

	if (!id_address(l, c, w->id, &ip)) {
		picker_refuse(r,
			      "NCCL_COMM_ID=%.80s is not an address: it must be IPV4:PORT, "
			      "[IPV6]:PORT or HOST:PORT with a host that resolves",
			      w->id);
		picker_result(r, INVALID_ARGUMENT, results[INVALID_ARGUMENT]);
		return;
	}
	find_subnet(&f, l, p, &ip);
	add_all(p, r, &f, 1);
	if (f.n && w->named)
		picker_note(r, "with NCCL_COMM_ID the bootstrap ignores NCCL_SOCKET_IFNAME");
	if (f.n && errs(p) && ip.family == AF_INET)
		picker_note(r, "beware: 2.29.2 to 2.29.7 use the first network that does not "
			       "contain NCCL_COMM_ID");
	if (f.n)
		return;
	picker_refuse(r, "NCCL_COMM_ID=%.80s is in the subnet of no interface", w->id);
	picker_result(r, SYSTEM_ERROR, results[SYSTEM_ERROR]);
}

static struct want wanted(const struct netconf *c, struct picked *p)
{
	const char *family = netconf_value(c, "NCCL_SOCKET_FAMILY");
	struct want w = { .named = netconf_value(c, "NCCL_SOCKET_IFNAME"),
			  .id = netconf_value(c, "NCCL_COMM_ID"),
			  .running = picker_since(p, asks_running) };

	if (family && !strcmp(family, "AF_INET"))
		w.family = AF_INET;
	else if (family && !strcmp(family, "AF_INET6"))
		w.family = AF_INET6;
	if (w.named && strlen(w.named) < 2) {
		picker_note(&p->roles[0],
			    "NCCL_SOCKET_IFNAME=%s is ignored: less than two characters",
			    w.named);
		w.named = NULL;
	}
	return w;
}

/* Warns of values with an effect that the user did not intend. */
static void warn_traps(struct pick_role *r, const struct want *w)
{
	const char *named = w->named;
	bool lo = r->npicks && !strncmp(r->picks[0].interface, "lo", 2);

	if (named && *named == '^' && lo)
		picker_note(
			r,
			"beware: %.60s drops the default exclusions, so NCCL picks loopback, "
			"which other hosts cannot reach; name the right interface: =eth0",
			named);
	else if (lo)
		picker_note(r, "beware: loopback; other hosts cannot reach it");
}

/* Notes that a plug-in may answer instead of the environment. */
static void tell_plugin(struct picked *p, const struct netconf *c)
{
	struct pick_role *r = &p->roles[0];
	struct envplugin x;

	envplugin_find(&x, c, p->version);
	if (x.kind == ENVPLUGIN_UNKNOWN)
		picker_unknown(p,
			       "the env plug-in %.160s overrides the environment for NCCL; its "
			       "values are unknown",
			       x.what);
	else if (x.kind == ENVPLUGIN_OURS)
		picker_note(r,
			    "the env plug-in %.120s returns the settings written by `ringup "
			    "net fix`",
			    x.what);
	else if (x.kind == ENVPLUGIN_UNFIT)
		picker_note(r,
			    "the env plug-in %.120s has no interface for NCCL %.20s, and is "
			    "ignored",
			    x.what, p->version);
	else if (x.kind == ENVPLUGIN_MISSING)
		picker_note(
			r,
			"NCCL_ENV_PLUGIN=%.120s cannot be loaded as a library, and is ignored",
			x.asked);
}

static void nccl_pick(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	struct pick_role *boot = &p->roles[0], *net = &p->roles[1];
	struct want w = wanted(c, p);
	int none = picker_since(p, calls_it_usage) ? INVALID_USAGE : INTERNAL_ERROR;
	struct found f = { .n = 0 };
	enum step step = search(&f, l, c, p, &w);

	add_all(p, net, &f, MAX_PICKS);
	if (!f.n)
		nccl_refuse(net, INTERNAL_ERROR, w.named);
	if (w.id)
		pick_by_id(l, c, p, &w);
	else if (f.n)
		add_all(p, boot, &f, 1);
	else
		nccl_refuse(boot, none, w.named);
	warn_traps(boot, &w);
	tell_plugin(p, c);
	for (int i = 0; i < l->nifaces; i++)
		nccl_explain(p, l, i, step, &w);
}

static bool hears(const struct netconf *all, struct netconf_row *row, const char *version);

/* Would @version ask ringup's plug-in?  The setting that names the plug-in is no pin. */
static bool hears_pins(const struct netconf *all, const char *version)
{
	struct netconf heard = *all;
	struct netconf_row row = { 0 };
	struct envplugin x;

	/* Only the first setting that names a plug-in counts, if this version reads it. */
	heard.rows = &row;
	heard.nrows = 0;
	for (int i = 0; i < all->nrows && !heard.nrows; i++) {
		if (strcmp(all->rows[i].name, env_plugin) != 0 ||
		    all->rows[i].via == NETCONF_PINNED)
			continue;
		free(row.value);
		row = all->rows[i];
		row.value = strdup(row.value);
		heard.nrows = row.value && hears(all, &row, version);
	}
	envplugin_find(&x, &heard, version);
	free(row.value);
	return x.kind == ENVPLUGIN_OURS;
}

/* NCCL_CONF_FILE replaces ~/.nccl.conf, whose home came from the passwd entry before 2.30;
 * since then a final CR in a file is dropped. */
static bool hears(const struct netconf *all, struct netconf_row *row, const char *version)
{
	const struct netconf_row *file = netconf_get(all, conf_file);
	bool knows_file = release_compare(version, reads_conf_file) >= 0;
	bool by_home = release_compare(version, reads_home) >= 0;
	size_t len = strlen(row->value);

	if (row->via == NETCONF_PINNED)
		return hears_pins(all, version);
	if (!strcmp(row->name, env_plugin) && !envplugin_since(version))
		return false;
	if (by_home && row->via != NETCONF_ANY && len && row->value[len - 1] == '\r')
		row->value[len - 1] = 0;
	if (row->via == NETCONF_GIVEN || !strcmp(row->name, conf_file))
		return knows_file;
	if (row->via != NETCONF_HOME && row->via != NETCONF_PASSWD)
		return true;
	return (row->via == NETCONF_HOME) == by_home &&
	       !(knows_file && file && file->via == NETCONF_ANY && *file->value);
}

static const char *const roles[] = { "bootstrap", "net", NULL };
static const char *const listens[] = { "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY",
				       "NCCL_COMM_ID",       conf_file,
				       env_plugin,           NULL };

const struct picker picker_nccl = {
	.name = "nccl",
	.title = "NCCL",
	.oldest = "2.16",
	.newest = "2.32.3",
	.hears = hears,
	.settings = listens,
	.roles = roles,
	.pick = nccl_pick,
};
