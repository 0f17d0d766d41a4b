/*
 * uneven.c - ranks have different amounts of data; a rank that has none left joins.
 *
 *	cc -o uneven uneven.c $(pkg-config --cflags --libs ringup)
 *	ringup run -np 3 ./uneven
 */
#include <stdio.h>
#include <stdlib.h>

#include <ringup.h>

enum { COUNT = 100000 };

static void must(int rc)
{
	if (rc) {
		fprintf(stderr, "%s: %s\n", ringup_strerror(rc), ringup_error());
		exit(1);
	}
}

int main(void)
{
	struct ringup_reduce r = { 0 };
	struct ringup_group *world;
	struct ringup *job;
	float *gradient;
	int i, rank, step, last;

	must(ringup_init(NULL, &job));
	world = ringup_world(job);
	rank = ringup_rank(world);
	/* Memory that the other ranks of this host can map, so the sum needs no copies. */
	gradient = ringup_alloc(COUNT * sizeof(*gradient));
	if (!gradient)
		return 1;

	r.name = "gradient";
	r.in = gradient;
	r.out = gradient;
	r.count = COUNT;
	r.dtype = RINGUP_F32;
	r.redop = RINGUP_SUM;
	for (step = 0; step <= rank; step++) {
		for (i = 0; i < COUNT; i++)
			gradient[i] = 1;
		must(ringup_allreduce(world, &r, NULL));
		/* Ranks that have joined contribute zeros. */
		printf("rank %d, step %d: %g\n", rank, step, (double)gradient[COUNT - 1]);
	}
	must(ringup_join(world, &last, NULL));
	printf("rank %d: rank %d was the last\n", rank, last);

	ringup_free(gradient);
	ringup_fini(job);
	return 0;
}
