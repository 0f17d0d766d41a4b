/*
 * pipeline.c - pass micro-batches from rank to rank; each rank adds its part.
 *
 *	cc -o pipeline pipeline.c $(pkg-config --cflags --libs ringup)
 *	ringup run -np 3 ./pipeline
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ringup.h>

enum { BATCHES = 4, VALUES = 1000 };

static void must(int rc)
{
	if (rc) {
		fprintf(stderr, "%s: %s\n", ringup_strerror(rc), ringup_error());
		exit(1);
	}
}

int main(void)
{
	static float value[BATCHES][VALUES];
	struct ringup_op *sent[BATCHES];
	struct ringup_group *world;
	struct ringup *job;
	int rank, size, b, i;

	must(ringup_init(NULL, &job));
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);
	for (b = 0; b < BATCHES; b++) {
		struct ringup_recv from = { .out = value[b],
					    .count = VALUES,
					    .dtype = RINGUP_F32,
					    .from = rank - 1,
					    .tag = b };
		struct ringup_send to = { .in = value[b],
					  .count = VALUES,
					  .dtype = RINGUP_F32,
					  .to = rank + 1,
					  .tag = b };

		if (rank > 0)
			must(ringup_recv(world, &from, NULL));
		for (i = 0; i < VALUES; i++)
			value[b][i] += (float)(b + rank);
		/* Send this batch while the next one is computed. */
		if (rank < size - 1)
			must(ringup_send(world, &to, &sent[b]));
		else
			printf("batch %d comes to %g\n", b, (double)value[b][0]);
	}
	for (b = 0; b < BATCHES && rank < size - 1; b++)
		must(ringup_wait(sent[b], -1));
	ringup_fini(job);
	return 0;
}
