/* blame.c - find the smallest scopes (nodes, interface, port) that explain failed trials. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/blame.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/*
 * A scope as a number that is never 0: the form plus 1 in 3 bits, then 12 bits each for
 * a, b and the traits, nodes counted from 1.  A trial belongs to scopes of all forms, for
 * every choice of the traits that tell trials apart.
 */
enum { FIELD = 12, MASK = (1 << FIELD) - 1, WHO = 7, CHOICES = 1 << BLAME_TRAITS };

struct count {
	uint64_t key; /* 0: a free place */
	int good, bad;
};

/* The search for scopes: all candidates, found by their key, with their trials counted. */
struct search {
	struct blame_trial *trials;
	int n, nodes;
	unsigned useful; /* bit t: trait t tells trials apart */
	struct count *table;
	size_t room, used; /* room is a power of 2 */
	int left;          /* bad trials without a scope */
};

static uint64_t pack(enum blame_form form, int a, int b)
{
	return (((uint64_t)form + 1) << FIELD | (uint64_t)(a + 1)) << FIELD | (uint64_t)(b + 1);
}

static struct blame_scope unpack(const struct count *c)
{
	struct blame_scope s = { .trials = c->bad };
	uint64_t key = c->key;

	for (int k = BLAME_TRAITS - 1; k >= 0; k--, key >>= FIELD)
		s.trait[k] = (int)(key & MASK);
	s.b = (int)(key & MASK) - 1;
	s.a = (int)(key >> FIELD & MASK) - 1;
	s.form = (enum blame_form)((key >> 2 * FIELD) - 1);
	return s;
}

/* The keys of all scopes to which @t belongs; returns how many. */
static int keys_of(const struct search *s, const struct blame_trial *t,
		   uint64_t key[WHO * CHOICES])
{
	int low = t->from < t->to ? t->from : t->to, high = t->from + t->to - low;
	const uint64_t who[WHO] = {
		pack(BLAME_PAIR, t->from, t->to), pack(BLAME_BOTH, low, high),
		pack(BLAME_TO, t->to, -1),        pack(BLAME_FROM, t->from, -1),
		pack(BLAME_NODE, t->to, -1),      pack(BLAME_NODE, t->from, -1),
		pack(BLAME_ANY, -1, -1),
	};
	int n = 0;

	for (unsigned choice = 0; choice < CHOICES; choice++) {
		if (choice & ~s->useful)
			continue;
		for (int i = 0; i < WHO; i++, n++) {
			key[n] = who[i];
			for (int k = 0; k < BLAME_TRAITS; k++)
				key[n] = key[n] << FIELD |
					 (choice >> k & 1 ? (uint64_t)t->trait[k] : 0);
		}
	}
	return n;
}

/* The place of @key, or the free one where it would be. */
static struct count *place(struct count *table, size_t room, uint64_t key)
{
	size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (room - 1);

	while (table[at].key && table[at].key != key)
		at = (at + 1) & (room - 1);
	return &table[at];
}

static int blame_make_room(struct search *s, struct err *e)
{
	size_t i, room = s->room ? 2 * s->room : 1024;
	struct count *table;

	if (2 * s->used < s->room)
		return 0;
	table = calloc(room, sizeof(*table));
	if (!table)
		return fail(e, RINGUP_ENOMEM, "no memory to find a common cause");
	for (i = 0; i < s->room; i++)
		if (s->table[i].key)
			*place(table, room, s->table[i].key) = s->table[i];
	free(s->table);
	s->table = table;
	s->room = room;
	return 0;
}

/* Bad trials create candidate scopes; good trials count only against existing ones. */
static int count_trials(struct search *s, bool bad, struct err *e)
{
	uint64_t key[WHO * CHOICES];
	struct count *c;
	int keys;

	for (int i = 0; i < s->n; i++) {
		if (s->trials[i].bad != bad)
			continue;
		keys = keys_of(s, &s->trials[i], key);
		for (int k = 0; k < keys; k++) {
			if (bad && blame_make_room(s, e))
				return RINGUP_ENOMEM;
			c = place(s->table, s->room, key[k]);
			if (bad && !c->key) {
				c->key = key[k];
				s->used++;
			}
			c->bad += bad;
			c->good += !bad && c->key;
		}
		s->left += bad;
	}
	return 0;
}

/* Does trait @t have more than one value? */
static bool is_various(const struct search *s, int t)
{
	for (int i = 1; i < s->n; i++)
		if (s->trials[i].trait[t] != s->trials[0].trait[t])
			return true;
	return false;
}

/* True where interfaces and networks occur in fixed pairs, so that one trait suffices. */
static bool are_net_and_nic_paired(const struct search *s)
{
	static const int none = 0;
	int *net, *nic, i, a, b;
	bool paired = true;

	net = calloc(BLAME_VALUES + 1, sizeof(none));
	nic = calloc(BLAME_VALUES + 1, sizeof(none));
	for (i = 0; net && nic && paired && i < s->n; i++) {
		a = s->trials[i].trait[BLAME_NIC];
		b = s->trials[i].trait[BLAME_NET];
		paired = (!net[a] || net[a] == b) && (!nic[b] || nic[b] == a);
		net[a] = b;
		nic[b] = a;
	}
	paired = paired && net && nic;
	free(net);
	free(nic);
	return paired;
}

static int traits(const struct blame_scope *s)
{
	int n = 0;

	for (int k = 0; k < BLAME_TRAITS; k++)
		n += s->trait[k] != 0;
	return n;
}

/* Is @a the better explanation?  On a tie the key decides, for determinism. */
static bool blame_is_better(const struct count *a, const struct count *b)
{
	struct blame_scope x, y;

	if (a->bad != b->bad)
		return a->bad > b->bad;
	x = unpack(a);
	y = unpack(b);
	if (traits(&x) != traits(&y))
		return traits(&x) < traits(&y);
	return a->key < b->key;
}

static const struct count *best_of(const struct search *s)
{
	const struct count *best = NULL;

	for (size_t i = 0; i < s->room; i++) {
		const struct count *c = &s->table[i];

		if (c->key && !c->good && c->bad > 0 && (!best || blame_is_better(c, best)))
			best = c;
	}
	return best;
}

/* Explains @t by @scope, so that it counts for no other scope. */
static void blame_explain(struct search *s, struct blame_trial *t, int scope)
{
	uint64_t key[WHO * CHOICES];
	int k, keys = keys_of(s, t, key);

	for (k = 0; k < keys; k++)
		place(s->table, s->room, key[k])->bad--;
	t->scope = scope;
	s->left--;
}

static void explain_all(struct search *s, uint64_t of, int scope)
{
	uint64_t key[WHO * CHOICES];
	int k, keys;

	for (int i = 0; i < s->n; i++) {
		if (!s->trials[i].bad || s->trials[i].scope >= 0)
			continue;
		keys = keys_of(s, &s->trials[i], key);
		for (k = 0; k < keys && key[k] != of; k++)
			;
		if (k < keys)
			blame_explain(s, &s->trials[i], scope);
	}
}

static int find_root(const int *parent, int i)
{
	while (parent[i] != i)
		i = parent[i];
	return i;
}

/*
 * Finds groups of nodes that are connected within and cut off from each other, and gives each
 * node the number of its group.  Returns how many groups have two or more nodes; a single node
 * is no group.
 */
static int find_groups(const struct search *s, int *group)
{
	int a, b, groups = 0;

	for (int i = 0; i < s->nodes; i++)
		group[i] = i;
	for (int i = 0; i < s->n; i++) {
		a = find_root(group, s->trials[i].from);
		b = find_root(group, s->trials[i].to);
		if (!s->trials[i].bad)
			group[a > b ? a : b] = a < b ? a : b;
	}
	for (int i = 0; i < s->nodes; i++)
		group[i] = find_root(group, i);
	for (int i = 0; i < s->nodes; i++) {
		for (a = i + 1; group[i] == i && a < s->nodes && group[a] != i; a++)
			;
		groups += group[i] == i && a < s->nodes;
	}
	return groups;
}

/* Explains all remaining bad trials by groups, if groups do. */
static bool blame_split(struct search *s, struct blame *b, struct blame_scope *scope,
			struct err *e)
{
	int i, *group = calloc((size_t)s->nodes + 1, sizeof(*group));

	if (!group) {
		fail(e, RINGUP_ENOMEM, "no memory to find a common cause");
		return false;
	}
	b->groups = find_groups(s, group);
	for (i = 0; b->groups > 1 && i < s->n; i++) {
		const struct blame_trial *t = &s->trials[i];

		if (t->bad && t->scope < 0 && group[t->from] == group[t->to])
			b->groups = 0;
	}
	if (b->groups < 2) {
		free(group);
		return false;
	}
	*scope = (struct blame_scope){ .form = BLAME_SPLIT, .a = -1, .b = -1 };
	scope->trials = s->left;
	for (i = 0; i < s->n; i++)
		if (s->trials[i].bad && s->trials[i].scope < 0)
			blame_explain(s, &s->trials[i], b->n);
	b->group = group;
	return true;
}

static int search(struct search *s, struct blame *b, struct err *e)
{
	const struct count *best;
	struct blame_scope scope;

	while (s->left && b->n < BLAME_SCOPES) {
		best = best_of(s);
		if (!best)
			break;
		scope = unpack(best);
		if (scope.form > BLAME_BOTH || scope.trials == s->left || b->group ||
		    !blame_split(s, b, &scope, e))
			explain_all(s, best->key, b->n);
		b->scopes[b->n++] = scope;
	}
	return 0;
}

int blame_find(struct blame *b, struct blame_trial *trials, int n, int nodes, struct err *e)
{
	struct search s = { .trials = trials, .n = n, .nodes = nodes };
	int rc;

	memset(b, 0, sizeof(*b));
	for (int i = 0; i < n; i++)
		trials[i].scope = -1;
	for (int i = 0; i < BLAME_TRAITS; i++)
		s.useful |= is_various(&s, i) ? 1u << i : 0;
	if (s.useful >> BLAME_NET & 1 && are_net_and_nic_paired(&s))
		s.useful &= ~(1u << BLAME_NET);
	b->scopes = calloc(BLAME_SCOPES, sizeof(*b->scopes));
	if (!b->scopes)
		return fail(e, RINGUP_ENOMEM, "no memory to find a common cause");
	rc = count_trials(&s, true, e);
	if (!rc && s.left)
		rc = count_trials(&s, false, e);
	if (!rc && s.left)
		rc = search(&s, b, e);
	free(s.table);
	return rc;
}

void blame_free(struct blame *b)
{
	free(b->scopes);
	free(b->group);
	memset(b, 0, sizeof(*b));
}
