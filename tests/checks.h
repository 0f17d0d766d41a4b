/* checks.h - invented facts of a check, for any number of nodes, all healthy at first. */
#ifndef CHECKS_H
#define CHECKS_H

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "probe/facts.h"

/* checks_iface - an interface of @node with an address: position in its list. */
static inline int checks_iface(struct probe_facts *f, int node, const char *name,
			       enum iface_kind kind, const char *address, int prefix)
{
	struct iface_list *l = &f->nodes[node].snapshot.ifaces;
	struct iface *i = iface_add(l);
	struct iface_addr *a;

	i->index = l->nifaces;
	i->kind = kind;
	i->flags = IFF_UP | IFF_RUNNING;
	i->mtu = 9000;
	i->speed_mbps = kind == IFACE_PHYSICAL ? 10000 : -1;
	snprintf(i->name, sizeof(i->name), "%s", name);
	snprintf(i->mac, sizeof(i->mac), "02:00:00:00:%02x:%02x", node & 0xff, i->index & 0xff);
	a = iface_add_addr(l);
	a->iface = l->nifaces - 1;
	a->prefix = prefix;
	a->scope = kind == IFACE_LOOPBACK ? IFACE_HOST : IFACE_GLOBAL;
	memcpy(a->label, i->name, sizeof(a->label));
	iface_parse(&a->ip, address);
	return l->nifaces - 1;
}

static inline void checks_use(struct probe_facts *f, int node, const char *library,
			      const char *role, const char *interface, const char *address)
{
	struct probe_use *u = facts_add_use(&f->nodes[node]);

	snprintf(u->library, sizeof(u->library), "%s", library);
	snprintf(u->role, sizeof(u->role), "%s", role);
	snprintf(u->interface, sizeof(u->interface), "%s", interface);
	snprintf(u->address, sizeof(u->address), "%s", address);
}

static inline void checks_resolve(struct probe_facts *f, int node, const char *name,
				  const char *address)
{
	struct netconf_host *h = facts_add_host(&f->nodes[node], name);

	if (*address)
		iface_parse(&h->ips[h->nips++], address);
}

/* checks_path - @from reaches @to at its address on @interface, at one kind of port. */
static inline struct probe_path *checks_path(struct probe_facts *f, int from, int to,
					     const char *interface, const char *address,
					     const char *source, const char *kind)
{
	struct probe_path *p = facts_add_path(f);

	p->from = from;
	p->to = to;
	snprintf(p->address, sizeof(p->address), "%s", address);
	snprintf(p->source, sizeof(p->source), "%s", source);
	snprintf(p->interface, sizeof(p->interface), "%s", interface);
	snprintf(p->via, sizeof(p->via), "%s", interface);
	snprintf(p->port.kind, sizeof(p->port.kind), "%s", kind);
	p->port.number = !strcmp(kind, "store") ? 29500 : 40000 + to;
	p->answered = to;
	return p;
}

static inline const char *checks_address(int node, char out[IFACE_TEXT])
{
	snprintf(out, IFACE_TEXT, "10.0.%d.%d", node / 200, node % 200 + 1);
	return out;
}

static inline void checks_node(struct probe_facts *f, int i)
{
	char name[32], address[IFACE_TEXT];
	struct probe_node *n;

	snprintf(name, sizeof(name), "n%d", i + 1);
	n = facts_add_node(f, name);
	n->has_snapshot = true;
	snprintf(n->hostname, sizeof(n->hostname), "%s", name);
	snprintf(n->machine_id, sizeof(n->machine_id), "%032x", i + 1);
	checks_iface(f, i, "lo", IFACE_LOOPBACK, "127.0.0.1", 8);
	checks_iface(f, i, "eth0", IFACE_PHYSICAL, checks_address(i, address), 16);
	checks_use(f, i, "nccl", "bootstrap", "eth0", address);
	checks_use(f, i, "nccl", "net", "eth0", address);
	checks_use(f, i, "openmpi", "btl", "eth0", address);
	checks_use(f, i, "gloo", "pair", "eth0", address);
}

/* Some noise, but the same each time. */
static inline double checks_noise(int a, int b)
{
	return 1 + ((a * 7 + b * 13) % 11 - 5) / 50.0;
}

/* checks_well - @n nodes on one network with nothing to complain about. */
static inline void checks_well(struct probe_facts *f, int n)
{
	static const char *const kinds[] = { "ephemeral", "registered", "store" };
	char to[IFACE_TEXT], from[IFACE_TEXT];
	struct probe_path *p;
	int a, b, k;

	memset(f, 0, sizeof(*f));
	f->seconds = 1.5;
	for (a = 0; a < n; a++)
		checks_node(f, a);
	for (a = 0; a < n; a++)
		for (b = 0; b < n; b++) {
			checks_resolve(f, a, f->nodes[b].name, checks_address(b, to));
			for (k = 0; a != b && k < 3; k++) {
				p = checks_path(f, a, b, "eth0", to, checks_address(a, from),
						kinds[k]);
				if (k)
					continue;
				p->mtu = (struct probe_mtu){ 9000, 8972, 1 };
				p->latency_median_us = 40 * checks_noise(a, b);
				p->latency_min_us = 0.8 * p->latency_median_us;
				p->bandwidth_mbs = 1150 * checks_noise(b, a);
			}
		}
}

#endif
