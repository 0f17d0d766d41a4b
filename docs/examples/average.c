/*
 * average.c - average the gradients of all ranks.
 *
 *	cc -o average average.c $(pkg-config --cflags --libs ringup)
 *	ringup run -np 4 ./average
 */
#include <stdio.h>
#include <stdlib.h>

#include <ringup.h>

enum { LAYERS = 3, COUNT = 1000 };

static void must(int rc)
{
	if (rc) {
		fprintf(stderr, "%s: %s\n", ringup_strerror(rc), ringup_error());
		exit(1);
	}
}

int main(void)
{
	static float gradient[LAYERS][COUNT];
	static const char *const name[LAYERS] = { "conv", "norm", "dense" };
	struct ringup_op *op[LAYERS];
	struct ringup_group *world;
	struct ringup *job;
	int i, k, rank;

	must(ringup_init(NULL, &job));
	world = ringup_world(job);
	rank = ringup_rank(world);
	for (i = 0; i < LAYERS; i++)
		for (k = 0; k < COUNT; k++)
			gradient[i][k] = (float)(rank + i);

	/* Start each as soon as it is ready; the order may differ between ranks. */
	for (k = 0; k < LAYERS; k++) {
		struct ringup_reduce r = { 0 };

		i = (k + rank) % LAYERS;
		r.name = name[i];
		r.in = gradient[i];
		r.out = gradient[i];
		r.count = COUNT;
		r.dtype = RINGUP_F32;
		r.redop = RINGUP_AVERAGE;
		must(ringup_allreduce(world, &r, &op[i]));
	}
	for (i = 0; i < LAYERS; i++)
		must(ringup_wait(op[i], -1));

	printf("rank %d of %d: %g %g %g\n", rank, ringup_size(world), (double)gradient[0][0],
	       (double)gradient[1][0], (double)gradient[2][COUNT - 1]);
	ringup_fini(job);
	return 0;
}
