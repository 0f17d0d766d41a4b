/* gloo.c - the picker for Gloo in torch.distributed: the device of its pairs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "host/netconf.h"
#include "nicpick/picker.h"

/* The first address of exactly that name; flags are ignored. */
static const struct iface_addr *named(const struct iface_list *l, const char *name, size_t len)
{
	for (int i = 0; i < l->naddrs; i++)
		if (strlen(l->addrs[i].label) == len && !strncmp(l->addrs[i].label, name, len))
			return &l->addrs[i];
	return NULL;
}

static void pick_named(const struct iface_list *l, const char *list, struct picked *p)
{
	struct pick_role *r = &p->roles[0];
	const struct iface_addr *a;
	int len;

	for (;; list += len + 1) {
		len = (int)strcspn(list, ",");
		a = named(l, list, (size_t)len);
		if (!a) {
			picker_refuse(r,
				      "no interface with an address is named '%.*s': names are "
				      "exact, without blanks, = or ^",
				      len < 80 ? len : 80, list);
			picker_message(r, "Unable to find address for: %.*s",
				       len < 80 ? len : 80, list);
			return;
		}
		picker_add(p, r, a->label, &a->ip);
		if (!list[len])
			return;
	}
}

/* Would bind(2) accept @ip?  Every address in a loopback's IPv4 net is local. */
static const struct iface_addr *bindable(const struct iface_list *l, const struct iface_ip *ip)
{
	const struct iface_addr *a = iface_owner(l, ip);

	for (int i = 0; !a && i < l->naddrs; i++)
		if (ip->family == AF_INET &&
		    l->ifaces[l->addrs[i].iface].flags & IFF_LOOPBACK &&
		    iface_within(ip, &l->addrs[i].ip, l->addrs[i].prefix))
			a = &l->addrs[i];
	return a;
}

static void pick_by_name(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	const struct netconf_host *h = netconf_host_find(c, c->hostname);
	struct pick_role *r = &p->roles[0];
	const struct iface_addr *a;
	struct iface_ip ip;
	char text[IFACE_TEXT];

	for (int i = 0; h && i < h->nips; i++) {
		a = bindable(l, &h->ips[i]);
		if (!a)
			continue;
		picker_add(p, r, a->label, &h->ips[i]);
		picker_note(r, "the host name %.80s resolves to %s", c->hostname,
			    iface_text(&h->ips[i], text));
		if (l->ifaces[a->iface].flags & IFF_LOOPBACK)
			picker_note(r,
				    "beware: other hosts cannot reach that, and Gloo does not "
				    "warn");
		return;
	}
	iface_parse(&ip, "127.0.0.1");
	a = bindable(l, &ip);
	picker_add(p, r, a ? a->label : "", &ip);
	picker_note(r,
		    "beware: the host name %.80s resolves to %s, so loopback is used and "
		    "other hosts cannot reach it",
		    c->hostname, h && h->nips ? "no address of this host" : "nothing");
}

static void gloo_explain(struct picked *p, const struct iface_list *l, int i, const char *list)
{
	int which = picker_which(&p->roles[0], l, i);

	if (which < 0)
		picker_rule(p, i, false, "%s",
			    list ? "GLOO_SOCKET_IFNAME does not name it"
				 : "the host name resolves to another address");
	else
		picker_rule(p, i, true, "%s%s",
			    list ? "GLOO_SOCKET_IFNAME names it"
				 : "the address of the host name",
			    which ? ", in turns" : "");
}

static void gloo_pick(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	const struct netconf_row *row = netconf_get(c, "GLOO_SOCKET_IFNAME");
	/* torch ignores a name of a single character. */
	const char *list = row && strlen(row->value) > 1 ? row->value : NULL;

	if (list)
		pick_named(l, list, p);
	else
		pick_by_name(l, c, p);
	for (int i = 0; i < l->nifaces; i++)
		gloo_explain(p, l, i, list);
}

static const char *const roles[] = { "pair", NULL };
static const char *const listens[] = { "GLOO_SOCKET_IFNAME", NULL };

const struct picker picker_gloo = {
	.name = "gloo",
	.title = "Gloo (torch)",
	.oldest = "1.13",
	.newest = "2.13.0",
	.settings = listens,
	.roles = roles,
	.pick = gloo_pick,
};
