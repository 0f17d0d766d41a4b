/*
 * together.c - gather a sparse gradient, the indices of rows and their values, as one atomic
 * group of operations.
 *
 *	cc -o together together.c $(pkg-config --cflags --libs ringup)
 *	ringup run -np 3 ./together
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
	struct ringup_gather g[2] = { { .bytes = sizeof(g[0]) }, { .bytes = sizeof(g[1]) } };
	struct ringup_group *world;
	struct ringup *job;
	void *indices = NULL, *values = NULL;
	uint64_t *counts, n = 0, i;
	int64_t index[2];
	float value[2];
	int rank, r;

	must(ringup_init(NULL, &job));
	world = ringup_world(job);
	rank = ringup_rank(world);
	counts = calloc(2 * (size_t)ringup_size(world), sizeof(*counts));
	if (!counts)
		return 1;
	index[0] = rank;
	index[1] = 100 + rank;
	value[0] = 0.5F;
	value[1] = (float)rank;

	/* The name of the first operation names the group; the types may differ. */
	g[0].name = "embedding";
	g[0].in = index;
	g[0].dtype = RINGUP_I64;
	g[0].out = &indices;
	g[0].counts = counts;
	g[1].in = value;
	g[1].dtype = RINGUP_F32;
	g[1].out = &values;
	g[1].counts = counts + ringup_size(world);
	g[0].rows = g[1].rows = 1 + (uint64_t)rank % 2;
	g[0].row = g[1].row = 1;
	must(ringup_allgather_many(world, g, 2, NULL));

	for (r = 0; r < ringup_size(world); r++)
		n += counts[r];
	for (i = 0; rank == 0 && i < n; i++)
		printf("row %lld changes by %g\n", (long long)((int64_t *)indices)[i],
		       (double)((float *)values)[i]);
	ringup_free(indices);
	ringup_free(values);
	free(counts);
	ringup_fini(job);
	return 0;
}
