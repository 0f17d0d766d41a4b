/* test_pattern.c - the data show what is wrong: nothing, an element, a rank, a round. */
#include <stdlib.h>
#include <string.h>

#include "base/kinds.h"
#include "bench/pattern.h"
#include "coll/adasum.h"
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

/* The same for Adasum, which takes whole vectors; of some ranks' the last may be all zeros. */
static int adasum_is_exact(enum ringup_dtype dtype)
{
	struct pattern p = { dtype, RINGUP_ADASUM, RANKS, 0 };
	size_t size = reduce_dtype_bytes(dtype);
	static const int counts[] = { 1, RANKS - 1, COUNT };
	unsigned char *all = malloc(RANKS * COUNT * size);
	void *scratch = malloc(adasum_scratch_bytes(dtype, RANKS, COUNT));
	int good = all && scratch, i, k, n;

	for (; p.iteration < 12 && good; p.iteration++)
		for (k = 0; k < 3; k++) {
			n = counts[k];
			for (i = 0; i < RANKS; i++)
				pattern_fill(&p, i, all + (size_t)(i * n) * size, (uint64_t)n);
			adasum(dtype, out, all, RANKS, (uint64_t)n, scratch);
			good &= pattern_wrong_result(&p, out, (uint64_t)n) == 0;
			/* Somebody missing. */
			adasum(dtype, out, all, RANKS - 1, (uint64_t)n, scratch);
			good &= n < COUNT ||
				pattern_wrong_result(&p, out, COUNT) > COUNT / (RANKS + 1);
		}
	free(all);
	free(scratch);
	return good;
}

int main(void)
{
	struct pattern p = { RINGUP_F32, RINGUP_SUM, RANKS, 3 };
	float *f = (void *)out;
	int t, op;

	for (t = 0; t < DTYPE_COUNT; t++)
		for (op = 0; op < REDUCE_OPS; op++) {
			if (t == RINGUP_BOOL && op == RINGUP_AVERAGE)
				continue;
			ok(is_exact((enum ringup_dtype)t, (enum ringup_redop)op), "%s %s",
			   reduce_dtype_name((enum ringup_dtype)t),
			   reduce_redop_name((enum ringup_redop)op));
		}
	for (t = RINGUP_F16; t <= RINGUP_F64; t++)
		ok(adasum_is_exact((enum ringup_dtype)t), "%s adasum",
		   reduce_dtype_name((enum ringup_dtype)t));
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
