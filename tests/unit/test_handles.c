/* test_handles.c - each handle leads to its run, once; any other number leads nowhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/handles.h"
#include "tap.h"

enum { RUNS = 200 };

static int dropped;

static void drop(struct collective_run *run)
{
	dropped += run != NULL;
}

int main(void)
{
	struct collective_run *runs[RUNS], *again;
	int64_t handles[RUNS], old;
	int i, good = 1, different = 1;

	for (i = 0; i < RUNS; i++) {
		runs[i] = handles_borrow();
		handles[i] = runs[i] ? handles_put(runs[i]) : 0;
		good = good && handles[i] > 0;
		different = different &&
			    (!i || (runs[i] != runs[i - 1] && handles[i] != handles[i - 1]));
	}
	ok(good, "more handles than the first table has room for");
	ok(different, "each is another one");
	for (i = RUNS - 1; i >= 0; i--)
		good = good && handles_take(handles[i]) == runs[i];
	ok(good, "each leads to its run, in any order");
	ok(!handles_take(handles[0]), "but once");
	old = handles[7];
	handles[7] = handles_put(runs[7]);
	ok(!handles_take(old), "not when its place is taken again");
	ok(handles_take(handles[7]) == runs[7], "where the new one is");
	ok(!handles_take(0) && !handles_take(-1) && !handles_take(INT64_MAX) &&
		   !handles_take(1),
	   "numbers that are no handles lead nowhere");
	handles_return(runs[0]);
	again = handles_borrow();
	ok(again == runs[0], "a run that is returned is used again");
	for (i = 0; i < RUNS; i++)
		good = good && handles_put(runs[i]) > 0;
	handles_drop(drop);
	ok(good && dropped == RUNS, "all that were not taken are dropped");
	ok(!handles_take(handles[0]), "and not there any more");
	for (i = 0, good = 1; i < RUNS; i++)
		good = good && (runs[i] = handles_borrow());
	ok(good, "they can be used again");
	for (i = 0; i < RUNS; i++)
		handles_return(runs[i]);
	return tap_done();
}
