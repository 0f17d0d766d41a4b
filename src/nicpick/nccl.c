/* nccl.c - NCCL 2.28: sockets of its bootstrap and of its NET/Socket transport. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/netconf.h"
#include "nicpick/picker.h"

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
		/* A port is cut off, and plays no part for sockets. */
		name = strcspn(text, ",:");
		if (!name)
			continue;
		snprintf(s->names[s->n++], NAME, "%.*s", (int)(name < NAME ? name : NAME - 1),
			 text);
	}
}

static bool is_listed(const struct spec *s, const char *label)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (s->exact ? !strcmp(label, s->names[i])
			     : !strncmp(label, s->names[i], strlen(s->names[i])))
			return true;
	return s->n == 0;
}

/* Why an address is out of the question whatever its name is; NULL: it is not. */
static const char *unfit(const struct iface_list *l, const struct iface_addr *a, int family)
{
	static const unsigned char v6_loopback[16] = { [15] = 1 };

	if (!(l->ifaces[a->iface].flags & IFF_RUNNING))
		return "not RUNNING, which NCCL demands since 2.28.3";
	if (family && a->ip.family != family)
		return "has no address of the family that NCCL_SOCKET_FAMILY demands";
	if (a->ip.family == AF_INET6 && !memcmp(a->ip.bytes, v6_loopback, 16))
		return "::1 is never taken";
	return NULL;
}

struct found {
	const struct iface_addr *at[MAX_PICKS];
	int n;
};

static bool has_label(const struct found *f, const char *label)
{
	int i;

	for (i = 0; i < f->n; i++)
		if (!strcmp(f->at[i]->label, label))
			return true;
	return false;
}

/* The first address of every name that matches, in the kernel's order. */
static void find(struct found *f, const struct iface_list *l, const char *text, int family)
{
	struct spec s;
	int i;

	parse_spec(&s, text);
	f->n = 0;
	for (i = 0; i < l->naddrs && f->n < MAX_PICKS; i++) {
		const struct iface_addr *a = &l->addrs[i];

		if (!unfit(l, a, family) && is_listed(&s, a->label) != s.negate &&
		    !has_label(f, a->label))
			f->at[f->n++] = a;
	}
}

/* The host of NCCL_COMM_ID: "[v6]:port" or whatever stands before the first
 * colon, which for an IPv6 address without brackets is not what was meant. */
static bool id_address(const struct netconf *c, const char *id, struct iface_ip *ip)
{
	const struct netconf_host *h;
	struct in_addr v4;
	char host[256];
	bool bracket = *id == '[';

	id += bracket;
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(id, bracket ? "]" : ":"), id);
	if (iface_parse(ip, host))
		return true;
	if (inet_aton(host, &v4)) {
		memset(ip, 0, sizeof(*ip));
		ip->family = AF_INET;
		memcpy(ip->bytes, &v4, 4);
		return true;
	}
	h = netconf_host_find(c, host);
	if (h && h->nips)
		*ip = h->ips[0];
	return h && h->nips;
}

/* The first interface in whose subnet @ip is; no flag is looked at. */
static void find_subnet(struct found *f, const struct iface_list *l, const struct iface_ip *ip)
{
	int i;

	f->n = 0;
	for (i = 0; i < l->naddrs && !f->n; i++)
		if (iface_within(ip, &l->addrs[i].ip, l->addrs[i].prefix) &&
		    (ip->family == AF_INET || ip->scope_id == l->addrs[i].ip.scope_id))
			f->at[f->n++] = &l->addrs[i];
}

/* How the search went, to say so: which step found something. */
enum step { NAMED, IB, SUBNET, USUAL, DOCKER, LO, VIRBR, NOTHING };

static const char *const step_spec[] = {
	[IB] = "ib",       [USUAL] = "^docker,lo,virbr", [DOCKER] = "docker", [LO] = "lo",
	[VIRBR] = "virbr",
};

static enum step search(struct found *f, const struct iface_list *l, const struct netconf *c,
			const char *named, const char *id, int family)
{
	struct iface_ip ip;
	int s;

	if (named) {
		find(f, l, named, family);
		return f->n ? NAMED : NOTHING;
	}
	for (s = IB; s < NOTHING; s++) {
		if (s != SUBNET)
			find(f, l, step_spec[s], family);
		else if (id && id_address(c, id, &ip))
			find_subnet(f, l, &ip);
		if (f->n)
			return (enum step)s;
	}
	return NOTHING;
}

static void add_all(struct picked *p, struct pick_role *r, const struct found *f, int max)
{
	int i;

	for (i = 0; i < f->n && i < max; i++)
		picker_add(p, r, f->at[i]->label, &f->at[i]->ip);
}

static bool is_used(const struct pick_role *r, const struct iface_list *l, int i)
{
	int n, a;

	for (n = 0; n < r->npicks; n++)
		for (a = 0; a < l->naddrs; a++)
			if (l->addrs[a].iface == i &&
			    !strcmp(l->addrs[a].label, r->picks[n].interface))
				return true;
	return false;
}

/* Why interface @i was passed over by the name. */
static void explain_name(struct picked *p, int i, const char *name, enum step step,
			 const char *named)
{
	static const char *const last[] = { "docker", "lo", "virbr" };
	struct spec s;
	int n;

	if (named) {
		parse_spec(&s, named);
		picker_rule(p, i, false, "NCCL_SOCKET_IFNAME=%.80s %s", named,
			    s.negate  ? "excludes it"
			    : s.exact ? "does not name it"
				      : "is no beginning of its name");
		return;
	}
	if (step == IB) {
		picker_rule(p, i, false, "a name that begins with ib comes before all others");
		return;
	}
	if (step == SUBNET) {
		picker_rule(p, i, false,
			    "NCCL_COMM_ID is not in its subnet, or was found before");
		return;
	}
	for (n = 0; n < 3; n++)
		if (!strncmp(name, last[n], strlen(last[n]))) {
			picker_rule(
				p, i, false,
				"a name that begins with %s is taken only if nothing else is "
				"found",
				last[n]);
			return;
		}
	picker_rule(p, i, false, "another step of the search found something first");
}

static void explain(struct picked *p, const struct iface_list *l, int i, enum step step,
		    const char *named, int family)
{
	bool boot = is_used(&p->roles[0], l, i), net = is_used(&p->roles[1], l, i);
	const char *why = "has no address", *reason;
	int a;

	if (boot && net)
		picker_rule(p, i, true, "first that matches: bootstrap and data");
	else if (boot)
		picker_rule(p, i, true, "bootstrap only");
	else if (net)
		picker_rule(
			p, i, true, "data only: the bootstrap takes one interface, %s",
			p->roles[0].npicks ? p->roles[0].picks[0].interface : "and found none");
	if (boot || net)
		return;
	for (a = 0; a < l->naddrs; a++) {
		if (l->addrs[a].iface != i)
			continue;
		reason = unfit(l, &l->addrs[a], family);
		if (!reason) {
			explain_name(p, i, l->addrs[a].label, step, named);
			return;
		}
		/* An address tells more than ::1 does. */
		if (*why == 'h' || l->addrs[a].ip.family == AF_INET)
			why = reason;
	}
	picker_rule(p, i, false, "%s", why);
}

static const char *value(const struct netconf *c, const char *name)
{
	const struct netconf_row *r = netconf_get(c, name);

	return r ? r->value : NULL;
}

static void refuse(struct pick_role *r, const char *named)
{
	if (named)
		picker_refuse(
			r,
			"no interface found that NCCL_SOCKET_IFNAME=%.80s matches: names "
			"are prefixes, = in front makes them exact, blanks and quotes count",
			named);
	else
		picker_refuse(r, "no interface found: none is RUNNING with an address");
}

static void pick(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	struct pick_role *boot = &p->roles[0], *net = &p->roles[1];
	const char *named = value(c, "NCCL_SOCKET_IFNAME"), *id = value(c, "NCCL_COMM_ID");
	const char *wish = value(c, "NCCL_SOCKET_FAMILY");
	struct found f = { .n = 0 };
	struct iface_ip ip;
	enum step step;
	int i, family = 0;

	if (wish && !strcmp(wish, "AF_INET"))
		family = AF_INET;
	else if (wish && !strcmp(wish, "AF_INET6"))
		family = AF_INET6;
	if (named && strlen(named) < 2) {
		picker_note(boot, "NCCL_SOCKET_IFNAME=%s is ignored: less than two characters",
			    named);
		named = NULL;
	}
	step = search(&f, l, c, named, id, family);
	add_all(p, net, &f, MAX_PICKS);
	if (!id) {
		add_all(p, boot, &f, 1);
	} else if (!id_address(c, id, &ip)) {
		picker_refuse(boot, "NCCL_COMM_ID=%.80s has no address in it", id);
	} else {
		find_subnet(&f, l, &ip);
		add_all(p, boot, &f, 1);
		if (!f.n)
			picker_refuse(boot,
				      "NCCL_COMM_ID=%.80s is in the subnet of no interface",
				      id);
		else if (named)
			picker_note(boot, "with NCCL_COMM_ID the bootstrap ignores "
					  "NCCL_SOCKET_IFNAME");
	}
	if (step == NOTHING) {
		refuse(net, named);
		if (!id)
			refuse(boot, named);
	}
	for (i = 0; i < l->nifaces; i++)
		explain(p, l, i, step, named, family);
}

static const char *const roles[] = { "bootstrap", "net", NULL };
static const char *const listens[] = { "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY",
				       "NCCL_COMM_ID", NULL };

const struct picker picker_nccl = {
	.name = "nccl",
	.title = "NCCL",
	.version = "2.28",
	.settings = listens,
	.roles = roles,
	.pick = pick,
};
