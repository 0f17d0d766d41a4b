/*
 * route.c - count numbers by residue: rank r gets all numbers with residue r, and counts them.
 *
 *	cc -o route route.c $(pkg-config --cflags --libs ringup)
 *	ringup run -np 3 ./route
 */
#include <stdio.h>
#include <stdlib.h>

#include <ringup.h>

enum { NUMBERS = 20 };

static void must(int rc)
{
	if (rc) {
		fprintf(stderr, "%s: %s\n", ringup_strerror(rc), ringup_error());
		exit(1);
	}
}

int main(void)
{
	struct ringup_exchange x = { 0 };
	struct ringup_scatter s = { 0 };
	uint64_t *splits, *counts, total = 0, all[NUMBERS] = { 0 }, part[NUMBERS];
	int32_t send[NUMBERS], *got = NULL;
	struct ringup_group *world;
	struct ringup *job;
	int rank, size, q, i, n = 0;

	must(ringup_init(NULL, &job));
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);
	splits = calloc((size_t)size, sizeof(*splits));
	counts = calloc((size_t)size, sizeof(*counts));
	if (!splits || !counts)
		return 1;

	/* First the numbers for rank 0, then those for rank 1 ...; splits has their counts. */
	for (q = 0; q < size; q++)
		for (i = rank; i < NUMBERS; i++)
			if (i % size == q) {
				send[n++] = i;
				splits[q]++;
			}
	x.name = "route";
	x.in = send;
	x.rows = (uint64_t)n;
	x.row = 1;
	x.splits = splits;
	x.dtype = RINGUP_I32;
	x.out = (void **)&got;
	x.counts = counts;
	must(ringup_alltoall(world, &x, NULL));
	for (q = 0; q < size; q++)
		total += counts[q];
	printf("rank %d has been sent %llu numbers, the first by rank 0: %d\n", rank,
	       (unsigned long long)total, counts[0] ? (int)got[0] : -1);

	/* Sum the counts over all ranks; each rank gets a part of the sums. */
	for (i = 0; i < (int)total; i++)
		all[got[i]]++;
	s.name = "often";
	s.in = all;
	s.rows = NUMBERS;
	s.row = 1;
	s.out = part;
	s.dtype = RINGUP_I64;
	s.redop = RINGUP_SUM;
	must(ringup_reducescatter(world, &s, NULL));
	printf("the first number of rank %d's part was sent %llu times\n", rank,
	       (unsigned long long)part[0]);

	ringup_free(got);
	free(splits);
	free(counts);
	ringup_fini(job);
	return 0;
}
