/* sum.c - a rank that uses nothing but ringup.h: joins, combines, checks, tells. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asks.h"
#include "ringup.h"

#ifdef WITH_MPI
#include <mpi.h>

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)ctx;
	return MPI_Allgather(mine, (int)len, MPI_BYTE, all, (int)len, MPI_BYTE, MPI_COMM_WORLD);
}
#endif

enum { COUNT = 100000 };

static struct ringup *job;
static struct ringup_group *world;
static int rank, size;

/* Print a failure the way tests look for it; returns @rc. */
static int tell(const char *what, int rc)
{
	if (rc)
		printf("rank %d: %s: %s: %s\n", rank, what, ringup_strerror(rc),
		       ringup_error());
	return rc;
}

/* Start and finish the sum of one float32 vector, element i being rank + i. */
static int sum(const char *name, uint64_t count, float *v)
{
	struct ringup_reduce r =
		ASK_REDUCE(name, v, v, count, .dtype = RINGUP_F32, .redop = RINGUP_SUM);
	struct ringup_op *op;
	uint64_t i;
	int rc;

	for (i = 0; i < count; i++)
		v[i] = (float)rank + (float)(i % 1000);
	rc = ringup_allreduce(world, &r, &op);
	if (!rc)
		rc = ringup_wait(op, -1);
	for (i = 0; !rc && i < count; i++)
		if (v[i] != (float)size * (float)(i % 1000) + (float)(size * (size - 1)) / 2) {
			printf("rank %d: %s: element %llu is %g\n", rank, name,
			       (unsigned long long)i, (double)v[i]);
			exit(4);
		}
	return rc;
}

static int broadcast(int root)
{
	int64_t v = rank == root ? 42 + root : -1;
	struct ringup_bcast b = ASK_BCAST("root", &v, &v, 1, .dtype = RINGUP_I64, .root = root);
	struct ringup_op *op;
	int rc = ringup_broadcast(world, &b, &op);

	if (!rc)
		rc = ringup_wait(op, -1);
	if (!rc && v != 42 + root) {
		printf("rank %d: broadcast gave %lld\n", rank, (long long)v);
		exit(4);
	}
	return rc;
}

/* Rank r gives r rows of two bytes, all r. */
static int gather(void)
{
	uint64_t *counts = calloc((size_t)size, sizeof(*counts)), i, at = 0;
	unsigned char *mine = malloc(2 * (size_t)rank + 1), *all = NULL;
	struct ringup_gather g = ASK_GATHER("rows", mine, (uint64_t)rank, 2, (void **)&all,
					    counts, .dtype = RINGUP_U8);
	struct ringup_op *op;
	int rc, r;

	if (!counts || !mine)
		exit(5);
	memset(mine, rank, 2 * (size_t)rank);
	rc = ringup_allgather(world, &g, &op);
	if (!rc)
		rc = ringup_wait(op, -1);
	for (r = 0; !rc && r < size; r++) {
		if (counts[r] != (uint64_t)r)
			exit(4);
		for (i = 0; i < 2 * counts[r]; i++)
			if (all[at++] != r)
				exit(4);
	}
	ringup_free(all);
	free(mine);
	free(counts);
	return rc;
}

/* Reductions of several types that are one. */
static int together(float *v)
{
	int64_t one = 1;
	struct ringup_reduce s[3] = {
		ASK_REDUCE("together", v, v, COUNT, .dtype = RINGUP_F32),
		ASK_REDUCE(NULL, &one, &one, 1, .dtype = RINGUP_I64),
		ASK_REDUCE(NULL, v, v, 0, .dtype = RINGUP_F32, .redop = RINGUP_MIN),
	};
	int rc, i;

	for (i = 0; i < COUNT; i++)
		v[i] = (float)rank;
	rc = ringup_allreduce_many(world, s, 3, NULL);
	if (!rc &&
	    (one != size || v[0] != (float)(size * (size - 1)) / 2 || v[COUNT - 1] != v[0]))
		exit(4);
	return rc;
}

/* Rank r gives r rows of a byte, and one of two numbers. */
static int gather_together(void)
{
	uint64_t *counts = calloc(2 * (size_t)size, sizeof(*counts));
	unsigned char *mine = calloc(1, (size_t)rank + 1);
	int64_t pair[2] = { rank, -rank };
	void *out[2] = { NULL, NULL };
	struct ringup_gather g[2] = {
		{ .bytes = sizeof(struct ringup_gather),
		  .name = "gathered",
		  .in = mine,
		  .rows = (uint64_t)rank,
		  .row = 1,
		  .out = &out[0],
		  .counts = counts },
		ASK_GATHER(NULL, pair, 1, 2, &out[1], counts + size, .dtype = RINGUP_I64),
	};
	int rc, r;

	if (!counts || !mine)
		exit(5);
	rc = ringup_allgather_many(world, g, 2, NULL);
	for (r = 0; !rc && r < size; r++)
		if (counts[r] != (uint64_t)r || counts[size + r] != 1 ||
		    ((int64_t *)out[1])[2 * r] != r || ((int64_t *)out[1])[2 * r + 1] != -r)
			exit(4);
	ringup_free(out[0]);
	ringup_free(out[1]);
	free(mine);
	free(counts);
	return rc;
}

static int barrier(void)
{
	struct ringup_op *op;
	int rc = ringup_barrier(world, NULL, &op);

	return rc ? rc : ringup_wait(op, -1);
}

/* The first and the last rank have a group, which spans hosts where there are some. */
static int in_group(float *v)
{
	struct ringup_group *all = world, *g;
	int ends[2] = { 0, size - 1 }, in_all = rank, rc;

	rc = tell("group", ringup_group_add(job, ends, 2, &g));
	if (!rc && ringup_rank(g) >= 0) {
		world = g;
		rank = ringup_rank(g);
		size = ringup_size(g);
		rc = tell("in a group", sum("small", 10, v));
		if (!rc)
			rc = tell("in a group", sum("large", COUNT, v));
	}
	world = all;
	rank = in_all;
	size = ringup_size(world);
	return rc ? rc : tell("remove", ringup_group_remove(g));
}

/* In each round the last rank joins after some of the sums, the others after all. */
static int joining(void)
{
	enum { ROUNDS = 500, SUMS = 8 };
	static const char *const names[] = { "even", "odd" };
	int round, i, k, rc = 0;
	double x;

	for (round = 0; round < ROUNDS && !rc; round++) {
		k = (round * 5 + 3) % SUMS;
		for (i = 0; i < (rank == size - 1 ? k : SUMS) && !rc; i++) {
			struct ringup_reduce r =
				ASK_REDUCE(names[i % 2], &x, &x, 1, .dtype = RINGUP_F64);

			x = rank + 1;
			rc = tell("joining", ringup_allreduce(world, &r, NULL));
			if (!rc && x != (double)(size * (size - 1) / 2 + (i < k ? size : 0))) {
				printf("rank %d: round %d, sum %d: %g\n", rank, round, i, x);
				return 4;
			}
		}
		if (!rc)
			rc = tell("join", ringup_join(world, NULL, NULL));
	}
	return rc;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	struct ringup_init how = { 0 };
	float *v = malloc(COUNT * sizeof(*v));
	int rc, i;

	if (!v)
		return 5;
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
#ifdef WITH_MPI
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &how.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &how.size);
	how.exchange = exchange;
#endif
	rc = ringup_init(&how, &job);
	if (rc) {
		printf("init: %s: %s\n", ringup_strerror(rc), ringup_error());
		return 3;
	}
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);
	if (!strcmp(mode, "die") && rank == size - 1) {
		rc = sum("before", 10, v);
		raise(SIGKILL);
	}
	if (!strcmp(mode, "die"))
		rc = tell("before", sum("before", 10, v));
	if (!strcmp(mode, "differ")) {
		rc = tell("differ", sum("differ", rank == 0 ? 10 : 11, v));
		if (rc != RINGUP_EMISMATCH)
			return 6;
		rc = 0;
	}
	if (!strcmp(mode, "group"))
		rc = in_group(v);
	if (!strcmp(mode, "join"))
		rc = joining();
	for (i = 0; i < 3 && !rc; i++)
		rc = tell("small", sum("small", 10, v));
	if (!rc)
		rc = tell("large", sum("large", COUNT, v));
	for (i = 0; i < size && !rc; i++)
		rc = tell("broadcast", broadcast(i));
	if (!rc)
		rc = tell("allgather", gather());
	if (!rc)
		rc = tell("together", together(v));
	if (!rc)
		rc = tell("gathered together", gather_together());
	if (!rc)
		rc = tell("barrier", barrier());
	if (!rc)
		printf("rank %d of %d: all agree; %s, local %d of %d, host %d of %d\n", rank,
		       size, ringup_backend(world), ringup_local_rank(job),
		       ringup_local_size(job), ringup_host_rank(job), ringup_host_count(job));
	ringup_fini(job);
	free(v);
#ifdef WITH_MPI
	MPI_Finalize();
#endif
	return rc ? 3 : 0;
}
