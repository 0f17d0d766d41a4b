/* mpijob.c - a program with an MPI of its own, and ringup in the midst of it. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "ringup.h"

static MPI_Comm ours;

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)ctx;
	return MPI_Allgather(mine, (int)len, MPI_BYTE, all, (int)len, MPI_BYTE, ours);
}

/* 0 if the sum of 1 + rank of all ranks came out right; else what failed, in words. */
static int sum(struct ringup *job)
{
	struct ringup_group *world = ringup_world(job);
	int size = ringup_size(world), i;
	float v[1000];
	struct ringup_reduce r = {
		.name = "v", .in = v, .out = v, .count = 1000, .dtype = RINGUP_F32
	};

	for (i = 0; i < 1000; i++)
		v[i] = (float)(1 + ringup_rank(world));
	if (ringup_allreduce(world, &r, NULL)) {
		printf("sum: %s\n", ringup_error());
		return 4;
	}
	for (i = 0; i < 1000; i++)
		if (v[i] != (float)(size * (size + 1)) / 2)
			return 5;
	return 0;
}

static int take_part(const struct ringup_init *how)
{
	struct ringup *job;
	int rc = ringup_init(how, &job);

	if (rc) {
		printf("init: %s\n", ringup_error());
		return 3;
	}
	rc = sum(job);
	if (!rc)
		printf("rank %d of %d: right, %s\n", how->rank, how->size,
		       ringup_backend(ringup_world(job)));
	ringup_fini(job);
	return rc;
}

/* A program whose turn to call MPI_Init comes after ours: it asks whether somebody has. */
static int come_later(void)
{
	struct ringup_group *world;
	int on = 0, level, one = 1, all = 0, size, rc;
	struct ringup *job;

	rc = ringup_init(NULL, &job);
	if (rc) {
		printf("init: %s\n", ringup_error());
		return 3;
	}
	world = ringup_world(job);
	rc = sum(job);
	MPI_Initialized(&on);
	if (!on)
		MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rc)
		rc = sum(job);
	if (!rc && all == size)
		printf("rank %d of %d: right, %s\n", ringup_rank(world), size,
		       ringup_backend(world));
	ringup_fini(job);
	MPI_Finalize();
	return rc;
}

/* Modes: "later": our init comes before MPI's; "single": an MPI for one thread; "reversed": our
 * ranks are not MPI's; "half": only some of MPI's ranks are in the job; "early": MPI ends
 * first. */
int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	struct ringup_init how = { .exchange = exchange };
	int rank, size, level, rc = 0, one = 1, all = 0, in = 1;

	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	if (!strcmp(mode, "later"))
		return come_later();
	if (!strcmp(mode, "single"))
		MPI_Init(&argc, &argv);
	else
		MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!strcmp(mode, "half"))
		in = rank % 2 == 1;
	MPI_Comm_split(MPI_COMM_WORLD, in, strcmp(mode, "reversed") ? rank : -rank, &ours);
	MPI_Comm_rank(ours, &how.rank);
	MPI_Comm_size(ours, &how.size);
	if (!strcmp(mode, "early")) {
		struct ringup *job;

		rc = ringup_init(&how, &job);
		MPI_Finalize();
		if (!rc)
			rc = sum(job);
		ringup_fini(rc == 3 ? NULL : job);
		return rc;
	}
	if (in)
		rc = take_part(&how);
	if (in && !rc)
		rc = take_part(&how);
	/* MPI is as it was. */
	MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_free(&ours);
	MPI_Finalize();
	return all == size ? rc : 6;
}
