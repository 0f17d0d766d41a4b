/*
 * gather.c - rank 0 broadcasts a seed, and then the ranks gather the results of all.
 *
 *	cc -o gather gather.c $(pkg-config --cflags --libs ringup)
 *	ringup run -np 3 ./gather
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ringup.h>

static void must(int rc)
{
	if (rc) {
		fprintf(stderr, "%s: %s\n", ringup_strerror(rc), ringup_error());
		exit(1);
	}
}

int main(void)
{
	struct ringup_bcast b = { 0 };
	struct ringup_gather g = { 0 };
	struct ringup_group *world;
	struct ringup *job;
	int64_t seed = 0, *mine, *all = NULL;
	uint64_t *counts, i, at = 0;
	int rank, size, r;

	must(ringup_init(NULL, &job));
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);

	if (rank == 0)
		seed = 42;
	b.name = "seed";
	b.in = &seed;
	b.out = &seed;
	b.count = 1;
	b.dtype = RINGUP_I64;
	must(ringup_broadcast(world, &b, NULL)); /* NULL: wait for the result */

	/* Rank r has r + 1 numbers: the ranks' blocks may differ in length. */
	mine = malloc(((size_t)rank + 1) * sizeof(*mine));
	counts = malloc((size_t)size * sizeof(*counts));
	if (!mine || !counts)
		return 1;
	for (i = 0; i <= (uint64_t)rank; i++)
		mine[i] = seed + 10 * rank + (int64_t)i;
	g.name = "found";
	g.in = mine;
	g.rows = (uint64_t)rank + 1;
	g.row = 1;
	g.dtype = RINGUP_I64;
	g.out = (void **)&all;
	g.counts = counts;
	must(ringup_allgather(world, &g, NULL));

	for (r = 0; rank == 0 && r < size; r++) {
		printf("from rank %d:", r);
		for (i = 0; i < counts[r]; i++)
			printf(" %lld", (long long)all[at++]);
		printf("\n");
	}
	ringup_free(all);
	free(counts);
	free(mine);
	ringup_fini(job);
	return 0;
}
