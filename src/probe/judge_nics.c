/* judge_nics.c - interfaces that the kernel chooses between, and return paths that differ. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/netconf.h"
#include "probe/judge.h"

/* True for an address that can represent a network: it has a subnet, and its interface is up.
 */
static bool is_in_subnet(const struct iface_list *l, const struct iface_addr *a)
{
	return l->ifaces[a->iface].flags & IFF_UP &&
	       l->ifaces[a->iface].kind != IFACE_LOOPBACK && a->scope == IFACE_GLOBAL &&
	       iface_is_global(&a->ip) && a->prefix < (a->ip.family == AF_INET ? 32 : 128);
}

/* Finds two interfaces of @node in one subnet: positions of two addresses, or false. */
static bool find_shared(const struct judge_case *c, int node, int *first, int *second)
{
	const struct iface_list *l = &c->f->nodes[node].snapshot.ifaces;

	for (int i = 0; facts_is_live(c->f, node) && i < l->naddrs; i++)
		for (int k = i + 1; is_in_subnet(l, &l->addrs[i]) && k < l->naddrs; k++)
			if (is_in_subnet(l, &l->addrs[k]) &&
			    l->addrs[i].iface != l->addrs[k].iface &&
			    l->addrs[i].prefix == l->addrs[k].prefix &&
			    iface_within(&l->addrs[i].ip, &l->addrs[k].ip,
					 l->addrs[i].prefix)) {
				*first = i;
				*second = k;
				return true;
			}
	return false;
}

/* Marks the routes to and from @node as explained. */
static void explain_routes(struct judge_case *c, bool *known, int node)
{
	for (int i = 0; i < c->f->npaths; i++)
		known[i] |= c->f->paths[i].from == node || c->f->paths[i].to == node;
}

static void judge_shared(struct judge_case *c, bool *known)
{
	char list[JUDGE_TEXT], net[IFACE_TEXT], text[IFACE_TEXT];
	struct probe_finding *p = NULL;
	const struct iface_list *l;
	int first = 0, second = 0;

	for (int i = 0; i < c->f->nnodes; i++) {
		if (!find_shared(c, i, &first, &second))
			continue;
		if (!p)
			p = judge_find(c, "shared-subnet", FACTS_WARNING);
		judge_blame(c, p, i);
		explain_routes(c, known, i);
	}
	if (!p || !p->nnodes || !find_shared(c, p->nodes[0], &first, &second))
		return;
	l = &c->f->nodes[p->nodes[0]].snapshot.ifaces;
	memcpy(p->interface, l->ifaces[l->addrs[second].iface].name, sizeof(p->interface));
	facts_net(c->f, p->nodes[0], iface_text(&l->addrs[first].ip, text), net);
	judge_say(c, &p->what, "%s and %s of %s are both in %s",
		  l->ifaces[l->addrs[first].iface].name, p->interface,
		  judge_list(c, p->nodes, p->nnodes, list), net);
	judge_say(c, &p->why,
		  "The kernel sends through one of them whatever a library chooses, and "
		  "answers for both addresses on either: NCCL_SOCKET_IFNAME seems to have no "
		  "effect, and one link is idle.");
	judge_say(c, &p->fix, "give each interface its own subnet, or bond them");
	judge_say(c, &p->run, "ssh %s ip route show",
		  judge_word(c->f->nodes[p->nodes[0]].name, list));
}

/* Finds an interface of which Open MPI 4.1 would announce two IPv4 addresses; or -1. */
static int find_double(const struct judge_case *c, int node, char nic[IFACE_NAME])
{
	const struct probe_node *n = &c->f->nodes[node];

	for (int i = 0; i < n->nuses; i++)
		for (int k = i + 1; k < n->nuses; k++)
			if (!strcmp(n->uses[i].library, "openmpi") &&
			    !strcmp(n->uses[k].library, "openmpi") &&
			    !strcmp(n->uses[i].role, "btl") &&
			    !strcmp(n->uses[k].role, "btl") && *n->uses[i].interface &&
			    !strcmp(n->uses[i].interface, n->uses[k].interface) &&
			    strcmp(n->uses[i].address, n->uses[k].address) != 0 &&
			    !strchr(n->uses[i].address, ':') &&
			    !strchr(n->uses[k].address, ':')) {
				memcpy(nic, n->uses[i].interface, IFACE_NAME);
				return k;
			}
	return -1;
}

static void judge_double(struct judge_case *c)
{
	char list[JUDGE_TEXT], nic[IFACE_NAME] = "";
	struct probe_finding *p = NULL;
	int use;

	for (int i = 0; i < c->f->nnodes; i++) {
		use = find_double(c, i, nic);
		if (use < 0)
			continue;
		if (!p) {
			p = judge_find(c, "two-addresses", FACTS_ERROR);
			memcpy(p->interface, nic, sizeof(p->interface));
			memcpy(p->address, c->f->nodes[i].uses[use].address,
			       sizeof(p->address));
		}
		judge_blame(c, p, i);
	}
	if (!p || !p->nnodes)
		return;
	judge_say(c, &p->what, "%s on %s has two IPv4 addresses", p->interface,
		  judge_list(c, p->nodes, p->nnodes, list));
	judge_say(c, &p->why,
		  "Open MPI 4.1 connects from the first and announces the last, so its jobs "
		  "hang, whatever interfaces you include (issue 5818); Open MPI 5 does not.");
	judge_say(c, &p->fix, "remove the second address, or upgrade to Open MPI 5");
	judge_say(c, &p->run, "ssh %s sudo ip address del %s dev %s",
		  judge_word(c->f->nodes[p->nodes[0]].name, list), p->address, p->interface);
}

/* True if Open MPI is set by network, and NCCL by node, so that names may differ. */
static bool judge_nics_is_set(const struct probe_node *n)
{
	return netconf_get(&n->snapshot.settings, "OMPI_MCA_btl_tcp_if_include") &&
	       netconf_get(&n->snapshot.settings, "NCCL_SOCKET_IFNAME");
}

/* The interface of @node in the network @net; "" if it has none there. */
static const char *nic_in(const struct judge_case *c, int node, const char *net)
{
	const struct iface_list *l = &c->f->nodes[node].snapshot.ifaces;
	char text[IFACE_TEXT], is[IFACE_TEXT];

	for (int i = 0; facts_is_live(c->f, node) && i < l->naddrs; i++)
		if (is_in_subnet(l, &l->addrs[i]) &&
		    !strcmp(facts_net(c->f, node, iface_text(&l->addrs[i].ip, text), is), net))
			return l->ifaces[l->addrs[i].iface].name;
	return "";
}

/* The interface name that most of @n nodes use; on a tie, the first. */
static const char *usual_nic(const char *const *nic, int n)
{
	const char *best = "";
	int k, count, most = 0;

	for (int i = 0; i < n; i++) {
		for (count = 0, k = 0; *nic[i] && k < n; k++)
			count += !strcmp(nic[k], nic[i]);
		if (count > most) {
			most = count;
			best = nic[i];
		}
	}
	return best;
}

static void say_names(struct judge_case *c, struct probe_finding *p, const char *net,
		      const char *usual, bool configured)
{
	char list[JUDGE_TEXT];

	p->severity = configured ? FACTS_NOTE : FACTS_WARNING;
	judge_say(c, &p->what, "%s is named %s on %s, but %s on other nodes", net, p->interface,
		  judge_list(c, p->nodes, p->nnodes, list), usual);
	judge_say(c, &p->why,
		  "A setting that names one interface is wrong on some nodes, and Horovod's "
		  "launcher needs the same name everywhere.%s",
		  configured ? " The current settings handle this." : "");
	judge_fix(c, p);
}

static void judge_names_in(struct judge_case *c, const char *net)
{
	const char **nic = calloc((size_t)c->f->nnodes + 1, sizeof(*nic)), *usual;
	struct probe_finding *p = NULL;
	bool configured = true;

	for (int i = 0; nic && i < c->f->nnodes; i++) {
		nic[i] = nic_in(c, i, net);
		configured = configured && (!*nic[i] || judge_nics_is_set(&c->f->nodes[i]));
	}
	usual = nic ? usual_nic(nic, c->f->nnodes) : "";
	for (int i = 0; nic && i < c->f->nnodes; i++) {
		if (!*nic[i] || !strcmp(nic[i], usual))
			continue;
		if (!p) {
			p = judge_find(c, "names-differ", FACTS_WARNING);
			snprintf(p->interface, sizeof(p->interface), "%s", nic[i]);
		}
		judge_blame(c, p, i);
	}
	if (p && p->nnodes)
		say_names(c, p, net, usual, configured);
	c->failed |= !nic;
	free(nic);
}

/* Judges each network that two nodes use between them. */
static void judge_all_names(struct judge_case *c)
{
	struct judge_texts nets = { 0 };
	char net[IFACE_TEXT];
	int judged = 0;

	for (int i = 0; i < c->f->npaths && judged < BLAME_SCOPES; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (p->state != FACTS_OPEN || !facts_is_live(c->f, p->from) ||
		    !facts_is_live(c->f, p->to) ||
		    !strchr(facts_net(c->f, p->to, p->address, net), '/') ||
		    judge_number(c, &nets, net) <= judged)
			continue;
		judged = nets.n;
		judge_names_in(c, net);
	}
	judge_texts_free(&nets);
}

/* The interface of @node in the subnet of @address, which another node owns. */
static const char *nic_towards(const struct judge_case *c, int node, const char *address)
{
	const struct iface_list *l = &c->f->nodes[node].snapshot.ifaces;
	struct iface_ip ip;

	for (int i = 0; iface_parse(&ip, address) && i < l->naddrs; i++)
		if (is_in_subnet(l, &l->addrs[i]) &&
		    iface_within(&ip, &l->addrs[i].ip, l->addrs[i].prefix))
			return l->ifaces[l->addrs[i].iface].name;
	return NULL;
}

/* Does @p leave by another interface than the one in the subnet of its address? */
static bool is_astray(const struct judge_case *c, const struct probe_path *p)
{
	const char *nic = nic_towards(c, p->from, p->address);

	return nic && *p->via && strcmp(nic, p->via) != 0;
}

/* Paths in the order of their nodes, to find the paths of a pair. */
struct way {
	int from, to, path;
};

static int by_pair(const void *a, const void *b)
{
	const struct way *x = a, *y = b;
	int d = x->from != y->from ? x->from - y->from : x->to - y->to;

	return d ? d : x->path - y->path;
}

static struct way *sort_ways(const struct judge_case *c)
{
	struct way *w = calloc((size_t)c->f->npaths + 1, sizeof(*w));

	for (int i = 0; w && i < c->f->npaths; i++)
		w[i] = (struct way){ c->f->paths[i].from, c->f->paths[i].to, i };
	if (w)
		qsort(w, (size_t)c->f->npaths, sizeof(*w), by_pair);
	return w;
}

/* The path back from @p's target, if it leaves by another interface than @p arrives at. */
static const struct probe_path *find_back(const struct judge_case *c, const struct way *w,
					  const struct probe_path *p)
{
	int low = 0, high = c->f->npaths;

	while (low < high) {
		int mid = low + (high - low) / 2;
		const struct way want = { p->to, p->from, 0 };

		if (by_pair(&w[mid], &want) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < c->f->npaths && w[low].from == p->to && w[low].to == p->from; low++) {
		const struct probe_path *q = &c->f->paths[w[low].path];

		if (!strcmp(q->address, p->source))
			return *q->via && *p->interface && strcmp(q->via, p->interface) != 0
				       ? q
				       : NULL;
	}
	return NULL;
}

static void say_astray(struct judge_case *c, const struct probe_path *p,
		       const struct probe_path *back)
{
	struct probe_finding *f = judge_find(c, "asymmetric-route", FACTS_WARNING);
	const char *from = c->f->nodes[p->from].name, *to = c->f->nodes[p->to].name;
	char word[JUDGE_TEXT];

	judge_blame(c, f, back ? p->to : p->from);
	judge_blame(c, f, back ? p->from : p->to);
	f->from = p->from;
	f->to = p->to;
	memcpy(f->address, p->address, sizeof(f->address));
	if (back) {
		memcpy(f->interface, back->via, sizeof(f->interface));
		judge_say(c, &f->what, "%s reaches %s on %s, but %s answers through %s", from,
			  p->interface, to, to, back->via);
	} else {
		memcpy(f->interface, p->via, sizeof(f->interface));
		judge_say(c, &f->what,
			  "%s sends to %s on %s through %s, not through %s, which is in that "
			  "network",
			  from, p->address, to, p->via, nic_towards(c, p->from, p->address));
	}
	judge_say(c, &f->why,
		  "The route decides the interface, not the library's choice: traffic uses "
		  "another link than planned, and a strict reverse path filter drops it.");
	judge_say(c, &f->fix, "correct the route or the metric of the interfaces on %s",
		  back ? to : from);
	judge_say(c, &f->run, "ssh %s ip route get %s", judge_word(back ? to : from, word),
		  back ? back->address : p->address);
}

/* Reports once for each node that sends by another interface. */
static void judge_routes(struct judge_case *c, const bool *known)
{
	bool *reported = calloc((size_t)c->f->nnodes + 1, sizeof(*reported));
	struct way *w = sort_ways(c);
	int who;

	c->failed |= !reported || !w;
	for (int i = 0; reported && w && i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i], *back = NULL;

		if (known[i] || c->explained[i] || !facts_is_live(c->f, p->from) ||
		    !facts_is_live(c->f, p->to))
			continue;
		if (!is_astray(c, p)) {
			back = find_back(c, w, p);
			if (!back || is_astray(c, back))
				continue;
		}
		who = back ? p->to : p->from;
		if (!reported[who])
			say_astray(c, p, back);
		reported[who] = true;
	}
	free(reported);
	free(w);
}

void judge_nics(struct judge_case *c)
{
	bool *known = calloc((size_t)c->f->npaths + 1, sizeof(*known));

	judge_double(c);
	judge_all_names(c);
	if (known) {
		judge_shared(c, known);
		judge_routes(c, known);
	}
	c->failed |= !known;
	free(known);
}
