/* test_blame.c - a fault that is put in is the scope that comes out. */
#include "probe/blame.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tap.h"

enum { MOST = 16, NICS = 2, PORTS = 3, TRIALS = MOST * MOST * NICS * PORTS };

static struct blame_trial trials[TRIALS];
static int count;

/* Everybody tries everybody, on each interface and port; all is well. */
static void fill(int nodes)
{
	int a, b, nic, port;

	count = 0;
	for (a = 0; a < nodes; a++)
		for (b = 0; b < nodes; b++)
			for (nic = 1; nic <= NICS; nic++)
				for (port = 1; port <= PORTS; port++)
					if (a != b)
						trials[count++] = (struct blame_trial){
							.from = a,
							.to = b,
							.trait = { nic, nic, port },
						};
}

static bool is_in(const struct blame_scope *s, const struct blame_trial *t)
{
	bool a = t->from == s->a, b = t->to == s->a;
	const bool in[] = {
		[BLAME_PAIR] = a && t->to == s->b,
		[BLAME_BOTH] = (a && t->to == s->b) || (b && t->from == s->b),
		[BLAME_TO] = b,
		[BLAME_FROM] = a,
		[BLAME_NODE] = a || b,
		[BLAME_ANY] = true,
	};
	int k;

	for (k = 0; k < BLAME_TRAITS; k++)
		if (s->trait[k] && t->trait[k] != s->trait[k])
			return false;
	return in[s->form];
}

/* Is the one scope of what was broken the scope that broke it? */
static bool is_found(const struct blame_scope *want, int nodes)
{
	struct blame b;
	struct err e;
	int i;
	bool good;

	fill(nodes);
	for (i = 0; i < count; i++)
		trials[i].bad = is_in(want, &trials[i]);
	good = !blame_find(&b, trials, count, nodes, &e) && b.n == 1 &&
	       b.scopes[0].form == want->form && b.scopes[0].a == want->a &&
	       b.scopes[0].b == want->b &&
	       !memcmp(b.scopes[0].trait, want->trait, sizeof(want->trait));
	for (i = 0; i < count; i++)
		good = good && trials[i].scope == (trials[i].bad ? 0 : -1);
	blame_free(&b);
	return good;
}

static void test_one(void)
{
	static const struct {
		const char *what;
		struct blame_scope s;
		int least; /* nodes, for the scope to be more than its parts */
	} cases[] = {
		{ "a direction", { BLAME_PAIR, 1, 0, { 0 }, 0 }, 2 },
		{ "a pair", { BLAME_BOTH, 0, 1, { 0 }, 0 }, 2 },
		{ "all that leads to a node", { BLAME_TO, 1, -1, { 0 }, 0 }, 3 },
		{ "all that comes from a node", { BLAME_FROM, 1, -1, { 0 }, 0 }, 3 },
		{ "all of a node", { BLAME_NODE, 2, -1, { 0 }, 0 }, 3 },
		{ "everything", { BLAME_ANY, -1, -1, { 0 }, 0 }, 3 },
		{ "a port of all", { BLAME_ANY, -1, -1, { 0, 0, 2 }, 0 }, 3 },
		{ "an interface of all", { BLAME_ANY, -1, -1, { 2, 0, 0 }, 0 }, 3 },
		{ "an interface of a node", { BLAME_TO, 1, -1, { 1, 0, 0 }, 0 }, 3 },
		{ "a port of a node", { BLAME_TO, 0, -1, { 0, 0, 3 }, 0 }, 3 },
		{ "a port of an interface of a node", { BLAME_TO, 0, -1, { 1, 0, 3 }, 0 }, 3 },
		{ "a port of a direction", { BLAME_PAIR, 1, 0, { 0, 0, 1 }, 0 }, 2 },
	};
	size_t i;
	int n;
	bool all;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (all = true, n = cases[i].least; all && n <= MOST; n++)
			all = is_found(&cases[i].s, n);
		ok(all, "%s, of %d to %d nodes", cases[i].what, cases[i].least, n - 1);
	}
}

static void test_groups(void)
{
	struct blame b;
	struct err e;
	int i;

	fill(6);
	for (i = 0; i < count; i++)
		trials[i].bad = trials[i].from % 2 != trials[i].to % 2;
	ok(!blame_find(&b, trials, count, 6, &e) && b.n == 1 && b.scopes[0].form == BLAME_SPLIT,
	   "two groups are one scope");
	ok(b.group && b.group[0] == b.group[4] && b.group[1] == b.group[5] &&
		   b.group[0] != b.group[1],
	   "and who is in which is told");
	blame_free(&b);
}

static void test_several(void)
{
	struct blame b;
	struct err e;
	int i;

	fill(5);
	for (i = 0; i < count; i++)
		trials[i].bad = trials[i].to == 3 || (trials[i].from == 0 && trials[i].to == 1);
	ok(!blame_find(&b, trials, count, 5, &e) && b.n == 2 && b.scopes[0].form == BLAME_TO &&
		   b.scopes[0].a == 3 && b.scopes[1].form == BLAME_PAIR && b.scopes[1].a == 0 &&
		   b.scopes[1].b == 1,
	   "what explains more comes first");
	blame_free(&b);

	for (i = 0; i < count; i++)
		trials[i].bad = false;
	ok(!blame_find(&b, trials, count, 5, &e) && !b.n,
	   "where all is well nobody is to blame");
	blame_free(&b);

	for (i = 0; i < count; i++)
		trials[i].bad = trials[i].trait[BLAME_PORT] == 1 + i % 2;
	ok(!blame_find(&b, trials, count, 5, &e) && b.n <= BLAME_SCOPES, "chaos ends");
	blame_free(&b);
	ok(!blame_find(&b, NULL, 0, 0, &e) && !b.n, "nothing was tried");
	blame_free(&b);

	fill(2);
	for (i = 0; i < count; i++)
		trials[i].bad = i == 0;
	trials[1] = trials[0];
	trials[1].bad = false;
	ok(!blame_find(&b, trials, count, 2, &e) && !b.n && trials[0].scope == -1,
	   "the same trial, good and bad, has no scope");
	blame_free(&b);
}

int main(void)
{
	test_one();
	test_groups();
	test_several();
	return tap_done();
}
