/* judge_ways.c - translated addresses, wrong neighbours, and full neighbour tables. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "probe/judge.h"

/* Do any, or all, attempts to reach @node fail? */
static bool has_failed_to(const struct judge_case *c, int node)
{
	for (int i = 0; i < c->f->npaths; i++)
		if (c->f->paths[i].to == node && c->f->paths[i].state != FACTS_OPEN)
			return true;
	return false;
}

static void explain_to(struct judge_case *c, int node)
{
	for (int i = 0; i < c->f->npaths; i++)
		if (c->f->paths[i].to == node && c->f->paths[i].state != FACTS_OPEN)
			c->explained[i] = true;
}

/* A node whose connections arrive from an address that it does not have. */
static void judge_nat(struct judge_case *c, int node)
{
	const struct probe_path *x = NULL;
	struct probe_finding *p;
	char word[JUDGE_TEXT];
	bool fails;

	for (int i = 0; i < c->f->npaths && !x; i++) {
		const struct probe_path *q = &c->f->paths[i];

		if (q->from == node && q->state == FACTS_OPEN && *q->seen &&
		    !facts_owner(c->f, node, q->seen))
			x = q;
	}
	if (!x)
		return;
	fails = has_failed_to(c, node);
	p = judge_find(c, "address-translation", fails ? FACTS_ERROR : FACTS_WARNING);
	judge_blame(c, p, node);
	p->from = node;
	p->to = x->to;
	snprintf(p->address, sizeof(p->address), "%s", x->seen);
	judge_say(c, &p->what,
		  "connections from %s arrive from %s, which %s does not have: NAT",
		  c->f->nodes[node].name, x->seen, c->f->nodes[node].name);
	judge_say(c, &p->why,
		  "A router or a container network translates its addresses (masquerading). "
		  "Its ranks publish %s, %s.",
		  *x->source ? x->source : "an address of their own",
		  fails ? "and the other nodes cannot connect to it"
			: "which differs from the address that Open MPI 4.1 sees");
	judge_say(c, &p->fix,
		  "move %s into the network of the others, or route to its network without "
		  "translation (docker's --network host, hostNetwork in Kubernetes)",
		  c->f->nodes[node].name);
	judge_say(c, &p->run, "ssh %s ip route get %s",
		  judge_word(c->f->nodes[node].name, word), x->address);
	explain_to(c, node);
}

/* The MAC of the interface of @node that has @address; "" if it is not known. */
static const char *mac_of(const struct judge_case *c, int node, const char *address)
{
	const struct iface_addr *a = facts_owner(c->f, node, address);

	return a ? c->f->nodes[node].snapshot.ifaces.ifaces[a->iface].mac : "";
}

static void judge_neighbour(struct judge_case *c, const struct probe_path *x)
{
	const char *mac = mac_of(c, x->to, x->address), *from = c->f->nodes[x->from].name;
	struct probe_finding *p;
	char word[JUDGE_TEXT];

	if (!*x->neighbour || !*mac || !strcasecmp(mac, x->neighbour))
		return;
	p = judge_find(c, "wrong-neighbour", FACTS_ERROR);
	judge_blame(c, p, x->from);
	p->from = x->from;
	p->to = x->to;
	memcpy(p->address, x->address, sizeof(p->address));
	memcpy(p->interface, x->via, sizeof(p->interface));
	judge_say(c, &p->what,
		  "%s has a wrong neighbor entry: %s maps to %s, but %s of %s has the MAC %s",
		  from, x->address, x->neighbour,
		  *x->interface ? x->interface : "the interface", c->f->nodes[x->to].name, mac);
	judge_say(c, &p->why,
		  "Its packets go to another machine or get lost. The entry is stale or "
		  "permanent, or another machine answers for this address.");
	judge_say(c, &p->fix, "remove the entry on %s, then check again", from);
	judge_say(c, &p->run, "ssh %s sudo ip neigh del %s dev %s", judge_word(from, word),
		  x->address, *x->via ? x->via : "eth0");
	for (int i = 0; i < c->f->npaths; i++) {
		const struct probe_path *q = &c->f->paths[i];

		if (q->state != FACTS_OPEN && ((q->from == x->from && q->to == x->to) ||
					       (q->from == x->to && q->to == x->from)))
			c->explained[i] = true;
	}
}

static void judge_table(struct judge_case *c, int node)
{
	struct probe_finding *p;
	char word[JUDGE_TEXT];

	if (!c->f->nodes[node].is_table_full)
		return;
	p = judge_find(c, "neighbours-full", FACTS_ERROR);
	judge_blame(c, p, node);
	judge_say(c, &p->what, "the neighbor table of %s is full", c->f->nodes[node].name);
	judge_say(c, &p->why,
		  "The kernel cannot store another neighbor's MAC, so it sends nothing to new "
		  "ones. Its log says: neighbor table overflow.");
	judge_say(c, &p->fix,
		  "raise gc_thresh1, 2 and 3, for example to 8192, 16384 and 32768");
	judge_say(c, &p->run, "ssh %s sudo sysctl net.ipv4.neigh.default.gc_thresh3=32768",
		  judge_word(c->f->nodes[node].name, word));
	for (int i = 0; i < c->f->npaths; i++)
		if (c->f->paths[i].from == node && c->f->paths[i].state != FACTS_OPEN)
			c->explained[i] = true;
}

void judge_ways(struct judge_case *c)
{
	for (int i = 0; i < c->f->nnodes; i++) {
		if (!facts_is_live(c->f, i))
			continue;
		judge_table(c, i);
		judge_nat(c, i);
	}
	for (int i = 0; i < c->f->npaths; i++)
		if (!c->explained[i] && c->f->paths[i].state != FACTS_OPEN &&
		    facts_is_live(c->f, c->f->paths[i].to))
			judge_neighbour(c, &c->f->paths[i]);
}
