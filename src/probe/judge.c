/* judge.c - code shared by the judges, each of which finds one kind of fault in the facts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "nicpick/picker.h"

struct probe_finding *judge_find(struct judge_case *c, const char *code,
				 enum facts_severity severity)
{
	struct probe_finding *p = facts_add_finding(c->f);

	if (!p) {
		c->failed = true;
		p = &c->spare;
	}
	p->from = p->to = -1;
	p->stops = FACTS_ALL;
	p->severity = severity;
	snprintf(p->code, sizeof(p->code), "%s", code);
	return p;
}

void judge_blame(struct judge_case *c, struct probe_finding *p, int node)
{
	int i, *one;

	for (i = 0; i < p->nnodes; i++)
		if (p->nodes[i] == node)
			return;
	one = array_more(&p->nodes, &p->nnodes, sizeof(*one));
	if (one)
		*one = node;
	c->failed |= !one;
}

void judge_say(struct judge_case *c, char **sentence, const char *fmt, ...)
{
	char *made;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&made, fmt, ap);
	va_end(ap);
	if (n < 0) {
		c->failed = true;
		return;
	}
	free(*sentence);
	*sentence = made;
}

/* Appends to the text of @len bytes in @out as much as fits; returns the new length. */
static size_t judge_add(char out[JUDGE_TEXT], size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static size_t judge_add(char out[JUDGE_TEXT], size_t len, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out + len, JUDGE_TEXT - len, fmt, ap);
	va_end(ap);
	len += n > 0 ? (size_t)n : 0;
	return len < JUDGE_TEXT ? len : JUDGE_TEXT - 1;
}

/* The separator before the @i-th of @n words. */
static const char *before(int i, int n)
{
	return !i ? "" : i < n - 1 ? ", " : " and ";
}

const char *judge_list(const struct judge_case *c, const int *nodes, int n,
		       char out[JUDGE_TEXT])
{
	enum { NAMED = 4 };
	int named = n <= NAMED + 1 ? n : NAMED - 1;
	size_t len = 0;

	*out = 0;
	if (n == c->f->nnodes && n > NAMED) {
		judge_add(out, len, "all %d nodes", n);
		return out;
	}
	for (int i = 0; i < named; i++)
		len = judge_add(out, len, "%s%s", before(i, n), c->f->nodes[nodes[i]].name);
	if (named < n)
		judge_add(out, len, " and %d more", n - named);
	return out;
}

void judge_fix(struct judge_case *c, struct probe_finding *p)
{
	judge_say(c, &p->fix, "let ringup choose one network for all libraries on each node");
	judge_say(c, &p->run, "ringup net fix");
}

static bool is_among(const int *nodes, int n, int node)
{
	int i;

	for (i = 0; i < n && nodes[i] != node; i++)
		;
	return i < n;
}

struct users {
	char library[8][FACTS_WORD];
	char roles[8][4 * FACTS_WORD];
	int n;
};

static void add_user(struct users *u, const struct probe_use *use)
{
	size_t len;
	int i;

	for (i = 0; i < u->n && strcmp(u->library[i], use->library) != 0; i++)
		;
	if (i == (int)(sizeof(u->library) / sizeof(u->library[0])))
		return;
	if (i == u->n) {
		u->n++;
		memcpy(u->library[i], use->library, sizeof(u->library[i]));
		u->roles[i][0] = 0;
	}
	len = strlen(u->roles[i]);
	if (!strstr(u->roles[i], use->role))
		snprintf(u->roles[i] + len, sizeof(u->roles[i]) - len, "%s%s", len ? ", " : "",
			 use->role);
}

/* Does Horovod's probe keep @use?  It does if a host connects to it by its interface of the
 * same name. */
static bool is_kept(const struct judge_case *c, int node, const struct probe_use *use)
{
	for (int i = 0; i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (p->to == node && p->state == FACTS_OPEN &&
		    !strcmp(p->address, use->address) && !strcmp(p->via, use->interface))
			return true;
	}
	return false;
}

/* Without a named interface horovodrun tries all, and drops those that lead nowhere; if none is
 * left, each of them counts as missed. */
static bool is_dropped(const struct judge_case *c, int node, const struct probe_use *use)
{
	const struct probe_node *n = &c->f->nodes[node];
	const char *pinned = netconf_value(&n->snapshot.settings, "HOROVOD_GLOO_IFACE");

	if (strcmp(use->library, "horovod") != 0 || (pinned && *pinned) ||
	    netconf_value(&n->snapshot.settings, "--network-interface") ||
	    is_kept(c, node, use))
		return false;
	for (int i = 0; i < n->nuses; i++)
		if (!strcmp(n->uses[i].library, "horovod") && is_kept(c, node, &n->uses[i]))
			return true;
	return false;
}

static struct users find_users(const struct judge_case *c, const int *nodes, int n,
			       const char *interface, const char *address)
{
	struct users u = { .n = 0 };

	for (int i = 0; i < c->f->nnodes; i++)
		for (int k = 0; is_among(nodes, n, i) && k < c->f->nodes[i].nuses; k++) {
			const struct probe_use *use = &c->f->nodes[i].uses[k];

			if ((!interface || !strcmp(use->interface, interface)) &&
			    (!address || !strcmp(use->address, address)) &&
			    !is_dropped(c, i, use))
				add_user(&u, use);
		}
	return u;
}

int judge_count_users(const struct judge_case *c, const int *nodes, int n,
		      const char *interface, const char *address)
{
	return find_users(c, nodes, n, interface, address).n;
}

const char *judge_users(const struct judge_case *c, const int *nodes, int n,
			const char *interface, const char *address, char out[JUDGE_TEXT])
{
	struct users u = find_users(c, nodes, n, interface, address);
	size_t len = 0;

	*out = 0;
	for (int i = 0; i < u.n; i++)
		len = judge_add(out, len, "%s%s (%s)", before(i, u.n),
				picker_title(u.library[i]), u.roles[i]);
	return out;
}

const struct iface *judge_iface(const struct judge_case *c, int node, const char *name)
{
	return iface_find(&c->f->nodes[node].snapshot.ifaces, name);
}

bool judge_uses(const struct probe_path *p, int node, const char *nic)
{
	return (p->to == node && !strcmp(p->interface, nic)) ||
	       (p->from == node && !strcmp(p->via, nic));
}

void judge_explain(struct judge_case *c, int node, const char *nic)
{
	for (int i = 0; i < c->f->npaths; i++)
		if (judge_uses(&c->f->paths[i], node, nic))
			c->explained[i] = true;
}

int judge_number(struct judge_case *c, struct judge_texts *all, const char *text)
{
	char **one;

	if (!*text)
		return 0;
	for (int i = 0; i < all->n; i++)
		if (!strcmp(all->text[i], text))
			return i + 1;
	if (all->n == BLAME_VALUES)
		return all->n;
	one = array_room(&all->text, all->n, sizeof(*one));
	if (!one || !(*one = strdup(text))) {
		c->failed = true;
		return 0;
	}
	return ++all->n;
}

void judge_texts_free(struct judge_texts *all)
{
	while (all->n)
		free(all->text[--all->n]);
	free(all->text);
}

unsigned char *judge_marks(struct judge_case *c)
{
	unsigned char *mark = calloc((size_t)c->f->npaths + 1, 1);

	c->failed |= !mark;
	return mark;
}

struct blame_trial *judge_trials(struct judge_case *c, const unsigned char *mark, int **path,
				 int *n)
{
	struct judge_texts nic = { 0 }, net = { 0 }, port = { 0 };
	size_t room = (size_t)c->f->npaths + 1;
	struct blame_trial *t = calloc(room, sizeof(*t));
	char text[JUDGE_TEXT];

	*n = 0;
	*path = calloc(room, sizeof(**path));
	for (int i = 0; t && *path && i < c->f->npaths; i++) {
		const struct probe_path *p = &c->f->paths[i];

		if (!mark[i] || c->explained[i] || !facts_is_live(c->f, p->from) ||
		    !facts_is_live(c->f, p->to))
			continue;
		(*path)[*n] = i;
		t[(*n)++] = (struct blame_trial){
			.from = p->from,
			.to = p->to,
			.trait = { judge_number(c, &nic, p->interface),
				   judge_number(c, &net,
						facts_net(c->f, p->to, p->address, text)),
				   judge_number(c, &port, p->port.kind) },
			.bad = mark[i] == JUDGE_BAD,
		};
	}
	judge_texts_free(&nic);
	judge_texts_free(&net);
	judge_texts_free(&port);
	if (t && *path)
		return t;
	c->failed = true;
	free(t);
	free(*path);
	*path = NULL;
	return NULL;
}

static bool is_pair(const struct blame_scope *s)
{
	return s->a >= 0 && s->b >= 0 && (s->form == BLAME_PAIR || s->form == BLAME_BOTH);
}

/* The other node of a pair in which @node is; -1 if it is in none. */
static int find_partner(const struct blame_scope *s, int node)
{
	if (!is_pair(s))
		return -1;
	return s->a == node ? s->b : s->b == node ? s->a : -1;
}

/* How many different nodes are paired with @node in scopes from @from on; @peers may be NULL.
 */
static int count_partners(const struct blame *b, int from, int node, int peers[BLAME_SCOPES])
{
	int all[BLAME_SCOPES], n = 0, k;

	for (int i = from; i < b->n && n < BLAME_SCOPES; i++) {
		int other = find_partner(&b->scopes[i], node);

		for (k = 0; k < n && all[k] != other; k++)
			;
		if (other >= 0 && k == n)
			all[n++] = other;
	}
	if (peers)
		memcpy(peers, all, sizeof(*all) * (size_t)n);
	return n;
}

/* Tells of scope @i, and of the later pairs that share one of its nodes with it; these are then
 * scopes without nodes. */
static void say_scope(struct judge_case *c, struct blame *b, int i, const struct probe_path *x,
		      judge_sayer *say)
{
	struct blame_scope s = b->scopes[i];
	int peers[BLAME_SCOPES], node;

	if (!is_pair(&s)) {
		if (s.form != BLAME_PAIR && s.form != BLAME_BOTH)
			say(c, &s, x);
		return;
	}
	node = count_partners(b, i, s.a, NULL) >= count_partners(b, i, s.b, NULL) ? s.a : s.b;
	c->npeers = count_partners(b, i, node, peers);
	if (c->npeers > 1) {
		c->peers = peers;
		for (int k = i + 1; k < b->n; k++)
			if (find_partner(&b->scopes[k], node) >= 0)
				b->scopes[k].a = b->scopes[k].b = -1;
		s.form = BLAME_NODE;
		s.a = node;
		s.b = -1;
	} else {
		c->npeers = 0;
	}
	say(c, &s, x);
	c->npeers = 0;
	c->peers = NULL;
}

void judge_each(struct judge_case *c, const unsigned char *mark, judge_sayer *say)
{
	struct blame b = { 0 };
	int i, k, n = 0, *path = NULL;
	struct blame_trial *t = mark ? judge_trials(c, mark, &path, &n) : NULL;

	for (i = 0; i < n; i++)
		t[i].trait[BLAME_PORT] = 0;
	if (t && blame_find(&b, t, n, c->f->nnodes, NULL))
		c->failed = true;
	for (i = 0; i < b.n; i++) {
		for (k = 0; k < n && (!t[k].bad || t[k].scope != i); k++)
			;
		if (k < n)
			say_scope(c, &b, i, &c->f->paths[path[k]], say);
	}
	for (i = 0; i < n; i++)
		if (t[i].bad)
			c->explained[path[i]] = true;
	blame_free(&b);
	free(t);
	free(path);
}

const char *judge_between(const struct judge_case *c, const struct blame_scope *s,
			  char out[JUDGE_TEXT])
{
	const char *a = s->a < 0 ? "" : c->f->nodes[s->a].name;
	const char *b = s->b < 0 ? "" : c->f->nodes[s->b].name;
	char list[JUDGE_TEXT];

	*out = 0;
	if (c->npeers) {
		judge_add(out, 0, "between %s and each of %s", a,
			  judge_list(c, c->peers, c->npeers, list));
		return out;
	}
	switch (s->form) {
	case BLAME_PAIR:
		judge_add(out, 0, "from %s to %s", a, b);
		break;
	case BLAME_BOTH:
		judge_add(out, 0, "between %s and %s", a, b);
		break;
	case BLAME_TO:
		judge_add(out, 0, "to %s", a);
		break;
	case BLAME_FROM:
		judge_add(out, 0, "from %s", a);
		break;
	case BLAME_NODE:
		judge_add(out, 0, "to and from %s", a);
		break;
	case BLAME_SPLIT:
		judge_add(out, 0, "between groups of nodes");
		break;
	case BLAME_ANY:
		judge_add(out, 0, "between all nodes");
	}
	return out;
}

void judge_about(struct judge_case *c, struct probe_finding *p, const struct blame_scope *s)
{
	if (s->a >= 0)
		judge_blame(c, p, s->a);
	if (s->b >= 0)
		judge_blame(c, p, s->b);
	for (int i = 0; i < c->npeers; i++)
		judge_blame(c, p, c->peers[i]);
	for (int i = 0; s->a < 0 && i < c->f->nnodes; i++)
		if (facts_is_live(c->f, i))
			judge_blame(c, p, i);
	if (s->form == BLAME_PAIR || s->form == BLAME_BOTH || s->form == BLAME_FROM)
		p->from = s->a;
	if (s->form == BLAME_PAIR || s->form == BLAME_BOTH)
		p->to = s->b;
	else if (s->form == BLAME_TO)
		p->to = s->a;
}
