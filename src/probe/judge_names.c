/* judge_names.c - names that resolve wrongly, libraries that would announce a loopback. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "nicpick/picker.h"
#include "probe/judge.h"

static bool is_loopback_text(const char *text)
{
	struct iface_ip ip;

	return iface_parse(&ip, text) && iface_is_loopback(&ip);
}

static const struct netconf_host *find_host(const struct probe_node *n, const char *name)
{
	for (int i = 0; *name && i < n->nresolves; i++)
		if (!strcmp(n->resolves[i].name, name))
			return &n->resolves[i];
	return *name && n->has_snapshot ? netconf_host_find(&n->snapshot.settings, name) : NULL;
}

/* Gloo's own choice on a node; NULL: unknown. */
static const struct probe_use *gloo_of(const struct probe_node *n)
{
	for (int i = 0; i < n->nuses; i++)
		if (!strcmp(n->uses[i].library, "gloo"))
			return &n->uses[i];
	return NULL;
}

static bool owns(const struct probe_node *n, const struct netconf_host *h)
{
	for (int i = 0; i < h->nips; i++)
		if (iface_owner(&n->snapshot.ifaces, &h->ips[i]))
			return true;
	return false;
}

enum own_name { NAME_RIGHT, NAME_LOOPBACK, NAME_UNKNOWN, NAME_FOREIGN };

/* The address that Gloo takes from the node's own name, unless an interface is set. */
static enum own_name judge_own(const struct judge_case *c, int node)
{
	const struct probe_node *n = &c->f->nodes[node];
	const struct netconf_host *h = find_host(n, n->hostname);
	const struct probe_use *gloo = gloo_of(n);

	if (!h || !facts_is_live(c->f, node) || (gloo && !is_loopback_text(gloo->address)))
		return NAME_RIGHT;
	if (!h->nips)
		return NAME_UNKNOWN;
	if (iface_is_loopback(&h->ips[0]))
		return NAME_LOOPBACK;
	return owns(n, h) ? NAME_RIGHT : NAME_FOREIGN;
}

/* Paths to the loopback say nothing about the network. */
static void explain_loopback(struct judge_case *c)
{
	for (int i = 0; i < c->f->npaths; i++)
		if (is_loopback_text(c->f->paths[i].address))
			c->explained[i] = true;
}

static void say_own(struct judge_case *c, struct probe_finding *p, enum own_name is)
{
	const struct probe_node *n = &c->f->nodes[p->nodes[0]];
	const struct netconf_host *h = find_host(n, n->hostname);
	char list[JUDGE_TEXT], text[IFACE_TEXT] = "";

	p->stops = 1; /* Gloo, as the reason says */
	judge_list(c, p->nodes, p->nnodes, list);
	if (h && h->nips)
		iface_text(&h->ips[0], text);
	if (is == NAME_UNKNOWN) {
		judge_say(c, &p->what, "on %s, the host's own name does not resolve", list);
	} else {
		snprintf(p->address, sizeof(p->address), "%s", text);
		judge_say(c, &p->what, "on %s, the host's own name resolves to %s%s", list,
			  text,
			  is == NAME_LOOPBACK ? ", a loopback address"
					      : ", another machine's address");
	}
	judge_say(c, &p->why,
		  "Gloo (torch.distributed on processors, and side groups of NCCL jobs) %s, so "
		  "ranks on other nodes connect to themselves and are refused, or wait for 30 "
		  "minutes.%s",
		  is == NAME_LOOPBACK ? "announces this address without a warning"
				      : "falls back to the loopback address",
		  is == NAME_LOOPBACK ? " Debian and Ubuntu write such a line to /etc/hosts."
				      : "");
	judge_fix(c, p);
}

static void judge_own_names(struct judge_case *c)
{
	static const char *const code[] = { "", "loopback-name", "unknown-name", "wrong-name" };

	for (int is = NAME_LOOPBACK; is <= NAME_FOREIGN; is++) {
		struct probe_finding *p = NULL;

		for (int i = 0; i < c->f->nnodes; i++) {
			if (judge_own(c, i) != (enum own_name)is)
				continue;
			if (!p)
				p = judge_find(c, code[is], FACTS_WARNING);
			judge_blame(c, p, i);
			if (gloo_of(&c->f->nodes[i]))
				p->severity = FACTS_ERROR;
		}
		if (p && p->nnodes)
			say_own(c, p, (enum own_name)is);
	}
}

/* The other node that has an address of @h; -1: none. */
static int find_owner(const struct judge_case *c, const struct netconf_host *h)
{
	for (int i = 0; i < c->f->nnodes; i++)
		if (facts_is_live(c->f, i) && owns(&c->f->nodes[i], h))
			return i;
	return -1;
}

/* Does the name of @node lead elsewhere when @on resolves it? */
static const struct netconf_host *is_misled(const struct judge_case *c, int on, int node)
{
	const struct probe_node *n = &c->f->nodes[node];
	const struct netconf_host *h = find_host(&c->f->nodes[on], n->name);

	if (on == node || c->same_as[on] == c->same_as[node])
		return NULL;
	if (h && h->nips && !owns(n, h))
		return h;
	/* A name that several nodes have is another fault: see judge_duplicates(). */
	for (int i = 0; i < c->f->nnodes; i++)
		if (i != node && !strcmp(n->hostname, c->f->nodes[i].hostname))
			return NULL;
	h = find_host(&c->f->nodes[on], n->hostname);
	return h && h->nips && !owns(n, h) ? h : NULL;
}

static void judge_peer_name(struct judge_case *c, int node)
{
	const struct netconf_host *h, *first = NULL;
	char list[JUDGE_TEXT], text[IFACE_TEXT];
	struct probe_finding *p = NULL;
	int owner;

	for (int i = 0; i < c->f->nnodes; i++) {
		h = facts_is_live(c->f, i) ? is_misled(c, i, node) : NULL;
		if (!h)
			continue;
		first = first ? first : h;
		if (!p)
			p = judge_find(c, "wrong-name", FACTS_WARNING);
		judge_blame(c, p, i);
		if (iface_is_loopback(&h->ips[0]) || find_owner(c, h) >= 0)
			p->severity = FACTS_ERROR;
	}
	if (!first || !p->nnodes)
		return;
	owner = find_owner(c, first);
	iface_text(&first->ips[0], text);
	snprintf(p->address, sizeof(p->address), "%s", text);
	p->to = node;
	judge_say(c, &p->what, "on %s, the name %s resolves to %s, %s%s",
		  judge_list(c, p->nodes, p->nnodes, list), first->name, text,
		  iface_is_loopback(&first->ips[0]) ? "a loopback address"
		  : owner < 0                       ? "which no node has"
						    : "which is ",
		  iface_is_loopback(&first->ips[0]) || owner < 0 ? ""
								 : c->f->nodes[owner].name);
	judge_say(c, &p->why,
		  "Programs that use this name (mpirun, torchrun's master address, ssh) "
		  "connect to another machine.");
	judge_say(c, &p->fix, "correct /etc/hosts or the DNS record");
	judge_say(c, &p->run, "getent ahosts %s", judge_word(first->name, list));
}

/* Finds libraries that would announce the loopback although a setting could avoid it. */
static void judge_picks(struct judge_case *c, const char *library, const char *role)
{
	struct probe_finding *p = NULL;
	char list[JUDGE_TEXT];

	for (int i = 0; i < c->f->nnodes; i++)
		for (int n = 0; n < c->f->nodes[i].nuses; n++) {
			const struct probe_use *u = &c->f->nodes[i].uses[n];

			if (strcmp(u->library, library) != 0 || strcmp(u->role, role) != 0 ||
			    !is_loopback_text(u->address))
				continue;
			if (!p) {
				p = judge_find(c, "loopback-pick", FACTS_ERROR);
				memcpy(p->interface, u->interface, sizeof(p->interface));
				memcpy(p->address, u->address, sizeof(p->address));
			}
			judge_blame(c, p, i);
		}
	if (!p || !p->nnodes)
		return;
	judge_say(c, &p->what, "%s would take the loopback interface on %s",
		  picker_title(library), judge_list(c, p->nodes, p->nnodes, list));
	judge_say(c, &p->why,
		  "Ranks on other nodes cannot connect to it. The usual causes are an exclude "
		  "list such as ^docker0, which does not exclude lo, and a node without a "
		  "working network.");
	judge_fix(c, p);
}

void judge_names(struct judge_case *c)
{
	explain_loopback(c);
	judge_own_names(c);
	for (int i = 0; i < c->f->nnodes; i++)
		if (facts_is_live(c->f, i))
			judge_peer_name(c, i);
	judge_picks(c, "nccl", "bootstrap");
	judge_picks(c, "openmpi", "btl");
}
