/* libfabric.c - the picker for libfabric 1.10 to 2.7: addresses of its tcp provider. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/netconf.h"
#include "nicpick/picker.h"

enum { NO_DATA = -61 };

/* Versions whose rules changed. */
static const char spares_loopback[] = "1.19"; /* unless FI_TCP_IFACE asks for it */
static const char believes_names[] = "2.5";   /* and offers nothing for an unknown one */
static const char skips_tunnels[] = "2.7";    /* unless they are named */

static bool libfabric_is_known(const struct iface_list *l, const char *name)
{
	for (int i = 0; i < l->naddrs; i++)
		if (!strcmp(l->addrs[i].label, name))
			return true;
	return iface_find(l, name) != NULL;
}

/* Does @a come before @b?  With equal speed and family the last one does: the library inserts
 * before the first that differs. */
static bool is_before(const struct iface_list *l, const struct iface_addr *a,
		      const struct iface_addr *b)
{
	int x = l->ifaces[a->iface].speed_mbps, y = l->ifaces[b->iface].speed_mbps;

	x = x < 0 ? 0 : x;
	y = y < 0 ? 0 : y;
	if (x != y)
		return x > y;
	return a->ip.family == b->ip.family
		       ? !!memcmp(a->ip.bytes, b->ip.bytes, sizeof(a->ip.bytes))
		       : a->ip.family < b->ip.family;
}

static const char *unfit(const struct iface_list *l, const struct picked *p,
			 const struct iface_addr *a, const char *name)
{
	unsigned flags = l->ifaces[a->iface].flags;

	if (!(flags & IFF_UP) || !(flags & IFF_RUNNING))
		return "skipped: not UP and RUNNING";
	if (flags & IFF_LOOPBACK)
		return "loopback is only ever offered last";
	if (name && strcmp(a->label, name))
		return "skipped: FI_TCP_IFACE does not name it";
	if (!name && flags & IFF_POINTOPOINT && picker_since(p, skips_tunnels))
		return "skipped: point-to-point, and not named";
	return NULL;
}

static void insert(const struct iface_list *l, const struct iface_addr **list, int n,
		   const struct iface_addr *a)
{
	int at;

	for (at = 0; at < n && !is_before(l, a, list[at]); at++)
		;
	memmove(list + at + 1, list + at, (size_t)(n - at) * sizeof(*list));
	list[at] = a;
}

static void add_loopback(struct picked *p)
{
	static const char *const addresses[] = { "127.0.0.1", "::1" };
	struct iface_ip ip;

	for (int i = 0; i < 2; i++) {
		iface_parse(&ip, addresses[i]);
		picker_add(p, &p->roles[0], "lo", &ip);
	}
}

static void libfabric_explain(const struct iface_list *l, struct picked *p, const char *name,
			      bool lo)
{
	const char *why, *reason;

	for (int i = 0; i < l->nifaces; i++) {
		why = "skipped: has no address";
		for (int a = 0; a < l->naddrs; a++) {
			if (l->addrs[a].iface != i)
				continue;
			reason = unfit(l, p, &l->addrs[a], name);
			if (!reason) {
				why = NULL;
				break;
			}
			why = reason;
		}
		if (!why)
			picker_rule(p, i, true, "up and running; the fastest comes first");
		else if (lo && !strcmp(l->ifaces[i].name, "lo"))
			picker_rule(p, i, true, "%s", "offered last, for this host only");
		else
			picker_rule(p, i, false, "%s", why);
	}
}

/* FI_PROVIDER is a list of names, or with ^ in front of excluded names. */
static bool is_provider(const char *list)
{
	bool negate = list && *list == '^', found = false;
	size_t len;

	if (!list || !*list)
		return true;
	for (list += negate; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		found |= len >= 3 && !strncasecmp(list, "tcp", 3) &&
			 (len == 3 || list[3] == ';');
	}
	return found != negate;
}

static void libfabric_pick(const struct iface_list *l, const struct netconf *c,
			   struct picked *p)
{
	const struct iface_addr **list = calloc((size_t)l->naddrs + 1, sizeof(void *));
	const char *name = netconf_value(c, "FI_TCP_IFACE"),
		   *provider = netconf_value(c, "FI_PROVIDER");
	struct pick_role *r = &p->roles[0];
	bool lo;
	int n = 0;

	if (!list) {
		picker_refuse(r, "no memory to sort %d addresses", l->naddrs);
		return;
	}
	lo = !name || !picker_since(p, spares_loopback) || !strcmp(name, "lo") ||
	     !strcmp(name, "loopback");
	if (name && !libfabric_is_known(l, name) && !picker_since(p, believes_names)) {
		picker_note(r,
			    "beware: FI_TCP_IFACE=%.80s is not an interface, so it is ignored "
			    "and all are offered",
			    name);
		name = NULL;
		lo = true;
	}
	for (int i = 0; i < l->naddrs; i++)
		if (!unfit(l, p, &l->addrs[i], name))
			insert(l, list, n++, &l->addrs[i]);
	for (int i = 0; i < n; i++)
		picker_add(p, r, list[i]->label, &list[i]->ip);
	free(list);
	if (lo)
		add_loopback(p);
	libfabric_explain(l, p, name, lo);
	if (!is_provider(provider)) {
		picker_refuse(r, "FI_PROVIDER=%.80s excludes tcp", provider);
		picker_result(r, NO_DATA, "No data available");
	} else if (!r->npicks) {
		picker_refuse(r,
			      "FI_TCP_IFACE=%.80s names no running interface with an address",
			      name ? name : "");
		picker_result(r, NO_DATA, "No data available");
	}
}

static const char *const roles[] = { "tcp", NULL };
static const char *const listens[] = { "FI_TCP_IFACE", "FI_PROVIDER", NULL };

const struct picker picker_libfabric = {
	.name = "libfabric",
	.title = "libfabric",
	.oldest = "1.10",
	.newest = "2.6.0",
	.settings = listens,
	.roles = roles,
	.pick = libfabric_pick,
};
