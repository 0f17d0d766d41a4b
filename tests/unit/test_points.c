/* test_points.c - when operations came to their points, out of records in order of time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/points.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

enum { TENSOR = 7, OTHER = 9, ALL = 64, AHEAD = 1000 };

static struct trace_record all[ALL];
static size_t n;

static void put(enum trace_what what, uint32_t label, int number, int arg)
{
	struct trace_record r = {
		.ns = (int64_t)++n, .label = label, .what = (uint8_t)what, .arg = (uint16_t)arg
	};

	r.rank[3] = number;
	all[n - 1] = r;
}

static bool is(const struct ringup_points *p, int64_t submitted, int64_t ready, int64_t begun,
	       int64_t complete, int failed)
{
	const int64_t want[] = { submitted, ready, begun, complete };
	const int64_t got[] = { p->submitted, p->ready, p->begun, p->complete };
	int i, bad = p->failed != failed;

	for (i = 0; i < 4; i++)
		bad += got[i] != (want[i] ? want[i] + AHEAD : 0);
	if (bad)
		printf("# %lld %lld %lld %lld, %d\n", (long long)p->submitted,
		       (long long)p->ready, (long long)p->begun, (long long)p->complete,
		       p->failed);
	return !bad;
}

static void test_tensors(void)
{
	struct ringup_points p[4];

	n = 0;
	put(TRACE_SUBMITTED, TENSOR, 1, 0);
	put(TRACE_SUBMITTED, OTHER, 2, 0);
	put(TRACE_READY, TENSOR, 0, 0);
	put(TRACE_BEGIN, TENSOR, 99, 1);
	put(TRACE_END, TENSOR, 0, 0);
	put(TRACE_BEGIN, TENSOR, 99, 1);
	put(TRACE_COMPLETE, TENSOR, 0, 0);
	put(TRACE_SUBMITTED, TENSOR, 3, 0);
	put(TRACE_FINISHED, TENSOR, 3, 0);
	put(TRACE_READY, OTHER, 0, 1);
	put(TRACE_COMPLETE, OTHER, 0, 1);
	ok(!points_find(all, n, 1, 4, AHEAD, p) && is(&p[0], 1, 3, 4, 7, 0),
	   "a tensor's points, the first of several plans");
	ok(is(&p[1], 2, 10, 0, 11, 1), "one that the ranks disagree about never begins");
	ok(is(&p[2], 8, 9, 9, 9, 0), "the short way has one point for all of it");
	ok(is(&p[3], 0, 0, 0, 0, 0), "of what has not been started nothing is known");
	ok(!points_find(all, n, 2, 1, AHEAD, p) && is(&p[0], 2, 10, 0, 11, 1),
	   "some numbers only");
	ok(!points_find(all + 1, n - 1, 1, 3, AHEAD, p) && is(&p[0], 0, 0, 0, 0, 0) &&
		   is(&p[2], 8, 9, 9, 9, 0),
	   "what has been overwritten is not mistaken for the next");
	ok(!points_find(all, 0, 1, 1, AHEAD, p) && is(&p[0], 0, 0, 0, 0, 0), "no records");
}

static void test_messages(void)
{
	struct ringup_points p[3];

	n = 0;
	put(TRACE_MESSAGE, 0, -1, 0);
	put(TRACE_MESSAGE, 0, 0, 0);
	put(TRACE_MESSAGE, 0, 1, 0);
	put(TRACE_MATCHED, 0, 0, 0);
	put(TRACE_MOVED, 0, 0, 0);
	put(TRACE_MATCHED, 0, 1, 1);
	put(TRACE_MOVED, 0, 1, 1);
	put(TRACE_MATCHED, 0, -1, 0);
	all[n - 1].rank[0] = -1;
	/* Numbers go on beyond what a record has room for. */
	ok(!points_find(all, n, 0xffffffffu, 3, AHEAD, p) && is(&p[0], 1, 0, 8, 0, 0),
	   "a message that is sent before the other rank is there");
	ok(is(&p[1], 2, 4, 4, 5, 0), "one that is complete, by its number");
	ok(is(&p[2], 3, 6, 0, 7, 1), "one that two ranks disagree about");
}

static void test_anything(void)
{
	struct trace_record r[ALL];
	struct ringup_points p[8];
	uint32_t seed = 1;
	int round, bad = 0;
	size_t i;

	for (round = 0; round < 300; round++) {
		for (i = 0; i < sizeof(r); i++)
			((unsigned char *)r)[i] =
				(unsigned char)((seed = seed * 1664525 + 1013904223) >> 24);
		for (i = 0; i < ALL; i++) {
			r[i].ns &= INT32_MAX;
			r[i].label %= 5;
			r[i].what %= TRACE_MOVED + 2;
			r[i].rank[3] = r[i].rank[3] & 7;
		}
		bad += points_find(r, ALL, 1, 8, 0, p) != 0;
	}
	ok(!bad, "any records are looked through");
}

int main(void)
{
	test_tensors();
	test_messages();
	test_anything();
	return tap_done();
}
