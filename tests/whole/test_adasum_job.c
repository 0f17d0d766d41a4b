/* test_adasum_job.c - what a job's Adasum gives, to the bit, also beside who has joined. */
#include <stdlib.h>
#include <string.h>

#include "coll/adasum.h"
#include "coll/reduce.h"
#include "rounds.h"
#include "tap.h"

#include "ranks.h"

enum { LONG = 300001 / ROUNDS_LESS };

static const enum ringup_dtype types[] = { RINGUP_F16, RINGUP_BF16, RINGUP_F32, RINGUP_F64 };

/* What rank @r has; nothing from @zero on. */
static void fill(enum ringup_dtype t, void *v, int r, int zero, size_t count)
{
	float *f = t == RINGUP_F32 ? v : malloc(count * sizeof(*f));
	uint32_t x = (uint32_t)r * 2654435761u + 1;
	size_t i;

	for (i = 0; i < count; i++) {
		x = x * 1664525u + 1013904223u;
		f[i] = r < zero ? ((float)(x >> 24) - 100) / 128 : 0;
	}
	for (i = 0; t == RINGUP_F64 && i < count; i++)
		((double *)v)[i] = (double)f[i];
	if (reduce_is_half(t))
		reduce_narrow(t, v, f, count);
	if (f != v)
		free(f);
}

/* The same bits as from all vectors at once; those that have joined have zeros. */
static void one_sum(struct ringup_group *g, enum ringup_dtype t, size_t count, int joined)
{
	int size = ringup_size(g), rank = ringup_rank(g), r;
	size_t bytes = count * reduce_dtype_bytes(t);
	unsigned char *all = malloc((size_t)size * bytes), *expected = malloc(bytes);
	unsigned char *in = malloc(bytes), *got = malloc(bytes);
	void *scratch = malloc(adasum_scratch_bytes(t, size, count));
	struct ringup_reduce a = { .name = joined ? "beside" : reduce_dtype_name(t),
				   .in = in,
				   .out = got,
				   .count = count,
				   .dtype = t,
				   .redop = RINGUP_ADASUM };

	for (r = 0; r < size; r++)
		fill(t, all + (size_t)r * bytes, r, size - joined, count);
	fill(t, in, rank, size, count);
	adasum(t, expected, all, size, count, scratch);
	check(!ringup_allreduce(g, &a, NULL), "Adasum", rank);
	check(!memcmp(got, expected, bytes), "its bits", rank);
	free(all);
	free(expected);
	free(in);
	free(got);
	free(scratch);
}

static void by_a_job(struct ringup *r, int rank, int size)
{
	static const size_t counts[] = { 1, 7, 1000, LONG };
	struct ringup_group *g = ringup_world(r);
	size_t k, i;
	int last;

	for (k = 0; k < sizeof(types) / sizeof(types[0]); k++)
		for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
			one_sum(g, types[k], counts[i], 0);
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]) && rank < size - 1; i++)
		one_sum(g, RINGUP_F32, counts[i], size > 1);
	check(!ringup_join(g, &last, NULL), "join", rank);
}

int main(void)
{
	int n;

	for (n = 1; n <= 5; n++)
		run("Adasum", n, by_a_job);
	setenv("RINGUP_BACKEND", "tcp", 1);
	for (n = 2; n <= 4; n++)
		run("hosts: Adasum", n, by_a_job);
	return tap_done();
}
