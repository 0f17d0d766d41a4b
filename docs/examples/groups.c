/*
 * groups.c - sum over the even ranks in one group, and over the odd ranks in another.
 *
 *	cc -o groups groups.c $(pkg-config --cflags --libs ringup)
 *	ringup run -np 4 ./groups
 */
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
	struct ringup_group *half[2] = { NULL, NULL }, *ours;
	struct ringup_reduce s = { 0 };
	struct ringup *job;
	int rank, size, *ranks, i, n;
	double v;

	must(ringup_init(NULL, &job));
	rank = ringup_rank(ringup_world(job));
	size = ringup_size(ringup_world(job));
	ranks = malloc((size_t)size * sizeof(*ranks));
	if (!ranks)
		return 1;
	/* Every rank adds every group, including groups that do not contain it. */
	for (i = 0; i < 2 && i < size; i++) {
		for (n = 0; i + 2 * n < size; n++)
			ranks[n] = i + 2 * n;
		must(ringup_group_add(job, ranks, n, &half[i]));
	}

	ours = half[rank % 2];
	v = rank;
	s.name = "sum";
	s.in = &v;
	s.out = &v;
	s.count = 1;
	s.dtype = RINGUP_F64;
	s.redop = RINGUP_SUM;
	must(ringup_allreduce(ours, &s, NULL));
	printf("rank %d is %d of %d in its group: %g\n", rank, ringup_rank(ours),
	       ringup_size(ours), v);

	for (i = 0; i < 2; i++)
		if (half[i])
			must(ringup_group_remove(half[i]));
	free(ranks);
	ringup_fini(job);
	return 0;
}
