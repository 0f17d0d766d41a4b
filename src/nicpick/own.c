/* own.c - the interface that ringup itself uses between hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/own.h"

#include <ctype.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/conf.h"
#include "base/err.h"
#include "ringup.h"

/* The likelihood that an interface leads to the other hosts, ascending. */
enum claim { NEVER, TUNNEL_OUT, VIRTUAL, HARDWARE, WAY_OUT, ON_THE_WAY };

static bool is_set(const char *s)
{
	return s && *s;
}

bool own_network(const char *text, struct iface_ip *ip, int *prefix)
{
	char address[IFACE_TEXT], *end;
	const char *slash = strchr(text, '/');
	long n;

	if (!slash || slash == text || slash - text >= IFACE_TEXT)
		return false;
	snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
	n = strtol(slash + 1, &end, 10);
	if (!iface_parse(ip, address) || !isdigit((unsigned char)slash[1]) || *end || n < 0 ||
	    n > (ip->family == AF_INET ? 32 : 128))
		return false;
	*prefix = (int)n;
	return true;
}

static bool is_asked(const struct iface_ip *ip, const struct own_hint *h)
{
	struct iface_ip net;
	int prefix;

	return !h || !is_set(h->network) || !own_network(h->network, &net, &prefix) ||
	       iface_within(ip, &net, prefix);
}

/* The other node that has the same address: packets to it would come back to us. */
static const struct own_node *double_of(const struct iface_ip *ip, const struct own_hint *h,
					const struct iface **where)
{
	const struct iface_addr *a;

	for (int n = 0; h && n < h->nothers; n++) {
		a = iface_owner(h->others[n].ifaces, ip);
		if (a) {
			*where = &h->others[n].ifaces->ifaces[a->iface];
			return &h->others[n];
		}
	}
	return NULL;
}

static bool is_usable(const struct iface_addr *a)
{
	return a->scope == IFACE_GLOBAL && iface_is_global(&a->ip);
}

/* The address to listen on: IPv4 if there is one, since all libraries support it. */
static const struct iface_addr *best_address(const struct iface_list *l, int i,
					     const struct own_hint *h)
{
	const struct iface_addr *best = NULL, *a;
	const struct iface *where;

	for (int n = 0; n < l->naddrs; n++) {
		a = &l->addrs[n];
		if (a->iface == i && is_usable(a) && is_asked(&a->ip, h) &&
		    !double_of(&a->ip, h, &where) &&
		    (!best || (best->ip.family == AF_INET6 && a->ip.family == AF_INET)))
			best = a;
	}
	return best;
}

bool own_leads_to(const struct iface_list *l, int i, const struct iface_ip *to)
{
	const struct iface_route *r = iface_route(l, to);

	for (int n = 0; (!r || !r->prefix) && n < l->naddrs; n++)
		if (is_usable(&l->addrs[n]) &&
		    iface_within(to, &l->addrs[n].ip, l->addrs[n].prefix))
			return l->addrs[n].iface == i;
	return r && r->iface == i;
}

static bool own_reaches(const struct iface_list *l, int i, const struct iface_list *node)
{
	for (int n = 0; n < node->naddrs; n++) {
		const struct iface_addr *a = &node->addrs[n];

		if (is_usable(a) && node->ifaces[a->iface].flags & IFF_RUNNING &&
		    !iface_owner(l, &a->ip) && own_leads_to(l, i, &a->ip))
			return true;
	}
	return false;
}

/* Is interface @i on the way to all other nodes, by the names that the user gave? */
static bool is_on_the_way(const struct iface_list *l, int i, const struct own_hint *h)
{
	struct iface_ip ip;

	for (int n = 0; n < h->nothers; n++)
		if (!is_set(h->others[n].address) || !iface_parse(&ip, h->others[n].address) ||
		    !own_leads_to(l, i, &ip))
			return false;
	return h->nothers > 0;
}

static const struct iface_route *default_route(const struct iface_list *l, int i)
{
	const struct iface_route *best = NULL, *r;

	for (int n = 0; n < l->nroutes; n++) {
		r = &l->routes[n];
		if (r->iface == i && r->prefix == 0 && (!best || r->metric < best->metric))
			best = r;
	}
	return best;
}

static bool is_tunnel(const struct iface *i)
{
	return i->kind == IFACE_TUN || i->kind == IFACE_TUNNEL || i->kind == IFACE_VXLAN;
}

/* Is @i a bridge with a network card in it, as on hosts of virtual machines?  It is the way of
 * the card then; bridges of containers have ends of veth pairs and taps in them only. */
static bool is_over_card(const struct iface_list *l, int i)
{
	for (int n = 0; n < l->nifaces; n++) {
		const struct iface *f = &l->ifaces[n];

		if (f->master == l->ifaces[i].index && f->master && f->kind != IFACE_TUN &&
		    f->kind != IFACE_DUMMY && f->kind != IFACE_VXLAN &&
		    strncmp(f->name, "veth", 4) != 0 && strncmp(f->name, "vnet", 4) != 0)
			return l->ifaces[i].kind == IFACE_BRIDGE;
	}
	return false;
}

/* Does interface @i have an address that other hosts can reach?  If not, says why. */
static bool has_address(const struct iface_list *l, int i, const struct own_hint *h,
			struct picked *p)
{
	const struct own_node *other = NULL;
	const struct iface *where;
	char text[IFACE_TEXT];
	bool any = false;

	if (best_address(l, i, h))
		return true;
	for (int n = 0; n < l->naddrs && !other; n++) {
		const struct iface_addr *a = &l->addrs[n];

		if (a->iface != i || !is_usable(a))
			continue;
		any = true;
		other = double_of(&a->ip, h, &where);
		if (other)
			picker_rule(p, i, false, "its address %s is also that of %s on %s",
				    iface_text(&a->ip, text), where->name, other->name);
	}
	if (!any)
		picker_rule(p, i, false, "has only link-local addresses");
	else if (!other)
		picker_rule(p, i, false, "has no address in %.64s", h->network);
	return false;
}

static bool leads_to_all(const struct iface_list *l, int i, const struct own_hint *h,
			 struct picked *p)
{
	for (int n = 0; n < h->nothers; n++)
		if (!own_reaches(l, i, h->others[n].ifaces)) {
			picker_rule(p, i, false, "is not on a route to any address of %.64s",
				    h->others[n].name);
			return false;
		}
	return true;
}

/* Judges interface @i, and adds a rule if it is excluded. */
static enum claim own_judge(const struct iface_list *l, int i, const struct own_hint *h,
			    struct picked *p)
{
	const struct iface *f = &l->ifaces[i];
	const char *kind = iface_kind_text(f->kind);
	bool out = default_route(l, i) || is_on_the_way(l, i, h);

	if (f->flags & IFF_LOOPBACK)
		picker_rule(p, i, false, "leads to no other host");
	else if (!(f->flags & IFF_UP))
		picker_rule(p, i, false, "is down");
	else if (!(f->flags & IFF_RUNNING))
		picker_rule(p, i, false, "is up but not running: no link");
	else if (!has_address(l, i, h, p) || !leads_to_all(l, i, h, p))
		return NEVER;
	else if (out && is_tunnel(f))
		return TUNNEL_OUT;
	else if (out)
		return is_on_the_way(l, i, h) ? ON_THE_WAY : WAY_OUT;
	else if (is_over_card(l, i))
		return HARDWARE;
	else if (is_tunnel(f) || f->kind == IFACE_BRIDGE || f->kind == IFACE_DUMMY)
		picker_rule(p, i, false, "is a %s without the default route", kind);
	else
		return f->kind == IFACE_VETH || f->kind == IFACE_OTHER ? VIRTUAL : HARDWARE;
	return NEVER;
}

static const char *claim_text(enum claim c)
{
	static const char *const texts[] = {
		[NEVER] = "",
		[TUNNEL_OUT] = "a tunnel with the default route",
		[VIRTUAL] = "a virtual link without the default route",
		[HARDWARE] = "a network device without the default route",
		[WAY_OUT] = "the default route",
		[ON_THE_WAY] = "the route to all other nodes",
	};

	return texts[c];
}

static void choose_address(struct picked *p, const struct iface_list *l,
			   const struct iface_addr *a, const char *why)
{
	picker_add(p, &p->roles[0], l->ifaces[a->iface].name, &a->ip);
	for (int i = 0; i < l->nifaces; i++)
		if (i == a->iface)
			picker_rule(p, i, true, "%s", why);
		else if (!*p->fates[i].rule)
			picker_rule(p, i, false, "%s decides: %s", l->ifaces[a->iface].name,
				    why);
	picker_note(&p->roles[0], "%s", why);
}

static void choose_loopback(struct picked *p, const struct iface_list *l, const char *why)
{
	struct iface_ip ip;
	int i;

	iface_parse(&ip, "127.0.0.1");
	for (i = 0; i < l->nifaces; i++)
		if (l->ifaces[i].flags & IFF_LOOPBACK)
			break;
	if (i < l->nifaces)
		picker_rule(p, i, true, "%s", why);
	picker_add(p, &p->roles[0], i < l->nifaces ? l->ifaces[i].name : "lo", &ip);
	for (i = 0; i < l->nifaces; i++)
		if (!*p->fates[i].rule)
			picker_rule(p, i, false, "%s", why);
	picker_note(&p->roles[0], "%s", why);
}

/* Lists all interfaces that have an address, "eth0, eth1", for error messages. */
static const char *list_names(const struct iface_list *l, char *out, size_t size)
{
	size_t len = 0;

	*out = 0;
	for (int i = 0; i < l->nifaces && len + IFACE_NAME + 2 < size; i++)
		if (!(l->ifaces[i].flags & IFF_LOOPBACK) && best_address(l, i, NULL))
			len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "",
						l->ifaces[i].name);
	if (!len)
		snprintf(out, size, "only the loopback interface");
	return out;
}

/* The address that RINGUP_INTERFACE, a name or an address, selects. */
static const struct iface_addr *named_address(const struct iface_list *l, const char *name)
{
	const struct iface *f = iface_find(l, name);
	struct iface_ip ip;

	if (f && !(f->flags & IFF_LOOPBACK))
		return best_address(l, (int)(f - l->ifaces), NULL);
	for (int i = 0; f && i < l->naddrs; i++)
		if (&l->ifaces[l->addrs[i].iface] == f)
			return &l->addrs[i];
	return iface_parse(&ip, name) ? iface_owner(l, &ip) : NULL;
}

static void choose_named(struct picked *p, const struct iface_list *l, const char *name,
			 const char *by)
{
	const struct iface_addr *a = named_address(l, name);
	const struct iface *f = iface_find(l, name);
	char others[120], why[PICKER_RULE];

	if (a && l->ifaces[a->iface].flags & IFF_UP) {
		snprintf(why, sizeof(why), "%s names it: %.64s", by, name);
		choose_address(p, l, a, why);
		return;
	}
	list_names(l, others, sizeof(others));
	if (a)
		picker_refuse(&p->roles[0], "%s=%.64s: that interface is down", by, name);
	else if (f)
		picker_refuse(&p->roles[0],
			      "%s=%.64s has no usable address; those that have: %s", by, name,
			      others);
	else
		picker_refuse(&p->roles[0], "%s=%.64s: no such interface; this host has %s", by,
			      name, others);
}

/* The address from which @peer is reached: @peer itself if it is ours. */
static const struct iface_addr *towards(const struct iface_list *l, const struct iface_ip *peer)
{
	const struct iface_addr *a = iface_owner(l, peer), *best = NULL;
	const struct iface_route *r;

	if (a)
		return a;
	r = iface_route(l, peer);
	for (int n = 0; r && n < l->naddrs; n++) {
		a = &l->addrs[n];
		if (a->iface != r->iface || a->ip.family != peer->family)
			continue;
		/* The address in the peer's subnet; else the first. */
		if (!best || (!iface_within(peer, &best->ip, best->prefix) &&
			      iface_within(peer, &a->ip, a->prefix)))
			best = a;
	}
	return best;
}

/* Chooses by a hint; false if none decides. */
static bool follow_hint(struct picked *p, const struct iface_list *l, const struct own_hint *h)
{
	const struct iface_addr *a;
	struct iface_ip ip;
	char why[PICKER_RULE];

	/* A network that the user set overrides the platform's address. */
	if (is_set(h->container_ip) && !is_set(h->network) &&
	    iface_parse(&ip, h->container_ip)) {
		a = iface_owner(l, &ip);
		if (a) {
			snprintf(why, sizeof(why), "DB_CONTAINER_IP is its address, %.64s",
				 h->container_ip);
			choose_address(p, l, a, why);
			return true;
		}
		picker_note(&p->roles[0],
			    "DB_CONTAINER_IP=%.64s is not an address of this host",
			    h->container_ip);
	}
	if (!is_set(h->peer) || !iface_parse(&ip, h->peer))
		return false;
	a = towards(l, &ip);
	if (!a)
		return false;
	snprintf(why, sizeof(why), "the route to %.64s uses it", h->peer);
	choose_address(p, l, a, why);
	return true;
}

/* Two interfaces in one subnet do not tie: either address reaches all nodes. */
static bool same_network(const struct iface_addr *a, const struct iface_addr *b)
{
	return a->prefix == b->prefix && iface_within(&a->ip, &b->ip, a->prefix);
}

struct race {
	int64_t wish; /* rank by the preference */
	enum claim claim;
	int64_t metric;    /* among default routes the lowest wins, as in the kernel */
	int first, second; /* positions; -1: none */
};

static int64_t wish(const struct iface *f, enum claim claim, enum own_prefer prefer)
{
	/* A tunnel's speed is not the wire's. */
	if (claim == NEVER || claim == TUNNEL_OUT)
		return -1;
	if (prefer == OWN_SPEED)
		return f->speed_mbps;
	return prefer == OWN_INFINIBAND && f->kind == IFACE_INFINIBAND;
}

static void own_enter(struct race *r, const struct iface_list *l, int i, enum claim claim,
		      const struct own_hint *h)
{
	const struct iface_route *way = default_route(l, i);
	int64_t metric = way ? way->metric : 0;
	int64_t wished = wish(&l->ifaces[i], claim, h->prefer);
	bool level = wished == r->wish && claim == r->claim && metric == r->metric;

	if (claim == NEVER)
		return;
	if (r->first < 0 || wished > r->wish ||
	    (wished == r->wish &&
	     (claim > r->claim || (claim == r->claim && metric < r->metric))))
		*r = (struct race){ wished, claim, metric, i, -1 };
	else if (level && !same_network(best_address(l, r->first, h), best_address(l, i, h)))
		r->second = i;
}

/* The reason why the winner won. */
static void explain_win(const struct race *r, const struct iface_list *l,
			const struct own_hint *h, char why[PICKER_RULE])
{
	const struct iface *f = &l->ifaces[r->first];

	if (h->prefer == OWN_SPEED && r->wish > 0)
		snprintf(why, PICKER_RULE, "running, and the fastest: %d Mb/s", f->speed_mbps);
	else if (h->prefer == OWN_INFINIBAND && r->wish > 0)
		snprintf(why, PICKER_RULE, "running, and InfiniBand");
	else
		snprintf(why, PICKER_RULE, "running, with %s%s",
			 r->claim >= WAY_OUT ? "" : "the highest priority: ",
			 claim_text(r->claim));
}

static void refuse_tie(struct picked *p, const struct race *r, const struct iface_list *l,
		       const struct own_hint *h)
{
	const char *by = h->decide ? h->decide : "RINGUP_INTERFACE=";

	picker_refuse(
		&p->roles[0],
		"%s and %s tie (%s), and a wrong guess hangs the job; choose with %s%s or %s%s",
		l->ifaces[r->first].name, l->ifaces[r->second].name, claim_text(r->claim), by,
		l->ifaces[r->first].name, by, l->ifaces[r->second].name);
}

static void refuse_none(struct picked *p, const struct iface_list *l, const struct own_hint *h)
{
	const char *by = h->decide ? h->decide : "RINGUP_INTERFACE=";
	char others[120];

	if (is_set(h->network))
		picker_refuse(&p->roles[0],
			      "no interface with an address in %.64s can be used; "
			      "those with any: %s",
			      h->network, list_names(l, others, sizeof(others)));
	else if (h->nothers)
		picker_refuse(&p->roles[0],
			      "no interface with a unique address reaches all other nodes; "
			      "name one with %sNAME",
			      by);
	else
		picker_refuse(&p->roles[0],
			      "no interface reaches other hosts; bring one up, or name one "
			      "with %sNAME",
			      by);
}

static void guess(struct picked *p, const struct iface_list *l, const struct own_hint *h)
{
	struct race r = { .wish = -1, .first = -1, .second = -1 };
	char why[PICKER_RULE];

	for (int i = 0; i < l->nifaces; i++)
		own_enter(&r, l, i, own_judge(l, i, h, p), h);
	if (r.first < 0 && h->any && !is_set(h->network) && !h->nothers) {
		choose_loopback(p, l,
				"this host has no network; a single host does not need one");
	} else if (r.first < 0) {
		refuse_none(p, l, h);
	} else if (r.second >= 0) {
		refuse_tie(p, &r, l, h);
	} else {
		explain_win(&r, l, h, why);
		choose_address(p, l, best_address(l, r.first, h), why);
	}
}

/* Notes where the other nodes contradict the user's choice. */
static void beware_of_others(struct picked *p, const struct iface_list *l,
			     const struct iface_addr *mine, const struct own_hint *h)
{
	const struct iface *where;
	const struct own_node *other = double_of(&mine->ip, h, &where);

	if (other)
		picker_note(&p->roles[0], "beware: its address is also that of %s on %.64s",
			    where->name, other->name);
	for (int n = 0; n < h->nothers; n++)
		if (!own_reaches(l, mine->iface, h->others[n].ifaces))
			picker_note(&p->roles[0],
				    "beware: it is not on a route to any address of %.64s",
				    h->others[n].name);
}

/* Notes on an address that works for ringup and harms other libraries. */
static void beware(struct picked *p, const struct iface_list *l, const struct own_hint *h)
{
	struct pick_role *r = &p->roles[0];
	const struct iface *f = r->npicks ? iface_find(l, r->picks[0].interface) : NULL;
	const struct iface_addr *mine = f ? best_address(l, (int)(f - l->ifaces), NULL) : NULL;
	int v4 = 0, shared = -1;

	for (int n = 0; mine && n < l->naddrs; n++) {
		const struct iface_addr *a = &l->addrs[n];

		v4 += a->iface == mine->iface && a->ip.family == AF_INET;
		if (a->iface != mine->iface && same_network(a, mine) &&
		    l->ifaces[a->iface].flags & IFF_UP)
			shared = a->iface;
	}
	if (v4 > 1)
		picker_note(r,
			    "beware: %s has %d IPv4 addresses, with which Open MPI 4.1 hangs",
			    f->name, v4);
	if (shared >= 0)
		picker_note(r,
			    "beware: %s is in the same subnet, and the route decides which of "
			    "them sends",
			    l->ifaces[shared].name);
	if (mine)
		beware_of_others(p, l, mine, h);
}

int own_choose(const struct iface_list *l, const struct own_hint *h, struct picked *p,
	       struct err *e)
{
	static const char *const roles[] = { "bind", NULL };
	int rc = picker_init(p, l, roles, e);

	if (rc)
		return rc;
	if (h->one_host && (!is_set(h->interface) || named_address(l, h->interface)))
		choose_loopback(p, l, "all ranks are on this host");
	else if (is_set(h->interface))
		choose_named(p, l, h->interface,
			     h->named_by ? h->named_by : "RINGUP_INTERFACE");
	else if (!follow_hint(p, l, h))
		guess(p, l, h);
	beware(p, l, h);
	return 0;
}

/* Extracts the address of "10.0.0.5:41217" or "[::1]:41217"; "" for a directory. */
static const char *meeting_address(const char *where, char out[IFACE_TEXT])
{
	struct iface_ip ip;
	const char *end;

	*out = 0;
	if (*where == '[') {
		where++;
		end = strchr(where, ']');
	} else {
		end = strrchr(where, ':');
	}
	if (end && end - where < IFACE_TEXT) {
		memcpy(out, where, (size_t)(end - where));
		out[end - where] = 0;
		if (!iface_parse(&ip, out))
			*out = 0;
	}
	return out;
}

/* The first name of "eth0,ib0" that this host has, since hosts of one job may differ.  Without
 * any, the whole list, which then becomes the error. */
static const char *listed_here(const struct iface_list *l, const char *names, char *out,
			       size_t size)
{
	struct iface_ip ip;
	const char *p;
	size_t len;

	for (p = names; strchr(names, ',') && *p; p += len + (p[len] == ',')) {
		len = strcspn(p, ",");
		snprintf(out, size, "%.*s", (int)len, p);
		if (iface_find(l, out) || (iface_parse(&ip, out) && iface_owner(l, &ip)))
			return out;
	}
	return names;
}

int own_address(const struct conf *c, bool one_host, char *out, size_t size, struct err *e)
{
	char meet[IFACE_TEXT], name[IFACE_TEXT];
	struct own_hint h = {
		.container_ip = conf_env("DB_CONTAINER_IP"),
		.peer = meeting_address(c->meet, meet),
		.one_host = one_host,
	};
	struct iface_list l = { 0 };
	struct picked p = { 0 };
	int rc;

	rc = iface_read(&l, NULL, *meet ? meet : NULL, e);
	if (!rc)
		h.interface = listed_here(&l, c->interface, name, sizeof(name));
	if (!rc)
		rc = own_choose(&l, &h, &p, e);
	if (!rc && !p.roles[0].npicks)
		rc = fail(e, RINGUP_EINVAL, "%s", p.roles[0].error);
	if (!rc && (size_t)snprintf(out, size, "%s", p.roles[0].picks[0].address) >= size)
		rc = fail(e, RINGUP_EINVAL, "%s: no room for it", p.roles[0].picks[0].address);
	picker_free(&p);
	iface_free(&l);
	return rc;
}
