/* nics.h - machines described in one line per interface, for tests of interface choices. */
#ifndef NICS_H
#define NICS_H

#include <net/if.h>
#include <string.h>

#include "host/iface.h"

/* "NAME KIND STATE ADDRESS/PREFIX METRIC": state - down, u up, r running;
 * address NULL for none; metric of the default route, -1 for no such route; speed
 * in Mb/s, 0 if it is not known. */
struct nic {
	const char *name;
	enum iface_kind kind;
	char state;
	const char *address;
	int prefix, metric, speed;
};

enum { NICS = 5 };

static void nics_address(struct iface_list *l, int at, const char *text, int prefix)
{
	struct iface_addr *a = iface_add_addr(l);

	a->iface = at;
	iface_parse(&a->ip, text);
	a->prefix = prefix;
	memcpy(a->label, l->ifaces[at].name, sizeof(a->label));
}

static void nics_route(struct iface_list *l, int at, const struct iface_ip *to, int prefix,
		       int metric)
{
	struct iface_route *r = iface_add_route(l);

	r->to = *to;
	if (!prefix)
		memset(r->to.bytes, 0, sizeof(r->to.bytes));
	r->prefix = prefix;
	r->iface = at;
	r->metric = metric;
}

static void nics_build(struct iface_list *l, const struct nic *nics)
{
	struct iface *f = iface_add(l);
	int i, at;

	*f = (struct iface){ .index = 1,
			     .name = "lo",
			     .kind = IFACE_LOOPBACK,
			     .flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK };
	nics_address(l, 0, "127.0.0.1", 8);
	l->addrs[0].scope = IFACE_HOST;
	for (i = 0; i < NICS && nics[i].name; i++) {
		const struct iface *old = iface_find(l, nics[i].name);

		at = old ? (int)(old - l->ifaces) : l->nifaces;
		if (!old) {
			f = iface_add(l);
			f->index = at + 1;
			strcpy(f->name, nics[i].name);
			f->kind = nics[i].kind;
			f->speed_mbps = nics[i].speed ? nics[i].speed : -1;
			/* 'p': a port of the one before it, which is a bridge */
			f->master = nics[i].state == 'p' ? f[-1].index : 0;
			f->flags = strchr("rp", nics[i].state) ? IFF_UP | IFF_RUNNING
				   : nics[i].state == 'u'      ? IFF_UP
							       : 0;
		}
		if (!nics[i].address)
			continue;
		nics_address(l, at, nics[i].address, nics[i].prefix);
		if (nics[i].state == '-')
			continue;
		nics_route(l, at, &l->addrs[l->naddrs - 1].ip, nics[i].prefix, 0);
		if (nics[i].metric >= 0)
			nics_route(l, at, &l->addrs[l->naddrs - 1].ip, 0, nics[i].metric);
	}
}

#endif
