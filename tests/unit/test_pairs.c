/* test_pairs.c - paths become a square; what is far from the rest is marked. */
#include "probe/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "checks.h"
#include "probe/verdict.h"
#include "tap.h"

static void test_square(void)
{
	struct probe_facts f;
	struct pairs p;
	struct err e;
	int i, slow = 0, weak = 0;

	checks_well(&f, 4);
	for (i = 0; i < f.npaths; i++) {
		struct probe_path *x = &f.paths[i];

		if (x->from == 1 && x->to == 2) {
			x->latency_median_us = x->latency_median_us < 0 ? -1 : 900;
			x->bandwidth_mbs = x->bandwidth_mbs < 0 ? -1 : 90;
		}
		if (x->from == 3 && x->to == 0)
			x->state = i % 3 ? FACTS_OPEN : FACTS_REFUSED;
	}
	ok(!pairs_make(&p, &f, 96, &e) && p.n == 4, "four nodes");
	ok(pairs_at(&p, 1, 2)->slow && pairs_at(&p, 1, 2)->weak, "the slow pair is marked");
	for (i = 0; i < 16; i++) {
		slow += p.pair[i].slow;
		weak += p.pair[i].weak;
	}
	ok(slow == 1 && weak == 1, "and no other");
	ok(pairs_at(&p, 3, 0)->tried == 3 && pairs_at(&p, 3, 0)->failed == 1 &&
		   pairs_at(&p, 3, 0)->state == FACTS_REFUSED,
	   "what failed is counted");
	ok(!pairs_at(&p, 2, 2)->tried && p.us[1] == 900 && p.mbs[0] == 90, "ends of the scale");
	pairs_free(&p);
	facts_free(&f);
}

/* A link-local address that works hides nothing; a bridge that fails cuts nothing off. */
static void test_cut(void)
{
	char address[IFACE_TEXT];
	struct probe_facts f;
	struct pairs p;
	struct err e;
	int i;

	checks_well(&f, 3);
	for (i = 0; i < f.npaths; i++) {
		struct probe_path *x = &f.paths[i];

		if (x->from == 0 && x->to == 1)
			x->state = FACTS_FILTERED;
	}
	for (i = 0; i < 3; i++)
		checks_use(&f, i, "ringup", "tcp", "eth0", checks_address(i, address));
	checks_path(&f, 0, 1, "eth0", "fe80::2%2", "fe80::1%2", "ephemeral")
		->latency_median_us = 50;
	checks_path(&f, 0, 2, "eth0", "fe80::3%2", "fe80::1%2", "ephemeral");
	checks_path(&f, 1, 2, "docker0", "172.17.0.1", "172.17.0.1", "ephemeral")->state =
		FACTS_IMPOSTOR;
	ok(!pairs_make(&p, &f, 96, &e), "three nodes");
	ok(pairs_is_dead(pairs_at(&p, 0, 1)) && pairs_at(&p, 0, 1)->state == FACTS_FILTERED,
	   "cut off, though fe80:: works");
	ok(!pairs_is_dead(pairs_at(&p, 0, 2)) && !pairs_is_dead(pairs_at(&p, 1, 0)),
	   "the others are not, nor the reverse");
	ok(!pairs_is_dead(pairs_at(&p, 1, 2)) && pairs_at(&p, 1, 2)->failed == 1,
	   "an impostor at docker0 is a part that fails");
	pairs_free(&p);
	facts_free(&f);
}

static void test_many(void)
{
	struct probe_facts f;
	struct pairs p;
	struct err e;
	int i;

	checks_well(&f, 40);
	snprintf(f.nodes[37].error, FACTS_TEXT, "no");
	ok(!verdict_find(&f, &e) && !pairs_make(&p, &f, 8, &e) && p.n == 8, "eight of forty");
	for (i = 0; i < p.n && p.node[i] != 37; i++)
		;
	ok(i == 7 && p.node[0] == 0 && p.node[6] == 6, "with the one that a finding names");
	pairs_free(&p);
	facts_free(&f);
	memset(&f, 0, sizeof(f));
	ok(!pairs_make(&p, &f, 8, &e) && !p.n && p.us[0] < 0, "nobody");
	pairs_free(&p);
}

int main(void)
{
	test_square();
	test_cut();
	test_many();
	return tap_done();
}
