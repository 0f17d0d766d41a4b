/* test_placement.c - a probe gives a time that light would need, or says that it cannot. */
#include <sched.h>
#include <string.h>

#include "base/err.h"
#include "bench/placement.h"
#include "tap.h"

static void kinds(void)
{
	ok(placement_kind(30) == PLACEMENT_NEAR && placement_kind(220) == PLACEMENT_FAR &&
		   placement_kind(-1) == PLACEMENT_UNKNOWN,
	   "near, far, unknown");
	ok(placement_both(PLACEMENT_NEAR, PLACEMENT_NEAR) == PLACEMENT_NEAR, "near twice");
	ok(placement_both(PLACEMENT_NEAR, PLACEMENT_FAR) == PLACEMENT_MIXED, "near, then far");
	ok(placement_both(PLACEMENT_MIXED, PLACEMENT_FAR) == PLACEMENT_MIXED, "mixed remains");
	ok(placement_both(PLACEMENT_UNKNOWN, PLACEMENT_FAR) == PLACEMENT_FAR,
	   "what is unknown says nothing");
	ok(!strcmp(placement_name(PLACEMENT_NEAR), "near"), "a name");
}

static void probes(void)
{
	struct placement *p = NULL;
	struct err e = { 0 };
	int i, measured = 0, sane = 1;

	ok(placement_open(&p, &e) == 0, "opened: %s", e.text);
	for (i = 0; i < 20; i++) {
		double ns = placement_probe(p);

		measured += ns >= 0;
		/* Faster than a cache is impossible, slower than a second as well. */
		sane &= ns < 0 || (ns > 1 && ns < 1e9);
	}
	ok(sane, "%d of 20 probes gave a time, all of them possible", measured);
	placement_close(p);
	placement_close(NULL);
}

static void alone(void)
{
	struct placement *p = NULL;
	struct err e = { 0 };
	cpu_set_t old, one;

	sched_getaffinity(0, sizeof(old), &old);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	ok(placement_open(&p, &e) == 0 && placement_probe(p) < 0,
	   "one processor has no distance");
	placement_close(p);
	sched_setaffinity(0, sizeof(old), &old);
}

int main(void)
{
	kinds();
	probes();
	alone();
	return tap_done();
}
