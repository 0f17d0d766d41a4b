/* ucx.c - the picker for UCX 1.12 to 1.22: the network devices of its tcp transport. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/netconf.h"
#include "nicpick/picker.h"

enum { NO_DEVICE = -14, FAMILIES = 2 };

/* UCX_TCP_AF_PRIO: the families allowed, the best first. */
static int families(const struct netconf *c, int out[FAMILIES])
{
	const char *list = netconf_value(c, "UCX_TCP_AF_PRIO");
	int n = 0;
	size_t len;

	if (!list)
		list = "inet,inet6";
	for (; *list && n < FAMILIES; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == 4 && !strncmp(list, "inet", len))
			out[n++] = AF_INET;
		else if (len == 5 && !strncmp(list, "inet6", len))
			out[n++] = AF_INET6;
	}
	return n;
}

/* True for addresses that UCX skips; the rule changed twice. */
static bool is_skipped(const struct picked *p, const struct iface_ip *ip)
{
	if (ip->family == AF_INET)
		return picker_since(p, "1.21") && ip->bytes[0] == 169 && ip->bytes[1] == 254;
	if (ip->bytes[0] == 0xfe && (ip->bytes[1] & 0xc0) == 0x80)
		return true;
	return !picker_since(p, "1.14") && iface_is_loopback(ip);
}

/* The address that interface @i would use; an alias is no device. */
static const struct iface_addr *address(const struct iface_list *l, const struct picked *p,
					int i, int family)
{
	for (int a = 0; a < l->naddrs; a++)
		if (l->addrs[a].iface == i && l->addrs[a].ip.family == family &&
		    !strcmp(l->addrs[a].label, l->ifaces[i].name) &&
		    !is_skipped(p, &l->addrs[a].ip))
			return &l->addrs[a];
	return NULL;
}

static const struct iface_addr *
best_address(const struct iface_list *l, const struct netconf *c, const struct picked *p, int i)
{
	const struct iface_addr *a = NULL;
	int f, order[FAMILIES], n = families(c, order);

	for (f = 0; f < n && !a; f++)
		a = address(l, p, i, order[f]);
	return a;
}

/* Since 1.16 bridges are excluded unless they are enabled. */
static bool drops_bridges(const struct netconf *c, const struct picked *p)
{
	const char *want = netconf_value(c, "UCX_TCP_BRIDGE_ENABLE");

	if (!picker_since(p, "1.16"))
		return false;
	return !want || (strcasecmp(want, "y") && strcasecmp(want, "yes") &&
			 strcasecmp(want, "on") && strcmp(want, "1"));
}

/* Does @entry match @name, literally or as a range like "eth[0-3]"? */
static bool is_entry(const char *entry, size_t len, const char *name)
{
	const char *open = memchr(entry, '[', len), *close = memchr(entry, ']', len);
	size_t before = open ? (size_t)(open - entry) : 0;
	unsigned long from, to, is;
	char *end;

	if (strlen(name) == len && !strncmp(entry, name, len))
		return true;
	if (!open || !close || strncmp(entry, name, before) ||
	    !isdigit((unsigned char)name[before]))
		return false;
	from = strtoul(open + 1, &end, 10);
	to = *end == '-' ? strtoul(end + 1, &end, 10) : from;
	if (end != close)
		return false;
	is = strtoul(name + before, &end, 10);
	len -= (size_t)(close + 1 - entry);
	return is >= from && is <= to && strlen(end) == len && !strncmp(end, close + 1, len);
}

static bool ucx_is_listed(const char *list, const char *name)
{
	size_t len;

	for (; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (is_entry(list, len, name))
			return true;
	}
	return false;
}

/* UCX_NET_DEVICES and UCX_TLS: names, "all", or since 1.21 for the former "^" in front. */
static bool is_asked_for(const char *list, const char *name, bool may_negate)
{
	if (!list)
		return true;
	if (may_negate && *list == '^')
		return !ucx_is_listed(list + 1, name);
	return ucx_is_listed(list, "all") || ucx_is_listed(list, name);
}

static int ucx_by_name(const struct iface_list *l, const int *done, int n)
{
	int k, best = -1;

	for (int i = 0; i < l->nifaces; i++) {
		for (k = 0; k < n && done[k] != i; k++)
			;
		if (k == n && (best < 0 || strcmp(l->ifaces[i].name, l->ifaces[best].name) < 0))
			best = i;
	}
	return best;
}

static void ucx_judge(const struct iface_list *l, const struct netconf *c, struct picked *p,
		      int i)
{
	const struct iface *f = &l->ifaces[i];
	const struct iface_addr *a = best_address(l, c, p, i);
	const char *devices = netconf_value(c, "UCX_NET_DEVICES");

	if (!(f->flags & IFF_UP) || !(f->flags & IFF_RUNNING))
		picker_rule(p, i, false, "skipped: not UP and RUNNING");
	else if (!a)
		picker_rule(p, i, false, "skipped: has no address that UCX would use");
	else if (f->kind == IFACE_BRIDGE && drops_bridges(c, p))
		picker_rule(p, i, false,
			    "skipped: a bridge, which UCX 1.16 and later skips without "
			    "UCX_TCP_BRIDGE_ENABLE=y");
	else if (!is_asked_for(devices, f->name, picker_since(p, "1.21")))
		picker_rule(p, i, false, "skipped: UCX_NET_DEVICES=%.80s does not name it",
			    devices);
	else {
		picker_add(p, &p->roles[0], f->name, &a->ip);
		picker_rule(p, i, true, "%s",
			    f->flags & IFF_LOOPBACK ? "up and running; within this host only"
						    : "up and running, with an address");
	}
}

static void ucx_pick(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	const char *devices = netconf_value(c, "UCX_NET_DEVICES"),
		   *tls = netconf_value(c, "UCX_TLS");
	struct pick_role *r = &p->roles[0];
	int n, *done = calloc((size_t)l->nifaces + 1, sizeof(*done));

	if (!done) {
		picker_refuse(r, "no memory to sort %d interfaces", l->nifaces);
		return;
	}
	for (n = 0; n < l->nifaces; n++) {
		done[n] = ucx_by_name(l, done, n);
		ucx_judge(l, c, p, done[n]);
	}
	free(done);
	if (!is_asked_for(tls, "tcp", true)) {
		picker_refuse(r, "UCX_TLS=%.80s excludes tcp", tls);
		picker_result(r, NO_DEVICE, "No such device");
	} else if (!r->npicks) {
		picker_refuse(r, "no network device is left for tcp%s%.80s",
			      devices ? ": UCX_NET_DEVICES=" : "", devices ? devices : "");
		picker_result(r, NO_DEVICE, "No such device");
	}
}

static const char *const roles[] = { "tcp", NULL };
static const char *const listens[] = { "UCX_NET_DEVICES", "UCX_TLS", "UCX_TCP_AF_PRIO",
				       "UCX_TCP_BRIDGE_ENABLE", NULL };

const struct picker picker_ucx = {
	.name = "ucx",
	.title = "UCX",
	.oldest = "1.12",
	.newest = "1.22.0",
	.settings = listens,
	.roles = roles,
	.pick = ucx_pick,
};
