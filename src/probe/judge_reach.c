/* judge_reach.c - connections that fail, and the node or firewall rule at fault. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "probe/judge.h"

enum { JUDGE_PORTS = 128 };

/* A scope in which nothing connects, with the text and evidence of its paths. */
struct blocked {
	const struct blame *b;
	const struct blame_scope *s;
	const struct probe_path *sample; /* in the state that most paths are in */
	char on[JUDGE_TEXT];     /* " on docker0 (172.17.0.0/16) at port 29500 (store)" */
	char ports[JUDGE_PORTS]; /* "ports 43012, 48012 and 60012", in all of these scopes */
	const char *how;         /* "refused", "no route", ... */
	const char *rule;        /* the firewall rule that explains it; or NULL */
	int ruler;               /* the node of the rule */
};

static const char *state_words(const struct probe_path *p)
{
	switch (p->state) {
	case FACTS_REFUSED:
		return "refused";
	case FACTS_FILTERED:
		return "filtered: no answer";
	case FACTS_PROHIBITED:
		return "prohibited";
	case FACTS_UNREACHABLE:
		return !strcmp(p->error, "ENETUNREACH") ? "no route" : "unreachable";
	default:
		return "failed";
	}
}

/* The general reason for a connection to fail in this way. */
static const char *state_why(const struct probe_path *p)
{
	switch (p->state) {
	case FACTS_REFUSED:
		return "The agent listened there, so the reset comes from a firewall or from "
		       "another machine with this address.";
	case FACTS_FILTERED:
		return "Packets get no answer: a firewall or a security group drops them. A "
		       "job would not fail, but wait for minutes to hours.";
	case FACTS_PROHIBITED:
		return "A firewall rejects the connection with an ICMP message.";
	case FACTS_UNREACHABLE:
		return !strcmp(p->error, "ENETUNREACH")
			       ? "The routing table has no entry for this address."
			       : "No router knows this address: the interface is on another "
				 "network or VLAN, its machine is off, or a firewall answers "
				 "for it.";
	default:
		return "";
	}
}

/* Is the port one of the ephemeral ones: the random one of the check, or a sample? */
static bool is_ephemeral(const struct probe_port *p)
{
	return !strcmp(p->kind, "ephemeral") || !strncmp(p->kind, "sample ", 7);
}

static const char *port_words(const struct probe_port *p, char out[JUDGE_PORTS])
{
	if (!strcmp(p->kind, "registered"))
		return "ports from 1024 up";
	if (is_ephemeral(p))
		snprintf(out, JUDGE_PORTS, "port %d", p->number);
	else
		snprintf(out, JUDGE_PORTS, "port %d (%.24s)", p->number, p->kind);
	return out;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Do any ephemeral ports work on this path's interface between these nodes? */
static bool is_part_open(const struct judge_case *c, const struct probe_path *x)
{
	for (int i = 0; i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (p->from == x->from && p->to == x->to && is_ephemeral(&p->port) &&
		    p->state == FACTS_OPEN && !strcmp(p->address, x->address))
			return true;
	}
	return false;
}

/* Names the ports of all scopes that differ from this one in the port alone: a rule for a range
 * of ports is one cause. */
static void say_ports(const struct judge_case *c, struct blocked *x,
		      const struct probe_path *const *sample, int n)
{
	char word[JUDGE_PORTS];
	int number[BLAME_SCOPES], len = 0;

	if (n == 1 && (!is_ephemeral(&sample[0]->port) || is_part_open(c, sample[0]))) {
		snprintf(x->ports, sizeof(x->ports), "%s", port_words(&sample[0]->port, word));
		return;
	}
	for (int i = 0; i < n; i++)
		number[i] = sample[i]->port.number;
	qsort(number, (size_t)n, sizeof(number[0]), by_number);
	if (n == 1 || (!is_part_open(c, x->sample) && is_ephemeral(&x->sample->port))) {
		snprintf(x->ports, sizeof(x->ports), "ephemeral ports (32768 to 60999)%s",
			 number[0] < 32768 ? " and others" : "");
		return;
	}
	for (int i = 0; i < n && len < (int)sizeof(x->ports); i++)
		len += snprintf(x->ports + len, sizeof(x->ports) - (size_t)len, "%s%d",
				!i           ? "ports "
				: i == n - 1 ? " and "
					     : ", ",
				number[i]);
}

static void judge_reach_describe(struct judge_case *c, struct blocked *x)
{
	const struct probe_path *p = x->sample;
	char net[IFACE_TEXT];
	int len = 0;

	facts_net(c->f, p->to, p->address, net);
	if (x->s->trait[BLAME_NIC] && x->s->trait[BLAME_NET])
		len = snprintf(x->on, sizeof(x->on), " on %s (%s)", p->interface, net);
	else if (x->s->trait[BLAME_NIC] || x->s->trait[BLAME_NET])
		len = snprintf(x->on, sizeof(x->on), " on %s",
			       x->s->trait[BLAME_NIC] ? p->interface : net);
	if (x->s->trait[BLAME_PORT])
		snprintf(x->on + len, sizeof(x->on) - (size_t)len, " at %s", x->ports);
	x->how = state_words(p);
}

/* Does the rule apply to outgoing (@out) or incoming packets?  rules.c marks this. */
static bool is_rule_for(const char *rule, bool out)
{
	bool leaves = strcasestr(rule, "output") != NULL;

	return out ? leaves : !leaves || strcasestr(rule, "input");
}

/* Does the word of a rule name an address or network with @ip in it?  -1: it names none. */
static int names_ip(const char *piece, size_t len, const struct iface_ip *ip)
{
	char text[IFACE_TEXT];
	struct iface_ip net;
	int prefix = -1;
	char *slash;

	if (!len || len >= sizeof(text))
		return -1;
	snprintf(text, sizeof(text), "%.*s", (int)len, piece);
	slash = strchr(text, '/');
	if (slash) {
		*slash = 0;
		prefix = atoi(slash + 1);
	}
	/* A number alone is a port. */
	if (!strpbrk(text, ".:") || !iface_parse_recorded(&net, text))
		return -1;
	if (prefix < 0 || prefix > (net.family == AF_INET ? 32 : 128))
		prefix = net.family == AF_INET ? 32 : 128;
	return net.family == ip->family && iface_within(ip, &net, prefix);
}

/*
 * Rates how well the rule explains that @x failed: 2 if it names an address of @x, 1 if it
 * names no address, 0 if only others.  Words with "!", sets and marks are not understood, and
 * count neither way.
 */
static int fit_of(const char *rule, const struct probe_path *x)
{
	struct iface_ip to, from;
	bool other = false, same = false;
	size_t len;
	int a, b;

	if (!iface_parse_recorded(&to, x->address))
		return 1;
	if (!iface_parse_recorded(&from, x->source))
		from = to;
	for (; *rule; rule += len + (rule[len] != 0)) {
		len = strcspn(rule, " ,;{}");
		a = names_ip(rule, len, &to);
		b = names_ip(rule, len, &from);
		same |= a > 0 || b > 0;
		other |= a == 0 && b <= 0;
	}
	return same ? 2 : !other ? 1 : 0;
}

/* The rule of @node that fits @x best, and better than *@fitp; NULL if there is none. */
static const char *find_rule(const struct judge_case *c, int node, bool out,
			     const struct probe_path *x, int *fitp)
{
	const struct probe_node *n = &c->f->nodes[node];
	const char *best = NULL;
	int fit;

	for (int i = 0; node >= 0 && i < n->nfirewall; i++) {
		fit = is_rule_for(n->firewall[i], out) ? fit_of(n->firewall[i], x) : 0;
		if (fit > *fitp) {
			*fitp = fit;
			best = n->firewall[i];
		}
	}
	return best;
}

/* The search for the rule that explains the scope; x->ruler is its node. */
struct guilt {
	const struct judge_case *c;
	struct blocked *x;
	int fit; /* of the best rule so far */
};

static void try_rules(struct guilt *g, int node, bool out)
{
	const char *rule = node < 0 ? NULL : find_rule(g->c, node, out, g->x->sample, &g->fit);

	if (rule) {
		g->x->rule = rule;
		g->x->ruler = node;
	}
}

/* Finds a rule as proof: of the target for incoming packets, of the source for outgoing ones.
 * The best fit wins; on a tie, the rule tried first. */
static void find_guilt(const struct judge_case *c, struct blocked *x)
{
	const struct blame_scope *s = x->s;
	struct guilt g = { .c = c, .x = x };

	switch (s->form) {
	case BLAME_ANY:
	case BLAME_SPLIT:
		for (int i = 0; i < c->f->nnodes; i++) {
			try_rules(&g, i, false);
			try_rules(&g, i, true);
		}
		return;
	case BLAME_BOTH:
		try_rules(&g, s->b, false);
		try_rules(&g, s->a, true);
		try_rules(&g, s->a, false);
		try_rules(&g, s->b, true);
		return;
	case BLAME_PAIR:
		try_rules(&g, s->b, false);
		try_rules(&g, s->a, true);
		return;
	case BLAME_FROM:
		try_rules(&g, s->a, true);
		return;
	case BLAME_TO:
		try_rules(&g, s->a, false);
		return;
	case BLAME_NODE:
		try_rules(&g, s->a, false);
		try_rules(&g, s->a, true);
	}
}

static void say_guilt(struct judge_case *c, struct probe_finding *p, const struct blocked *x)
{
	char word[JUDGE_TEXT], users[JUDGE_TEXT];
	const char *rule = x->rule, *name = rule ? c->f->nodes[x->ruler].name : "";

	judge_users(c, p->nodes, p->nnodes,
		    x->s->trait[BLAME_NIC] ? x->sample->interface : NULL, NULL, users);
	if (rule) {
		judge_blame(c, p, x->ruler);
		judge_say(c, &p->why, "This rule of %s explains it: %s", name, rule);
		judge_say(c, &p->fix, "allow TCP from the other nodes before this rule on %s",
			  name);
		judge_say(c, &p->run, "ssh %s sudo %s", judge_word(name, word),
			  !strncmp(rule, "iptables", 8)    ? "iptables-save"
			  : !strncmp(rule, "ip6tables", 9) ? "ip6tables-save"
							   : "nft list ruleset");
		return;
	}
	judge_say(c, &p->why, "%s%s%s%s", state_why(x->sample), *users ? " " : "", users,
		  *users ? " would use it." : "");
}

/* Does @to reach @from, without any failure? */
static bool is_back_open(const struct judge_case *c, int from, int to)
{
	bool open = false;

	for (int i = 0; i < c->f->npaths; i++)
		if (c->f->paths[i].from == to && c->f->paths[i].to == from) {
			if (c->f->paths[i].state != FACTS_OPEN)
				return false;
			open = true;
		}
	return open;
}

/* The sentence that says which nodes are cut off; it becomes the verdict. */
static void say_blocked(struct judge_case *c, struct probe_finding *p, const struct blocked *x)
{
	const char *a = x->s->a < 0 ? "" : c->f->nodes[x->s->a].name;
	const char *b = x->s->b < 0 ? "" : c->f->nodes[x->s->b].name;
	const char *rule = x->rule ? c->f->nodes[x->ruler].name : NULL;

	switch (x->s->form) {
	case BLAME_PAIR:
		judge_say(c, &p->what, "%s cannot reach %s%s (%s)%s", a, b, x->on, x->how,
			  is_back_open(c, x->s->a, x->s->b) ? ", although the reverse works"
							    : "");
		break;
	case BLAME_BOTH:
		judge_say(c, &p->what, "%s and %s cannot reach each other%s (%s)", a, b, x->on,
			  x->how);
		break;
	case BLAME_TO:
		judge_say(c, &p->what, "no node can reach %s%s (%s)%s%s%s", a,
			  *x->on ? x->on : " on any address", x->how, rule ? "" : ": ",
			  rule ? "" : a, rule ? "" : " or its firewall");
		break;
	case BLAME_FROM:
		judge_say(c, &p->what, "%s cannot reach any other node%s (%s)%s", a, x->on,
			  x->how, rule ? "" : ": its routes or its firewall");
		break;
	case BLAME_NODE:
		judge_say(c, &p->what,
			  "%s is cut off%s: no connection to it or from it works (%s)", a,
			  x->on, x->how);
		break;
	default:
		judge_say(c, &p->what, "no node can reach another%s (%s)", x->on, x->how);
	}
	if (rule)
		judge_say(c, &p->what, "%s: the firewall of %s itself", p->what ? p->what : "",
			  rule);
}

static const char *code_of(const struct blame_scope *s)
{
	static const char *const code[] = {
		[BLAME_PAIR] = "one-direction", [BLAME_BOTH] = "no-connection",
		[BLAME_TO] = "no-way-in",       [BLAME_FROM] = "no-way-out",
		[BLAME_NODE] = "cut-off",       [BLAME_SPLIT] = "split",
		[BLAME_ANY] = "no-network",
	};

	if (s->form == BLAME_ANY && s->trait[BLAME_PORT])
		return "blocked-port";
	if (s->form == BLAME_ANY && (s->trait[BLAME_NIC] || s->trait[BLAME_NET]))
		return "wrong-interface";
	return code[s->form];
}

/* "n1 and n2 | n3 and n4" */
static void say_split(struct judge_case *c, struct probe_finding *p, const struct blocked *x)
{
	int *group = calloc((size_t)c->f->nnodes, sizeof(*group));
	char list[JUDGE_TEXT];
	int k, n, parts = 0;

	for (int i = 0; group && i < c->f->nnodes; i++) {
		for (n = 0, k = i; k < c->f->nnodes; k++)
			if (x->b->group[k] == i)
				group[n++] = k;
		if (!n)
			continue;
		judge_list(c, group, n, list);
		judge_say(c, &p->what, "%s%s%s", p->what ? p->what : "", !parts++ ? "" : " | ",
			  list);
	}
	free(group);
	if (p->what)
		judge_say(c, &p->what,
			  "the nodes form %d groups that cannot reach each other (%s): %s",
			  parts, x->how, p->what);
}

/* Do the two reach each other by another interface? */
static bool has_other_way(const struct judge_case *c, const struct blocked *x)
{
	bool there = false, back = false;

	for (int i = 0; i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (p->state != FACTS_OPEN || !strcmp(p->interface, x->sample->interface))
			continue;
		there |= p->from == x->s->a && p->to == x->s->b;
		back |= p->from == x->s->b && p->to == x->s->a;
	}
	return there && back;
}

static void say_next(struct judge_case *c, struct probe_finding *p, const struct blocked *x)
{
	char word[JUDGE_TEXT], other[JUDGE_TEXT];

	if (!p->fix && !strcmp(p->code, "wrong-interface")) {
		judge_fix(c, p);
	} else if (!p->fix && x->s->form == BLAME_BOTH && x->s->trait[BLAME_NIC] &&
		   !x->s->trait[BLAME_PORT] && has_other_way(c, x)) {
		judge_fix(c, p);
		judge_say(c, &p->fix, "%s; or, if jobs should use %s, open it",
			  p->fix ? p->fix : "", x->sample->interface);
	} else if (!p->fix && !strcmp(p->code, "blocked-port")) {
		judge_say(c, &p->fix,
			  "open %s between the nodes in the security group or firewall",
			  x->ports);
	} else if (!p->fix && x->sample->state == FACTS_UNREACHABLE) {
		judge_say(c, &p->fix,
			  "compare the routes and networks of both, including source address "
			  "rules (ip rule)");
		judge_say(c, &p->run, "ssh %s ip route get %s%s%s",
			  judge_word(c->f->nodes[x->sample->from].name, word),
			  x->sample->address, *x->sample->source ? " from " : "",
			  x->sample->source);
	} else if (!p->fix) {
		judge_say(c, &p->fix,
			  "open all TCP ports between the nodes in the security group or "
			  "firewall, then check again");
	}
	if (!p->run)
		judge_say(c, &p->run, "ringup net check %s %s",
			  judge_word(c->f->nodes[x->sample->from].name, word),
			  judge_word(c->f->nodes[x->sample->to].name, other));
}

static void say_about(struct judge_case *c, struct probe_finding *p, const struct blocked *x)
{
	judge_about(c, p, x->s);
	if (x->s->trait[BLAME_NIC] || x->s->form < BLAME_SPLIT)
		memcpy(p->interface, x->sample->interface, sizeof(p->interface));
	if (x->s->form == BLAME_PAIR || x->s->form == BLAME_TO)
		memcpy(p->address, x->sample->address, sizeof(p->address));
}

/* One path in the state that most paths of the scope are in; but where a node has no route,
 * what it does not answer follows from that. */
static const struct probe_path *find_sample(const struct judge_case *c,
					    const struct blame_trial *t, const int *path, int n,
					    int scope)
{
	const struct probe_path *of[FACTS_STATE_COUNT] = { NULL }, *p;
	int count[FACTS_STATE_COUNT] = { 0 }, i, best = 0;

	for (i = 0; i < n; i++) {
		if (!t[i].bad || t[i].scope != scope)
			continue;
		p = &c->f->paths[path[i]];
		of[p->state] = of[p->state] ? of[p->state] : p;
		count[p->state]++;
	}
	for (i = 1; i < FACTS_STATE_COUNT; i++)
		best = count[i] > count[best] ? i : best;
	if (best == FACTS_FILTERED && 2 * count[FACTS_UNREACHABLE] >= count[best])
		best = FACTS_UNREACHABLE;
	return of[best];
}

/* Makes one finding of @n scopes that differ in their ports only. */
static void judge_scope(struct judge_case *c, const struct blame *b,
			const struct blame_scope *s, const struct probe_path *const *samples,
			int n)
{
	const struct probe_path *sample = samples[0];
	struct blocked x = { .b = b, .s = s, .sample = sample };
	struct probe_finding *p = judge_find(c, code_of(s), FACTS_ERROR);
	char users[JUDGE_TEXT];

	say_ports(c, &x, samples, n);
	judge_reach_describe(c, &x);
	find_guilt(c, &x);
	say_about(c, p, &x);
	/* A port of one kind is one library's: torch's store, Open MPI's first free one. */
	if (s->trait[BLAME_PORT] && n == 1 && !is_ephemeral(&sample->port))
		p->stops = 1;
	else if (s->trait[BLAME_NIC] && s->form != BLAME_SPLIT)
		p->stops = judge_count_users(c, p->nodes, p->nnodes, sample->interface, NULL);
	if (s->form == BLAME_SPLIT)
		say_split(c, p, &x);
	else
		say_blocked(c, p, &x);
	if (!strcmp(p->code, "wrong-interface")) {
		judge_users(c, p->nodes, p->nnodes, sample->interface, NULL, users);
		judge_say(c, &p->what, "%s reaches no other node (%s)%s%s", sample->interface,
			  x.how, *users ? ", but these would use it: " : "", users);
	}
	say_guilt(c, p, &x);
	say_next(c, p, &x);
}

void judge_silence(struct judge_case *c)
{
	struct probe_finding *p;
	char word[JUDGE_TEXT];

	for (int i = 0; i < c->f->nnodes; i++) {
		const struct probe_node *n = &c->f->nodes[i];

		if (!*n->error)
			continue;
		p = judge_find(c, "no-agent", FACTS_ERROR);
		judge_blame(c, p, i);
		judge_say(c, &p->what, "%s did not answer: %s", n->name, n->error);
		judge_say(
			c, &p->why,
			"No job could start on this node, and the check could not examine it.");
		judge_say(c, &p->fix, "make this command work, then check again");
		judge_say(c, &p->run, "ssh -o BatchMode=yes %s ringup --version",
			  judge_word(n->name, word));
	}
}

/* Reports foreign machines that answer at an address of one of our nodes. */
static void judge_impostors(struct judge_case *c)
{
	struct probe_finding *p;
	char word[JUDGE_TEXT];

	for (int i = 0; i < c->f->npaths; i++) {
		const struct probe_path *x = &c->f->paths[i];

		if (c->explained[i] || x->state != FACTS_IMPOSTOR)
			continue;
		p = judge_find(c, "impostor", FACTS_ERROR);
		judge_blame(c, p, x->to);
		p->from = x->from;
		p->to = x->to;
		memcpy(p->address, x->address, sizeof(p->address));
		memcpy(p->interface, x->interface, sizeof(p->interface));
		p->stops = judge_count_users(c, p->nodes, p->nnodes, NULL, x->address);
		judge_say(c, &p->what, "%s is %s on %s, but %s answers there", x->address,
			  *x->interface ? x->interface : "an address", c->f->nodes[x->to].name,
			  x->answered < 0 ? "another node" : c->f->nodes[x->answered].name);
		judge_say(c, &p->why,
			  "Another machine has the same address, or a proxy or NAT is in "
			  "between. %s tried it.",
			  c->f->nodes[x->from].name);
		judge_say(c, &p->fix, "find out which MAC answers for this address");
		judge_say(c, &p->run, "ssh %s ip neigh show %s",
			  judge_word(c->f->nodes[x->from].name, word), x->address);
		for (int k = i; k < c->f->npaths; k++)
			if (c->f->paths[k].to == x->to &&
			    !strcmp(c->f->paths[k].address, x->address))
				c->explained[k] = true;
	}
}

/* Reports the paths that no scope explains, such as one port of several of a kind. */
static void judge_rest(struct judge_case *c, const struct blame_trial *t, const int *path,
		       int n)
{
	const struct blame none = { 0 };
	struct blame_scope s = { .form = BLAME_PAIR, .trait = { 1, 0, 1 } };

	for (int i = 0; i < n; i++) {
		if (!t[i].bad || t[i].scope >= 0)
			continue;
		s.a = t[i].from;
		s.b = t[i].to;
		judge_scope(c, &none, &s,
			    (const struct probe_path *const[]){ &c->f->paths[path[i]] }, 1);
		return;
	}
}

static bool differ_in_port(const struct blame_scope *x, const struct blame_scope *y)
{
	return x->form == y->form && x->a == y->a && x->b == y->b &&
	       x->trait[BLAME_NIC] == y->trait[BLAME_NIC] &&
	       x->trait[BLAME_NET] == y->trait[BLAME_NET] && x->trait[BLAME_PORT] &&
	       y->trait[BLAME_PORT];
}

/* Judges scope @i together with later ones that differ from it in the port; @of[] has a path of
 * each scope, NULL once it is judged. */
static void judge_ports(struct judge_case *c, const struct blame *b,
			const struct probe_path **of, int i)
{
	const struct probe_path *samples[BLAME_SCOPES];
	int n = 0;

	if (!of[i])
		return;
	samples[n++] = of[i];
	for (int k = i + 1; k < b->n; k++)
		if (of[k] && differ_in_port(&b->scopes[i], &b->scopes[k])) {
			samples[n++] = of[k];
			of[k] = NULL;
		}
	judge_scope(c, b, &b->scopes[i], samples, n);
}

void judge_reach(struct judge_case *c)
{
	const struct probe_path *of[BLAME_SCOPES] = { NULL };
	unsigned char *mark = judge_marks(c);
	struct blame_trial *t = NULL;
	struct blame b = { 0 };
	int i, n = 0, *path = NULL;

	judge_impostors(c);
	for (i = 0; mark && i < c->f->npaths; i++)
		if (c->f->paths[i].state != FACTS_IMPOSTOR)
			mark[i] = c->f->paths[i].state == FACTS_OPEN ? JUDGE_GOOD : JUDGE_BAD;
	if (mark)
		t = judge_trials(c, mark, &path, &n);
	if (t && blame_find(&b, t, n, c->f->nnodes, NULL))
		c->failed = true;
	for (i = 0; i < b.n; i++)
		of[i] = find_sample(c, t, path, n, i);
	for (i = 0; i < b.n; i++)
		judge_ports(c, &b, of, i);
	if (t)
		judge_rest(c, t, path, n);
	blame_free(&b);
	free(t);
	free(path);
	free(mark);
}
