/* test_room.c - a rank without memory for one result fails that operation, and nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringup.h"
#include "tap.h"

#include "nomemory.h"
#include "ranks.h"

/* More than there are addresses; nothing of it is ever touched. */
#define FAR_TOO_MUCH ((uint64_t)1 << 48)

static int as_told[RANKS_MAX], go_on[RANKS_MAX], named[RANKS_MAX];
static unsigned char byte[16];

/* Every rank hears that rank 1 had no room. */
static void count_told(int rc, int rank)
{
	bool is_named = strstr(ringup_error(), "rank 1 has no memory for the result") != NULL;

	as_told[rank] += rc == RINGUP_ENOMEM;
	named[rank] += is_named;
	if (rc != RINGUP_ENOMEM || !is_named)
		printf("# rank %d: %d, %s\n", rank, rc, ringup_error());
}

/* The others say that they have room of their own, with what they bring already in its place.
 */
static struct ringup_gather huge(const char *name, int rank, int size, void **out,
				 uint64_t *counts)
{
	uint64_t rows = FAR_TOO_MUCH / (uint64_t)size;
	uintptr_t room = 1 << 20;

	return (struct ringup_gather){
		.name = name,
		.in = (void *)(room + (uintptr_t)rank * rows),
		.rows = rows,
		.row = 1,
		.dtype = RINGUP_U8,
		.out = out,
		.counts = counts,
		.into = rank == 1 ? NULL : (void *)room,
		.into_bytes = rank == 1 ? 0 : FAR_TOO_MUCH,
	};
}

static void gather(struct ringup_group *g, int rank, int size)
{
	void *out = NULL, *outs[2] = { NULL, NULL };
	uint64_t counts[RANKS_MAX], more[RANKS_MAX];
	struct ringup_gather a = huge("gather", rank, size, &out, counts);
	struct ringup_gather two[2] = { huge("many", rank, size, &outs[0], counts),
					huge("many", rank, size, &outs[1], more) };

	count_told(ringup_allgather(g, &a, NULL), rank);
	two[0].in = byte;
	two[0].rows = 1;
	two[0].into = NULL;
	two[0].into_bytes = 0;
	count_told(ringup_allgather_many(g, two, 2, NULL), rank);
}

static void alltoall(struct ringup_group *g, int rank, int size)
{
	void *out = NULL;
	uint64_t counts[RANKS_MAX], splits[RANKS_MAX] = { 0 };
	struct ringup_exchange a = {
		.name = "alltoall",
		.in = byte,
		.rows = FAR_TOO_MUCH,
		.row = 1,
		.splits = splits,
		.dtype = RINGUP_U8,
		.out = &out,
		.counts = counts,
	};

	/* All that there is goes to rank 1. */
	splits[1] = a.rows;
	(void)size;
	count_told(ringup_alltoall(g, &a, NULL), rank);
}

static void adasum(struct ringup_group *g, int rank)
{
	struct ringup_reduce a = {
		.name = "adasum",
		.in = byte,
		.out = byte,
		.count = FAR_TOO_MUCH,
		.dtype = RINGUP_F32,
		.redop = RINGUP_ADASUM,
	};
	int rc = ringup_allreduce(g, &a, NULL);

	as_told[rank] += rc == RINGUP_ENOMEM;
	named[rank] += strstr(ringup_error(), "has no memory for the result") != NULL;
}

/* A large one that has room, and a small one. */
static bool works(struct ringup_group *g, int rank, int size, uint64_t rows)
{
	unsigned char *mine = malloc(rows), *out = NULL;
	uint64_t counts[RANKS_MAX], i;
	struct ringup_gather a = { .name = "next",
				   .in = mine,
				   .rows = rows,
				   .row = 1,
				   .dtype = RINGUP_U8,
				   .out = (void **)&out,
				   .counts = counts };
	bool good = mine != NULL;

	if (mine)
		memset(mine, rank + 1, rows);
	good = good && !ringup_allgather(g, &a, NULL);
	for (i = 0; good && i < rows * (uint64_t)size; i++)
		good = out[i] == i / rows + 1;
	ringup_free(out);
	free(mine);
	return good;
}

static void body(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);

	gather(g, rank, size);
	alltoall(g, rank, size);
	adasum(g, rank);
	go_on[rank] = works(g, rank, size, 3 << 20) && works(g, rank, size, 5);
	if (!go_on[rank])
		printf("# rank %d: %s\n", rank, ringup_error());
}

static void on(const char *backend)
{
	enum { SIZE = 3, TRIES = 4 };
	int rank, told = 0, names = 0, works_on = 0;

	setenv("RINGUP_BACKEND", backend, 1);
	memset(as_told, 0, sizeof(as_told));
	memset(named, 0, sizeof(named));
	ok(ranks_run(SIZE, body) == 0, "%s: a job of %d ranks", backend, SIZE);
	for (rank = 0; rank < SIZE; rank++) {
		told += as_told[rank];
		names += named[rank];
		works_on += go_on[rank];
	}
	ok(told == SIZE * TRIES, "%s: RINGUP_ENOMEM on all ranks: %d", backend, told);
	ok(names == SIZE * TRIES, "%s: it names the rank: %d", backend, names);
	ok(works_on == SIZE, "%s: the next operations work: %d", backend, works_on);
}

int main(void)
{
	on("node");
	on("tcp");
	return tap_done();
}
