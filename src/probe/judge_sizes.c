/* judge_sizes.c - packet sizes: MTUs that differ, MTUs that do not pass, lost segments. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/judge.h"

/* Bytes of IP and UDP headers before the payload. */
static int headers(const struct probe_path *p)
{
	return strchr(p->address, ':') ? 48 : 28;
}

/* The largest packet that arrives unbroken; 0: not known. */
static int path_mtu(const struct probe_path *p)
{
	return p->mtu.df > 0 ? p->mtu.df + headers(p) : 0;
}

static bool has_segment(const struct probe_path *p)
{
	return p->mtu.segment >= 0;
}

static bool has_size(const struct probe_path *p)
{
	return p->mtu.link > 0 && p->mtu.df > 0;
}

/* An interface of a node, its network, and the MTU that it has there. */
struct end {
	char net[IFACE_TEXT];
	int node, mtu;
	char nic[IFACE_NAME];
};

/* In the order of networks, then nodes, so that an end's duplicates are adjacent. */
static int by_net(const void *a, const void *b)
{
	const struct end *x = a, *y = b;
	int d = strcmp(x->net, y->net);

	return d ? d : x->node - y->node;
}

/* Both ends of a path that works, if they are in one subnet. */
static int find_ends(const struct judge_case *c, const struct probe_path *p, struct end e[2])
{
	const struct iface_addr *to, *from;

	if (p->state != FACTS_OPEN || !facts_is_live(c->f, p->from) ||
	    !facts_is_live(c->f, p->to))
		return 0;
	to = facts_owner(c->f, p->to, p->address);
	from = facts_owner(c->f, p->from, p->source);
	if (!to || !from || !iface_within(&from->ip, &to->ip, to->prefix))
		return 0;
	for (int i = 0; i < 2; i++) {
		const struct iface_addr *a = i ? from : to;
		const struct iface *f;

		e[i].node = i ? p->from : p->to;
		f = &c->f->nodes[e[i].node].snapshot.ifaces.ifaces[a->iface];
		e[i].mtu = f->mtu;
		memcpy(e[i].nic, f->name, sizeof(e[i].nic));
		facts_net(c->f, p->to, p->address, e[i].net);
	}
	return 2;
}

/* The MTU that most of @n ends have; on a tie, the larger. */
static int usual(const struct end *e, int n)
{
	int k, count, best = 0, most = 0;

	for (int i = 0; i < n; i++) {
		for (count = 0, k = 0; k < n; k++)
			count += e[k].mtu == e[i].mtu;
		if (count > most || (count == most && e[i].mtu > best)) {
			most = count;
			best = e[i].mtu;
		}
	}
	return best;
}

/*
 * Remedies only ever lower an MTU, so following them comes to an end: an MTU that was lowered
 * for a switch is never raised again by a command, since no fact shows that it works.  The text
 * tells users with larger switch MTUs what to do.
 */

/* Appends a command that sets the MTU of one interface name on some nodes. */
static void add_command(struct judge_case *c, char **command, const struct end *e, int n,
			int mtu)
{
	char word[JUDGE_TEXT], *names = NULL, *dev = NULL;
	size_t size;
	FILE *f = open_memstream(&names, &size);

	if (!f) {
		c->failed = true;
		return;
	}
	for (int i = 0; i < n; i++)
		fprintf(f, "%s%s", i ? " " : "", judge_word(c->f->nodes[e[i].node].name, word));
	if (fclose(f) || !names || !(dev = strdup(judge_word(e->nic, word)))) {
		c->failed = true;
	} else if (n == 1) {
		judge_say(c, command, "%s%sssh %s sudo ip link set dev %s mtu %d",
			  *command ? *command : "", *command ? "; " : "", names, dev, mtu);
	} else {
		judge_say(c, command,
			  "%s%sfor n in %s; do ssh \"$n\" sudo ip link set dev %s mtu %d; done",
			  *command ? *command : "", *command ? "; " : "", names, dev, mtu);
	}
	free(names);
	free(dev);
}

/* In the order of names of interfaces, then of nodes. */
static int by_nic(const void *a, const void *b)
{
	const struct end *x = a, *y = b;
	int d = strcmp(x->nic, y->nic);

	return d ? d : x->node - y->node;
}

/* Sets the command that lowers the MTU of the ends above @mtu; sorts the @n ends. */
static void say_lower(struct judge_case *c, struct probe_finding *p, struct end *e, int n,
		      int mtu)
{
	char *command = NULL;
	int k, kept = 0;

	qsort(e, (size_t)n, sizeof(*e), by_nic);
	for (int i = 0; i < n; i++)
		if (e[i].mtu > mtu && (!kept || by_nic(&e[i], &e[kept - 1])))
			e[kept++] = e[i];
	for (int i = 0; i < kept; i = k) {
		for (k = i + 1; k < kept && !strcmp(e[k].nic, e[i].nic); k++)
			;
		add_command(c, &command, &e[i], k - i, mtu);
	}
	free(p->run);
	p->run = command;
}

/* Explains the paths of a node with an unusual MTU; true if one of them lost segments. */
static bool explain_odd(struct judge_case *c, int node, const char *nic)
{
	bool lost = false;

	for (int i = 0; i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (judge_uses(p, node, nic)) {
			lost |= p->mtu.segment == 0;
			c->explained[i] |= p->mtu.segment == 0 || path_mtu(p) > 0;
		}
	}
	return lost;
}

static int smallest(const struct end *e, int n)
{
	int least = e->mtu;

	for (int i = 1; i < n; i++)
		least = e[i].mtu < least ? e[i].mtu : least;
	return least;
}

static void judge_ends(struct judge_case *c, struct end *e, int n)
{
	struct probe_finding *p = NULL;
	char list[JUDGE_TEXT];
	int i, odd = -1, most = usual(e, n), least = smallest(e, n), odd_mtu;

	for (i = 0; i < n; i++) {
		if (e[i].mtu == most)
			continue;
		if (!p)
			p = judge_find(c, "mtu-mismatch", FACTS_WARNING);
		judge_blame(c, p, e[i].node);
		if (explain_odd(c, e[i].node, e[i].nic))
			p->severity = FACTS_ERROR;
		odd = odd < 0 ? i : odd;
	}
	if (odd < 0)
		return;
	odd_mtu = e[odd].mtu;
	memcpy(p->interface, e[odd].nic, sizeof(p->interface));
	judge_list(c, p->nodes, p->nnodes, list);
	judge_say(c, &p->what, "%s on %s has MTU %d, the other nodes in %s have %d", e[odd].nic,
		  list, odd_mtu, e[odd].net, most);
	judge_say(c, &p->why,
		  "Packets of %d bytes do not reach the side with the smaller MTU. TCP agrees "
		  "on the smaller size when it connects; other protocols (RoCE, UCX over UDP, "
		  "tunnels) do not.",
		  most > odd_mtu ? most : odd_mtu);
	judge_say(c, &p->fix,
		  "set the smallest one, %d, on all of them; or a larger one, if every switch "
		  "port between them supports it",
		  least);
	say_lower(c, p, e, n, least);
}

static void judge_mismatch(struct judge_case *c)
{
	struct end *e = calloc(2 * (size_t)c->f->npaths + 1, sizeof(*e));
	int k, n = 0, kept = 0;

	if (!e) {
		c->failed = true;
		return;
	}
	for (int i = 0; i < c->f->npaths; i++)
		n += find_ends(c, &c->f->paths[i], &e[n]);
	qsort(e, (size_t)n, sizeof(*e), by_net);
	for (int i = 0; i < n; i++)
		if (!kept || by_net(&e[i], &e[kept - 1]))
			e[kept++] = e[i];
	for (int i = 0; i < kept; i = k) {
		for (k = i + 1; k < kept && !strcmp(e[k].net, e[i].net); k++)
			;
		judge_ends(c, &e[i], k - i);
	}
	free(e);
}

/* One end of a path. */
static struct end end_of(const struct judge_case *c, const struct probe_path *p, bool from)
{
	struct end e = { .node = from ? p->from : p->to };
	const struct iface *f;

	snprintf(e.nic, sizeof(e.nic), "%s", from ? p->via : p->interface);
	f = judge_iface(c, e.node, e.nic);
	e.mtu = f ? f->mtu : 0;
	return e;
}

/* Is @p one of the paths of @s? */
static bool is_of(const struct judge_case *c, const struct blame_scope *s,
		  const struct probe_path *x, const struct probe_path *p)
{
	bool same_net = !strcmp(p->interface, x->interface) || !s->trait[BLAME_NIC];

	if (!facts_is_live(c->f, p->from) || !facts_is_live(c->f, p->to) || !same_net)
		return false;
	switch (s->form) {
	case BLAME_PAIR:
	case BLAME_BOTH:
		return (p->from == s->a && p->to == s->b) || (p->from == s->b && p->to == s->a);
	case BLAME_TO:
	case BLAME_FROM:
	case BLAME_NODE:
		return p->from == s->a || p->to == s->a;
	default:
		return true;
	}
}

/* Names the ends to lower: those of the node that all these paths share, else all. */
static void say_cure(struct judge_case *c, struct probe_finding *p, const struct blame_scope *s,
		     const struct probe_path *x, int mtu)
{
	bool one = s->form == BLAME_TO || s->form == BLAME_FROM || s->form == BLAME_NODE;
	struct end *e = calloc(2 * (size_t)c->f->npaths + 1, sizeof(*e));
	int n = 0;

	if (!e) {
		c->failed = true;
		return;
	}
	for (int i = 0; i < c->f->npaths; i++) {
		if (!is_of(c, s, x, &c->f->paths[i]) || !c->f->paths[i].mtu.link)
			continue;
		for (int from = 0; from < 2; from++) {
			e[n] = end_of(c, &c->f->paths[i], from);
			n += *e[n].nic && (!one || e[n].node == s->a);
		}
	}
	say_lower(c, p, e, n, mtu);
	free(e);
}

/* The next size to try where nothing tells the path's MTU; 0: size is not the cause. */
static int next_smaller(int link)
{
	return link > 1500 ? 1500 : link > 1280 ? 1280 : 0;
}

static void say_lost(struct judge_case *c, const struct blame_scope *s,
		     const struct probe_path *x)
{
	bool hole = path_mtu(x) && path_mtu(x) < x->mtu.link;
	struct probe_finding *p =
		judge_find(c, hole ? "mtu-black-hole" : "segment-lost", FACTS_ERROR);
	int mtu = hole ? path_mtu(x) : next_smaller(x->mtu.link);
	char who[JUDGE_TEXT], word[JUDGE_TEXT];

	judge_about(c, p, s);
	memcpy(p->interface, x->via, sizeof(p->interface));
	judge_between(c, s, who);
	if (hole)
		judge_say(c, &p->what,
			  "MTU black hole %s: %d bytes at both ends, %d in between, without an "
			  "ICMP error",
			  who, x->mtu.link, path_mtu(x));
	else
		judge_say(c, &p->what, "full-size packets (MTU %d) get lost %s", x->mtu.link,
			  who);
	judge_say(c, &p->why,
		  "Connections open and small messages pass, but the first large one does not: "
		  "the job hangs, or mpirun fails to start its daemons. Full-size TCP segments "
		  "did not arrive.");
	if (!mtu) {
		judge_say(c, &p->fix,
			  "look for a bad cable, port or driver: the MTU is already small "
			  "enough for any network");
		judge_say(c, &p->run, "ssh %s ip -s link show dev %s",
			  judge_word(c->f->nodes[x->from].name, word), x->via);
		return;
	}
	judge_say(c, &p->fix,
		  "allow %d bytes on the switch ports in between, or let ICMP \"fragmentation "
		  "needed\" pass; until then lower the MTU of the interface%s",
		  x->mtu.link, p->nnodes > 1 ? "s" : "");
	say_cure(c, p, s, x, mtu);
}

static void say_smaller(struct judge_case *c, const struct blame_scope *s,
			const struct probe_path *x)
{
	struct probe_finding *p = judge_find(c, "path-mtu", FACTS_WARNING);
	char who[JUDGE_TEXT];

	judge_about(c, p, s);
	memcpy(p->interface, x->via, sizeof(p->interface));
	judge_say(c, &p->what, "%d bytes at both ends, but only %d pass %s", x->mtu.link,
		  path_mtu(x), judge_between(c, s, who));
	judge_say(
		c, &p->why,
		"TCP adapts; other protocols lose packets, and the large MTU has no benefit.");
	judge_say(c, &p->fix,
		  "allow %d bytes on the switch ports in between, or lower the MTU of the "
		  "interface%s",
		  x->mtu.link, p->nnodes > 1 ? "s" : "");
	say_cure(c, p, s, x, path_mtu(x));
}

/* Judges the scopes of the paths that are @tried and @bad. */
static void judge_those(struct judge_case *c, bool (*tried)(const struct probe_path *),
			bool (*bad)(const struct probe_path *), judge_sayer *say)
{
	unsigned char *mark = judge_marks(c);

	for (int i = 0; mark && i < c->f->npaths; i++)
		if (c->f->paths[i].state == FACTS_OPEN && tried(&c->f->paths[i]))
			mark[i] = bad(&c->f->paths[i]) ? JUDGE_BAD : JUDGE_GOOD;
	judge_each(c, mark, say);
	free(mark);
}

static bool is_lost(const struct probe_path *p)
{
	return p->mtu.segment == 0;
}

static bool is_smaller(const struct probe_path *p)
{
	return path_mtu(p) < p->mtu.link;
}

void judge_sizes(struct judge_case *c)
{
	judge_mismatch(c);
	judge_those(c, has_segment, is_lost, say_lost);
	judge_those(c, has_size, is_smaller, say_smaller);
}
