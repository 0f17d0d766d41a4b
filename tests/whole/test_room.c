/* test_room.c - a rank without memory for one result fails that operation, and nothing else. */
/* tests: src/engine/plan.c src/engine/op.c src/engine/execute.c */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringup.h"
#include "tap.h"

#include "asks.h"
#include "nomemory.h"
#include "ranks.h"

/* More than there are addresses; nothing of it is ever touched. */
#define FAR_TOO_MUCH ((uint64_t)1 << 48)

/* The bytes of a small result; nothing else here is of that size. */
enum { SMALL = 3 * 33333, LONELY = 77777 };

/* The next malloc() of so many bytes finds no memory; 0: none does. */
static size_t refused;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	size_t size = bytes;

	return size && __atomic_compare_exchange_n(&refused, &size, 0, false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST)
		       ? NULL
		       : __real_malloc(bytes);
}

static pthread_barrier_t step;
static int lacked, given;

static int as_told[RANKS_MAX], go_on[RANKS_MAX], named[RANKS_MAX];
static unsigned char byte[16];

/* Every rank hears that rank 1 had no room. */
static void count_told(int rc, int rank)
{
	bool is_named =
		strstr(ringup_error(), "rank 1 is out of memory for the result") != NULL;

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

	return (struct ringup_gather)ASK_GATHER(name, (void *)(room + (uintptr_t)rank * rows),
						rows, 1, out, counts, .dtype = RINGUP_U8,
						.into = rank == 1 ? NULL : (void *)room,
						.into_bytes = rank == 1 ? 0 : FAR_TOO_MUCH);
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
	struct ringup_exchange a = ASK_EXCHANGE("alltoall", byte, FAR_TOO_MUCH, 1, &out, counts,
						.dtype = RINGUP_U8, .splits = splits);

	/* All that there is goes to rank 1. */
	splits[1] = a.rows;
	(void)size;
	count_told(ringup_alltoall(g, &a, NULL), rank);
}

static void adasum(struct ringup_group *g, int rank)
{
	struct ringup_reduce a = ASK_REDUCE("adasum", byte, byte, FAR_TOO_MUCH,
					    .dtype = RINGUP_F32, .redop = RINGUP_ADASUM);
	int rc = ringup_allreduce(g, &a, NULL);

	as_told[rank] += rc == RINGUP_ENOMEM;
	named[rank] += strstr(ringup_error(), "is out of memory for the result") != NULL;
}

/* A gather of @rows bytes from each rank. */
static struct ringup_gather bytes_of(const char *name, const void *in, uint64_t rows,
				     unsigned char **out, uint64_t *counts)
{
	return (struct ringup_gather)ASK_GATHER(name, in, rows, 1, (void **)out, counts,
						.dtype = RINGUP_U8);
}

/* A large one that has room, and a small one. */
static bool works(struct ringup_group *g, int rank, int size, uint64_t rows)
{
	unsigned char *mine = malloc(rows), *out = NULL;
	uint64_t counts[RANKS_MAX], i;
	struct ringup_gather a = bytes_of("next", mine, rows, &out, counts);
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

/* One rank of all has no memory: it hears so, and the others have their results. */
static void count_lack(int rc, int rank, bool good)
{
	char own[64];

	snprintf(own, sizeof(own), "rank %d is out of memory for the result", rank);
	if (rc == RINGUP_ENOMEM && strstr(ringup_error(), own))
		__atomic_fetch_add(&lacked, 1, __ATOMIC_RELAXED);
	else if (!rc && good)
		__atomic_fetch_add(&given, 1, __ATOMIC_RELAXED);
	else
		printf("# rank %d: %d, %s\n", rank, rc, ringup_error());
}

static void refuse(int rank, size_t bytes)
{
	pthread_barrier_wait(&step);
	if (!rank)
		__atomic_store_n(&refused, bytes, __ATOMIC_SEQ_CST);
	pthread_barrier_wait(&step);
}

static bool are_all(const unsigned char *out, uint64_t count, int size)
{
	uint64_t i;

	for (i = 0; i < count * (uint64_t)size; i++)
		if (out[i] != i / count + 1)
			return false;
	return true;
}

static void small_gather(struct ringup_group *g, int rank, int size)
{
	uint64_t rows = SMALL / (uint64_t)size, counts[RANKS_MAX], more[RANKS_MAX];
	unsigned char *mine = calloc(1, rows), *out = NULL, *outs[2] = { NULL, NULL };
	struct ringup_gather a = bytes_of("small", mine, rows, &out, counts);
	struct ringup_gather two[2] = { a, a };
	int rc;

	memset(mine, rank + 1, rows);
	refuse(rank, SMALL);
	rc = ringup_allgather(g, &a, NULL);
	count_lack(rc, rank, !rc && are_all(out, rows, size));
	ringup_free(out);
	two[0].rows = 1;
	two[0].out = (void **)&outs[0];
	two[1].out = (void **)&outs[1];
	two[1].counts = more;
	refuse(rank, SMALL);
	rc = ringup_allgather_many(g, two, 2, NULL);
	count_lack(rc, rank, !rc && are_all(outs[0], 1, size) && are_all(outs[1], rows, size));
	ringup_free(outs[0]);
	ringup_free(outs[1]);
	free(mine);
}

static void small_exchange(struct ringup_group *g, int rank, int size)
{
	uint64_t rows = SMALL / (uint64_t)size, counts[RANKS_MAX], splits[RANKS_MAX];
	unsigned char *mine = calloc(1, SMALL), *out = NULL;
	struct ringup_exchange a = ASK_EXCHANGE("small exchange", mine, SMALL, 1, (void **)&out,
						counts, .dtype = RINGUP_U8, .splits = splits);
	int rc, i;

	memset(mine, rank + 1, SMALL);
	for (i = 0; i < size; i++)
		splits[i] = rows;
	refuse(rank, SMALL);
	rc = ringup_alltoall(g, &a, NULL);
	count_lack(rc, rank, !rc && are_all(out, rows, size));
	ringup_free(out);
	free(mine);
}

static void small_adasum(struct ringup_group *g, int rank, int size)
{
	uint64_t count = SMALL / (uint64_t)size / sizeof(float), i;
	float *mine = calloc(count, sizeof(*mine));
	struct ringup_reduce a = ASK_REDUCE("small adasum", mine, mine, count,
					    .dtype = RINGUP_F32, .redop = RINGUP_ADASUM);
	bool good = true;
	int rc;

	for (i = 0; i < count; i++)
		mine[i] = 1;
	refuse(rank, count * sizeof(*mine) * (uint64_t)size);
	rc = ringup_allreduce(g, &a, NULL);
	/* Of equal vectors it is the mean. */
	for (i = 0; i < count; i++)
		good = good && mine[i] == 1;
	count_lack(rc, rank, good);
	free(mine);
}

/* Rank 1 has no memory to begin with, so no rank has heard of its operation: it asks again. */
static bool small_to_root(struct ringup_group *g, int rank, int size)
{
	unsigned char *mine = calloc(1, SMALL), *sum = calloc(1, SMALL);
	struct ringup_reduce a =
		ASK_REDUCE("small to root", mine, sum, SMALL, .dtype = RINGUP_U8);
	bool good;

	memset(mine, rank + 1, SMALL);
	refuse(rank, SMALL);
	good = rank != 1 || ringup_reduce_to(g, &a, 0, NULL) == RINGUP_ENOMEM;
	pthread_barrier_wait(&step);
	good = good && !ringup_reduce_to(g, &a, 0, NULL) &&
	       (rank || sum[SMALL - 1] == size * (size + 1) / 2);
	free(sum);
	free(mine);
	return good;
}

static void small(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);

	small_gather(g, rank, size);
	small_exchange(g, rank, size);
	small_adasum(g, rank, size);
	go_on[rank] = small_to_root(g, rank, size) && works(g, rank, size, 3 << 20) &&
		      works(g, rank, size, 5000);
	if (!go_on[rank])
		printf("# rank %d: %s\n", rank, ringup_error());
}

/* Nobody else has a result if the job has one rank. */
static void lonely(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	unsigned char *mine = calloc(1, LONELY), *out = NULL;
	uint64_t counts[1];
	struct ringup_gather a = bytes_of("lonely", mine, LONELY, &out, counts);
	int rc;

	refuse(rank, LONELY);
	rc = ringup_allgather(g, &a, NULL);
	count_lack(rc, rank, !rc);
	go_on[rank] = works(g, rank, size, 5000);
	free(mine);
}

static void on_small(const char *backend, void (*what)(struct ringup *, int, int), int size,
		     int tries)
{
	int rank, works_on = 0;

	setenv("RINGUP_BACKEND", backend, 1);
	memset(go_on, 0, sizeof(go_on));
	lacked = given = 0;
	pthread_barrier_init(&step, NULL, (unsigned int)size);
	ok(ranks_run(size, what) == 0, "%s: a job of %d ranks with small results", backend,
	   size);
	pthread_barrier_destroy(&step);
	for (rank = 0; rank < size; rank++)
		works_on += go_on[rank];
	ok(lacked == tries && given == tries * (size - 1),
	   "%s: one of %d ranks fails, %d times: %d, and %d results", backend, size, tries,
	   lacked, given);
	ok(works_on == size, "%s: the next operations work: %d", backend, works_on);
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
	on_small("node", small, 3, 4);
	on_small("tcp", small, 3, 4);
	on_small("self", lonely, 1, 1);
	return tap_done();
}
