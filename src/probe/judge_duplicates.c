/* judge_duplicates.c - machines that share an address, a MAC or a name by mistake. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/judge.h"

#include "base/array.h"

/* An address, MAC or name that should exist once, and where it was seen. */
struct thing {
	char text[FACTS_NAME];
	int node, iface; /* iface: position in the node's list, or -1 */
};

struct things {
	struct thing *list;
	int n;
};

static void add_thing(struct judge_case *c, struct things *all, const char *text, int node,
		      int iface)
{
	struct thing *one = array_more(&all->list, &all->n, sizeof(*one));

	c->failed |= !one;
	if (!one)
		return;
	one->node = node;
	one->iface = iface;
	snprintf(one->text, sizeof(one->text), "%s", text);
}

static int by_text(const void *a, const void *b)
{
	const struct thing *x = a, *y = b;
	int d = strcmp(x->text, y->text);

	return d ? d : x->node != y->node ? x->node - y->node : x->iface - y->iface;
}

static const struct iface *iface_of(const struct judge_case *c, const struct thing *t)
{
	return &c->f->nodes[t->node].snapshot.ifaces.ifaces[t->iface];
}

static bool is_real_mac(const char *mac)
{
	return strspn(mac, "0:") < strlen(mac);
}

/* A bridge's MAC reaches only its own ports, and a tunnel has none. */
static bool is_on_a_wire(enum iface_kind k)
{
	return k != IFACE_LOOPBACK && k != IFACE_BRIDGE && k != IFACE_TUN &&
	       k != IFACE_TUNNEL && k != IFACE_VXLAN && k != IFACE_DUMMY;
}

/* Do both lists have the same interfaces, cards and addresses, index for index? */
static bool is_same_network(const struct iface_list *a, const struct iface_list *b)
{
	bool real = false;

	if (a->nifaces != b->nifaces || a->naddrs != b->naddrs)
		return false;
	for (int i = 0; i < a->nifaces; i++) {
		if (a->ifaces[i].index != b->ifaces[i].index ||
		    strcmp(a->ifaces[i].name, b->ifaces[i].name) != 0 ||
		    strcmp(a->ifaces[i].mac, b->ifaces[i].mac) != 0)
			return false;
		real |= is_on_a_wire(a->ifaces[i].kind) && is_real_mac(a->ifaces[i].mac);
	}
	for (int i = 0; i < a->naddrs; i++)
		if (a->addrs[i].iface != b->addrs[i].iface ||
		    !iface_same(&a->addrs[i].ip, &b->addrs[i].ip))
			return false;
	return real;
}

static void find_same(struct judge_case *c, int a, int b)
{
	const struct probe_node *x = &c->f->nodes[a], *y = &c->f->nodes[b];
	struct probe_finding *p;

	if (strcmp(x->machine_id, y->machine_id) != 0 ||
	    strcmp(x->hostname, y->hostname) != 0 ||
	    !is_same_network(&x->snapshot.ifaces, &y->snapshot.ifaces))
		return;
	c->same_as[b] = a;
	p = judge_find(c, "same-machine", FACTS_ERROR);
	judge_blame(c, p, a);
	judge_blame(c, p, b);
	judge_say(c, &p->what, "%s and %s are the same machine, %s", x->name, y->name,
		  x->hostname);
	judge_say(c, &p->why,
		  "Host name, machine id, MACs and addresses are the same. A job would start "
		  "the ranks of both nodes on one machine.");
	judge_say(c, &p->fix,
		  "name each machine once; if these are two, one is an exact copy and needs "
		  "its own addresses");
}

static void find_all_same(struct judge_case *c)
{
	for (int b = 1; b < c->f->nnodes; b++)
		for (int a = 0; a < b && c->same_as[b] == b; a++)
			if (facts_is_live(c->f, a) && facts_is_live(c->f, b) &&
			    c->same_as[a] == a)
				find_same(c, a, b);
	for (int i = 0; i < c->f->npaths; i++)
		if (c->same_as[c->f->paths[i].from] == c->same_as[c->f->paths[i].to])
			c->explained[i] = true;
}

static void blame_all(struct judge_case *c, struct probe_finding *p, const struct thing *t,
		      int n)
{
	for (int i = 0; i < n; i++)
		judge_blame(c, p, t[i].node);
}

/* A path on which one of the nodes that share an address answered for another. */
static const struct probe_path *find_proof(const struct judge_case *c, const char *address)
{
	const struct probe_path *p;

	for (int i = 0; i < c->f->npaths; i++) {
		p = &c->f->paths[i];
		if (p->state == FACTS_IMPOSTOR && p->answered >= 0 &&
		    !strcmp(p->address, address))
			return p;
	}
	return NULL;
}

/* Explains the paths to the address and from it, since both go astray. */
static void explain_address(struct judge_case *c, const char *address)
{
	for (int i = 0; i < c->f->npaths; i++)
		if (!strcmp(c->f->paths[i].address, address) ||
		    !strcmp(c->f->paths[i].source, address))
			c->explained[i] = true;
}

/* "docker0 of n1 and n2", "eth0 of n1 and ens5 of n2", or, where many differ, both lists. */
static void say_where(struct judge_case *c, const struct thing *t, int n,
		      const struct probe_finding *p, char out[JUDGE_TEXT])
{
	char list[JUDGE_TEXT];
	int i;

	for (i = 1; i < n && !strcmp(iface_of(c, &t[i])->name, iface_of(c, t)->name); i++)
		;
	if (i < n && n == 2)
		snprintf(out, JUDGE_TEXT, "%s of %s and %s of %s", iface_of(c, t)->name,
			 c->f->nodes[t->node].name, iface_of(c, &t[1])->name,
			 c->f->nodes[t[1].node].name);
	else
		snprintf(out, JUDGE_TEXT, "%s of %s",
			 i < n ? "an address" : iface_of(c, t)->name,
			 judge_list(c, p->nodes, p->nnodes, list));
}

static void say_proof(struct judge_case *c, struct probe_finding *p, const char *users)
{
	const struct probe_path *proof = find_proof(c, p->address);
	char seen[JUDGE_TEXT] = "";

	if (proof)
		snprintf(seen, sizeof(seen), " %s tried to reach %s on %s, but %s%s answered.",
			 c->f->nodes[proof->from].name, p->address, c->f->nodes[proof->to].name,
			 c->f->nodes[proof->answered].name,
			 proof->answered == proof->from ? " itself" : "");
	judge_say(
		c, &p->why,
		"A node that connects to it reaches itself, or the first node that answers.%s "
		"%s%s",
		seen, *users ? users : "No library",
		*users ? " would use it." : " would use it as it is set.");
}

/* Reports one address on several machines. */
static void judge_address(struct judge_case *c, const struct thing *t, int n)
{
	struct probe_finding *p = judge_find(c, "duplicate-address", FACTS_ERROR);
	char where[JUDGE_TEXT], users[JUDGE_TEXT], word[JUDGE_TEXT];
	bool hardware = false;

	blame_all(c, p, t, n);
	for (int i = 0; i < n; i++)
		hardware |= is_on_a_wire(iface_of(c, &t[i])->kind);
	snprintf(p->address, sizeof(p->address), "%.63s", t->text);
	memcpy(p->interface, iface_of(c, t)->name, sizeof(p->interface));
	judge_users(c, p->nodes, p->nnodes, NULL, t->text, users);
	/* With a shared MAC it affects all other traffic of the nodes as well. */
	if (!hardware)
		p->stops = judge_count_users(c, p->nodes, p->nnodes, NULL, t->text);
	say_where(c, t, n, p, where);
	judge_say(c, &p->what, "%s is %s", t->text, where);
	say_proof(c, p, users);
	if (!hardware) {
		p->severity = *users ? FACTS_ERROR : FACTS_NOTE;
		judge_fix(c, p);
	} else {
		judge_say(c, &p->fix, "change the address on all but one of them");
		judge_say(c, &p->run, "ssh %s ip address show dev %s",
			  judge_word(c->f->nodes[t[n - 1].node].name, word),
			  iface_of(c, &t[n - 1])->name);
	}
	explain_address(c, t->text);
}

/* Is the shared address of the same interface already reported, which suffices? */
static bool judge_duplicates_is_known(const struct judge_case *c, const struct thing *t, int n)
{
	const struct iface_list *l;
	char text[IFACE_TEXT];

	for (int i = 0; i < c->f->nfindings; i++) {
		if (strcmp(c->f->findings[i].code, "duplicate-address") != 0)
			continue;
		l = &c->f->nodes[t->node].snapshot.ifaces;
		for (int k = 0; k < l->naddrs; k++)
			if (l->addrs[k].iface == t->iface &&
			    !strcmp(iface_text(&l->addrs[k].ip, text),
				    c->f->findings[i].address) &&
			    c->f->findings[i].nnodes >= n)
				return true;
	}
	return false;
}

static void judge_mac(struct judge_case *c, const struct thing *t, int n)
{
	char where[JUDGE_TEXT], word[JUDGE_TEXT];
	struct probe_finding *p;

	if (judge_duplicates_is_known(c, t, n))
		return;
	p = judge_find(c, "duplicate-mac", FACTS_ERROR);
	blame_all(c, p, t, n);
	for (int i = 0; i < n; i++)
		judge_explain(c, t[i].node, iface_of(c, &t[i])->name);
	memcpy(p->interface, iface_of(c, t)->name, sizeof(p->interface));
	say_where(c, t, n, p, where);
	judge_say(c, &p->what, "the MAC %s belongs to %s", t->text, where);
	judge_say(c, &p->why,
		  "On one network, a switch sends their packets to either machine: connections "
		  "stall and break at random. The usual cause is a copied virtual machine.");
	judge_say(c, &p->fix,
		  "give each machine its own MAC, preferably in its virtual machine's "
		  "definition");
	judge_say(c, &p->run, "ssh %s ip link show dev %s",
		  judge_word(c->f->nodes[t[n - 1].node].name, word),
		  iface_of(c, &t[n - 1])->name);
}

static void judge_hostname(struct judge_case *c, const struct thing *t, int n)
{
	struct probe_finding *p = judge_find(c, "duplicate-hostname", FACTS_WARNING);
	char list[JUDGE_TEXT], word[JUDGE_TEXT];

	blame_all(c, p, t, n);
	judge_say(c, &p->what, "%s have the same host name, %s",
		  judge_list(c, p->nodes, p->nnodes, list), t->text);
	judge_say(c, &p->why,
		  "Horovod and Open MPI identify machines by it: ranks on different machines "
		  "get the same local rank, share a GPU or look for shared memory that does "
		  "not exist.");
	judge_say(c, &p->fix, "give each node its own name");
	judge_say(c, &p->run, "ssh %s sudo hostnamectl set-hostname NAME",
		  judge_word(c->f->nodes[t[n - 1].node].name, word));
}

/* Containers of one host share it without harm: a note, or the reason of worse. */
static void judge_machine_id(struct judge_case *c, const struct thing *t, int n)
{
	struct probe_finding *p = judge_find(c, "duplicate-machine-id", FACTS_NOTE);
	char list[JUDGE_TEXT], word[JUDGE_TEXT];

	blame_all(c, p, t, n);
	judge_say(c, &p->what, "%s have the same machine id",
		  judge_list(c, p->nodes, p->nnodes, list));
	judge_say(c, &p->why,
		  "They are containers on one host, or copies of one image. Copies may get the "
		  "same address from a DHCP server.");
	judge_say(c, &p->fix, "if they are copies, create a new id on all but one");
	judge_say(c, &p->run,
		  "ssh %s 'sudo rm /etc/machine-id && sudo systemd-machine-id-setup'",
		  judge_word(c->f->nodes[t[n - 1].node].name, word));
}

/* Calls @judge for each run of equal things on more than one node. */
static void judge_runs(struct judge_case *c, struct things *all,
		       void (*judge)(struct judge_case *, const struct thing *, int))
{
	int k, n;

	if (all->n)
		qsort(all->list, (size_t)all->n, sizeof(*all->list), by_text);
	for (int i = 0; i < all->n; i = k) {
		/* A node counts once, with the first of its interfaces. */
		for (k = i + 1, n = 1;
		     k < all->n && !strcmp(all->list[k].text, all->list[i].text); k++)
			if (all->list[k].node != all->list[i + n - 1].node)
				all->list[i + n++] = all->list[k];
		if (n > 1)
			judge(c, &all->list[i], n);
	}
	free(all->list);
}

static void collect(struct judge_case *c, int node, struct things *addrs, struct things *macs)
{
	const struct iface_list *l = &c->f->nodes[node].snapshot.ifaces;
	char text[IFACE_TEXT];

	for (int i = 0; i < l->naddrs; i++)
		if (iface_is_global(&l->addrs[i].ip))
			add_thing(c, addrs, iface_text(&l->addrs[i].ip, text), node,
				  l->addrs[i].iface);
	for (int i = 0; i < l->nifaces; i++)
		if (is_on_a_wire(l->ifaces[i].kind) && is_real_mac(l->ifaces[i].mac))
			add_thing(c, macs, l->ifaces[i].mac, node, i);
}

void judge_duplicates(struct judge_case *c)
{
	struct things addrs = { 0 }, macs = { 0 }, names = { 0 }, ids = { 0 };

	find_all_same(c);
	for (int i = 0; i < c->f->nnodes; i++) {
		if (!facts_is_live(c->f, i) || c->same_as[i] != i)
			continue;
		collect(c, i, &addrs, &macs);
		if (*c->f->nodes[i].hostname)
			add_thing(c, &names, c->f->nodes[i].hostname, i, -1);
		if (*c->f->nodes[i].machine_id)
			add_thing(c, &ids, c->f->nodes[i].machine_id, i, -1);
	}
	judge_runs(c, &addrs, judge_address);
	judge_runs(c, &macs, judge_mac);
	judge_runs(c, &names, judge_hostname);
	judge_runs(c, &ids, judge_machine_id);
}
