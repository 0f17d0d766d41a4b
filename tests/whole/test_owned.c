/* test_owned.c - after a failed operation its memory is the caller's, whole and not freed. */
/* tests: src/engine/op.c src/engine/plan.c src/engine/execute.c src/engine/p2p.c
 * src/engine/p2p_match.c src/api */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringup.h"
#include "tap.h"

#include "asks.h"
#include "ranks.h"

/*
 * Each piece of memory that an operation gets is a block of malloc() of just its size.  The
 * operation fails, in each of these ways; then every byte is written and every block freed, so
 * that a sanitizer, or malloc() itself, sees what the library has freed or still writes to.
 */
enum way {
	NEVER,    /* rank 1 never submits, and aborts the job            */
	UNDERWAY, /* it submits, and aborts the job at once              */
	LEAVES,   /* it submits nothing, and leaves the job              */
	DIFFERS,  /* its tensor has another type: that operation alone fails */
	WAYS,
};
static const char *const ways[] = { "a rank aborts", "a rank aborts under way", "a rank leaves",
				    "the ranks disagree" };

enum { ROW = 3, TAG = 7 };

/* Rows of each rank; from 64 KiB on data take other paths. */
static uint64_t rows;

enum { BLOCKS = 24 };
struct memory {
	void *block[BLOCKS];
	size_t bytes[BLOCKS];
	int count;
};

static void *memory_get(struct memory *m, size_t bytes)
{
	void *at = malloc(bytes ? bytes : 1);

	if (at)
		memset(at, 1, bytes);
	m->block[m->count] = at;
	m->bytes[m->count++] = bytes;
	return at;
}

static void memory_free(struct memory *m)
{
	while (m->count) {
		m->count--;
		memset(m->block[m->count], 0xee, m->bytes[m->count]);
		free(m->block[m->count]);
	}
}

struct asked {
	struct ringup_group *g;
	struct memory memory;
	int rank, size;
	enum ringup_dtype dtype;
	void **out; /* where results of the library's own go */
};

static size_t bytes_of(uint64_t of)
{
	return (size_t)of * ROW * sizeof(double);
}

static void *some(struct asked *k, uint64_t of)
{
	return memory_get(&k->memory, bytes_of(of));
}

static char *name_of(struct asked *k, const char *name)
{
	return strcpy(memory_get(&k->memory, strlen(name) + 1), name);
}

static struct ringup_reduce reduce_of(struct asked *k, const char *name)
{
	return (struct ringup_reduce)ASK_REDUCE(name_of(k, name), some(k, rows), some(k, rows),
						rows * ROW, .dtype = k->dtype);
}

static struct ringup_gather gather_of(struct asked *k, const char *name, bool into)
{
	uint64_t all = rows * (uint64_t)k->size;

	return (struct ringup_gather)ASK_GATHER(
		name_of(k, name), some(k, rows), rows, ROW,
		memory_get(&k->memory, sizeof(void *)),
		memory_get(&k->memory, sizeof(uint64_t) * (size_t)k->size), .dtype = k->dtype,
		.into = into ? some(k, all) : NULL, .into_bytes = into ? bytes_of(all) : 0);
}

static struct ringup_exchange exchange_of(struct asked *k, const char *name, bool into)
{
	uint64_t *splits = memory_get(&k->memory, sizeof(uint64_t) * (size_t)k->size);

	for (int i = 0; i < k->size; i++)
		splits[i] = rows;
	return (struct ringup_exchange)ASK_EXCHANGE(
		name_of(k, name), some(k, rows * (uint64_t)k->size), rows * (uint64_t)k->size,
		ROW, memory_get(&k->memory, sizeof(void *)),
		memory_get(&k->memory, sizeof(uint64_t) * (size_t)k->size), .dtype = k->dtype,
		.splits = splits, .into = into ? some(k, rows * (uint64_t)k->size) : NULL,
		.into_bytes = into ? bytes_of(rows * (uint64_t)k->size) : 0);
}

static struct ringup_scatter scatter_of(struct asked *k, const char *name)
{
	return (struct ringup_scatter)ASK_SCATTER(
		name_of(k, name), some(k, rows * (uint64_t)k->size), rows * (uint64_t)k->size,
		ROW, some(k, rows), .dtype = k->dtype);
}

/* ---- each public operation ---- */

static int allreduce(struct asked *k, struct ringup_op **op)
{
	struct ringup_reduce a = reduce_of(k, "sum");

	return ringup_allreduce(k->g, &a, op);
}

static int within(struct asked *k, struct ringup_op **op)
{
	struct ringup_reduce a = reduce_of(k, "within");

	return ringup_allreduce_within(k->g, &a, 100000, op);
}

static int adasum(struct asked *k, struct ringup_op **op)
{
	struct ringup_reduce a = reduce_of(k, "adasum");

	a.redop = RINGUP_ADASUM;
	return ringup_allreduce(k->g, &a, op);
}

static int reduce_to(struct asked *k, struct ringup_op **op)
{
	struct ringup_reduce a = reduce_of(k, "reduce to");

	return ringup_reduce_to(k->g, &a, 0, op);
}

static int broadcast(struct asked *k, struct ringup_op **op)
{
	struct ringup_bcast a = ASK_BCAST(name_of(k, "broadcast"), some(k, rows), some(k, rows),
					  rows * ROW, .dtype = k->dtype);

	return ringup_broadcast(k->g, &a, op);
}

static int allgather(struct asked *k, struct ringup_op **op)
{
	struct ringup_gather a = gather_of(k, "gather", false);

	k->out = a.out;
	return ringup_allgather(k->g, &a, op);
}

static int allgather_into(struct asked *k, struct ringup_op **op)
{
	struct ringup_gather a = gather_of(k, "gather into", true);

	return ringup_allgather(k->g, &a, op);
}

static int gather_to(struct asked *k, struct ringup_op **op)
{
	struct ringup_gather a = gather_of(k, "gather to", true);

	return ringup_gather_to(k->g, &a, 0, op);
}

static int alltoall(struct asked *k, struct ringup_op **op)
{
	struct ringup_exchange a = exchange_of(k, "exchange", false);

	k->out = a.out;
	return ringup_alltoall(k->g, &a, op);
}

static int alltoall_into(struct asked *k, struct ringup_op **op)
{
	struct ringup_exchange a = exchange_of(k, "exchange into", true);

	return ringup_alltoall(k->g, &a, op);
}

static int scatter_from(struct asked *k, struct ringup_op **op)
{
	struct ringup_exchange a = exchange_of(k, "scatter from", true);

	return ringup_scatter_from(k->g, &a, 0, op);
}

static int reducescatter(struct asked *k, struct ringup_op **op)
{
	struct ringup_scatter a = scatter_of(k, "reduce-scatter");

	return ringup_reducescatter(k->g, &a, op);
}

/* The array of members is the caller's when the call returns. */
static int allreduce_many(struct asked *k, struct ringup_op **op)
{
	struct ringup_reduce *a = malloc(3 * sizeof(*a));
	int rc;

	for (int i = 0; i < 3; i++)
		a[i] = reduce_of(k, "many");
	rc = ringup_allreduce_many(k->g, a, 3, op);
	free(a);
	return rc;
}

static int allgather_many(struct asked *k, struct ringup_op **op)
{
	struct ringup_gather *a = malloc(2 * sizeof(*a));
	int rc;

	for (int i = 0; i < 2; i++)
		a[i] = gather_of(k, "gather many", i);
	rc = ringup_allgather_many(k->g, a, 2, op);
	free(a);
	return rc;
}

static int reducescatter_many(struct asked *k, struct ringup_op **op)
{
	struct ringup_scatter *a = malloc(2 * sizeof(*a));
	int rc;

	for (int i = 0; i < 2; i++)
		a[i] = scatter_of(k, "reduce-scatter many");
	rc = ringup_reducescatter_many(k->g, a, 2, op);
	free(a);
	return rc;
}

static int receive(struct asked *k, struct ringup_op **op)
{
	struct ringup_recv a = { .out = some(k, rows),
				 .count = rows * ROW,
				 .dtype = k->dtype,
				 .from = 1,
				 .tag = TAG,
				 .source = memory_get(&k->memory, sizeof(int)) };
	struct ringup_send b = {
		.in = some(k, rows), .count = rows * ROW, .dtype = k->dtype, .tag = TAG
	};

	return k->rank == 1 ? ringup_send(k->g, &b, op) : ringup_recv(k->g, &a, op);
}

static int join(struct asked *k, struct ringup_op **op)
{
	return ringup_join(k->g, memory_get(&k->memory, sizeof(int)), op);
}

static int barrier(struct asked *k, struct ringup_op **op)
{
	return ringup_barrier(k->g, name_of(k, "barrier"), op);
}

static const struct {
	const char *name;
	int (*submit)(struct asked *k, struct ringup_op **op);
	bool has_type, rank_leaves; /* may its ranks disagree; does a leaving rank end it */
} all[] = {
	{ "allreduce", allreduce, true, true },
	{ "allreduce_within", within, true, true },
	{ "Adasum", adasum, true, true },
	{ "reduce_to", reduce_to, true, true },
	{ "broadcast", broadcast, true, true },
	{ "allgather", allgather, true, true },
	{ "allgather, into", allgather_into, true, true },
	{ "gather_to, into", gather_to, true, true },
	{ "alltoall", alltoall, true, true },
	{ "alltoall, into", alltoall_into, true, true },
	{ "scatter_from, into", scatter_from, true, true },
	{ "reducescatter", reducescatter, true, true },
	{ "allreduce_many", allreduce_many, true, true },
	{ "allgather_many", allgather_many, true, true },
	{ "reducescatter_many", reducescatter_many, true, true },
	{ "recv", receive, false, false },
	{ "join", join, false, true },
	{ "barrier", barrier, false, true },
};

static enum way way;
static size_t which;

/* What the library has allocated is the caller's only after a success. */
static int finish(struct asked *k, struct ringup_op *op, int rc)
{
	if (op)
		rc = ringup_wait(op, -1);
	if (!rc && k->out)
		ringup_free(*k->out);
	memory_free(&k->memory);
	return rc;
}

static void body(struct ringup *r, int rank, int size)
{
	struct asked k = { ringup_world(r), { .count = 0 }, rank, size, RINGUP_F64, NULL };
	struct ringup_op *op = NULL;
	int rc = 0;

	if (rank == 1 && way == LEAVES)
		return;
	if (rank == 1 && way == DIFFERS)
		k.dtype = RINGUP_F32;
	if (rank != 1 || way != NEVER)
		rc = all[which].submit(&k, &op);
	if (rank == 1 && way <= UNDERWAY)
		ringup_abort(r, "enough");
	rc = finish(&k, op, rc);
	if (way == DIFFERS) {
		check(rc == RINGUP_EMISMATCH, "disagrees", rank);
		check(!ringup_barrier(ringup_world(r), "after", NULL), "goes on", rank);
	} else if (way != UNDERWAY && rank != 1) {
		check(rc < 0, "fails", rank);
	}
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;

	for (rows = 2; rows < 100000; rows *= 1500)
		for (int tcp = 0; tcp < 2; tcp++)
			for (way = 0; way < WAYS; way++) {
				alarm(200);
				wrong = 0;
				if (tcp)
					setenv("RINGUP_BACKEND", "tcp", 1);
				else
					unsetenv("RINGUP_BACKEND");
				for (which = 0; which < sizeof(all) / sizeof(*all); which++) {
					if ((way == DIFFERS && !all[which].has_type) ||
					    (way == LEAVES && !all[which].rank_leaves) ||
					    (only && strcmp(only, all[which].name)))
						continue;
					if (ranks_run(3, body))
						wrong++;
					if (wrong)
						printf("# %s\n", all[which].name);
				}
				ok(!wrong, "%s, %s, %d rows", ways[way],
				   tcp ? "tcp" : "one host", (int)rows);
			}
	return tap_done();
}
