/* test_pattern.c - the data show what is wrong: nothing, an element, a rank, a round. */
#include <stdlib.h>
#include <string.h>

#include "bench/pattern.h"
#include "coll/reduce.h"
#include "tap.h"

enum { RANKS = 5, COUNT = 5000 };

static unsigned char in[RANKS][COUNT * 8], out[COUNT * 8];

/* All ranks' data combined by the code under whose arithmetic they will be used. */
static void combine(const struct pattern *p, int ranks)
{
	struct reduce how = { p->dtype, p->redop, (uint32_t)p->ranks, 0 };
	const void *src[RANKS];
	void *dst = out;
	int i;

	for (i = 0; i < ranks; i++) {
		pattern_fill(p, i, in[i], COUNT);
		src[i] = in[i];
	}
	reduce_many(&how, &dst, 1, src, ranks, COUNT);
}

static int is_exact(enum ringup_dtype dtype, enum ringup_redop redop)
{
	struct pattern p = { dtype, redop, RANKS, 0 };
	int good = 1;

	for (; p.iteration < 12; p.iteration++) {
		combine(&p, RANKS);
		good &= pattern_wrong_result(&p, out, COUNT) == 0;
		/* Somebody missing, or the result of another round. */
		if (redop == RINGUP_SUM || redop == RINGUP_AVERAGE) {
			combine(&p, RANKS - 1);
			good &= pattern_wrong_result(&p, out, COUNT) >
				(dtype == RINGUP_BOOL ? COUNT / 11 : COUNT / 2);
		}
		p.iteration++;
		if (redop != RINGUP_PRODUCT || dtype == RINGUP_BOOL) /* always 2 */
			good &= pattern_wrong_result(&p, out, COUNT) > COUNT / 8;
		p.iteration--;
	}
	return good;
}

int main(void)
{
	struct pattern p = { RINGUP_F32, RINGUP_SUM, RANKS, 3 };
	float *f = (void *)out;
	int t, op;

	for (t = 0; t < RINGUP_DTYPE_COUNT; t++)
		for (op = 0; op < REDUCE_OPS; op++) {
			if (t == RINGUP_BOOL && op == RINGUP_AVERAGE)
				continue;
			ok(is_exact((enum ringup_dtype)t, (enum ringup_redop)op), "%s %s",
			   reduce_dtype_name((enum ringup_dtype)t),
			   reduce_redop_name((enum ringup_redop)op));
		}
	pattern_fill(&p, 2, out, COUNT);
	ok(pattern_wrong(&p, 2, out, COUNT) == 0, "a rank's data are its data");
	ok(pattern_wrong(&p, 3, out, COUNT) == COUNT, "and no other's");
	f[17] += 1;
	f[4999] = -f[4999] - 1;
	ok(pattern_wrong(&p, 2, out, COUNT) == 2, "two wrong elements are two");
	ok(pattern_wrong(&p, 2, out + 4, COUNT - 1) > COUNT / 2, "a shift is noticed");
	ok(pattern_wrong(&p, 2, NULL, 0) == 0, "nothing is never wrong");
	return tap_done();
}
