/* face.h - the same program for ringup and for MPI: join, add up, leave. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FACE_H
#define FACE_H

#include <stdio.h>
#include <stdlib.h>

/* With WITH_MPI it is MPI's, else ringup's. */
static int face_rank, face_ranks;

#ifdef WITH_MPI

#include <mpi.h>

static void face_join(void)
{
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &face_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &face_ranks);
}

/* Add up @count numbers of all ranks, in place. */
static void face_sum(float *v, int count)
{
	MPI_Allreduce(MPI_IN_PLACE, v, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void face_leave(void)
{
	MPI_Finalize();
}

#else

#include <ringup.h>

static struct ringup *face_job;

static void face_check(int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "%s\n", ringup_error());
	exit(3);
}

static void face_join(void)
{
	face_check(ringup_init(NULL, &face_job));
	face_rank = ringup_rank(ringup_world(face_job));
	face_ranks = ringup_size(ringup_world(face_job));
}

/* Add up @count numbers of all ranks, in place. */
static void face_sum(float *v, int count)
{
	struct ringup_reduce r = {
		.name = "step",
		.in = v,
		.out = v,
		.count = (uint64_t)count,
		.dtype = RINGUP_F32,
	};

	face_check(ringup_allreduce(ringup_world(face_job), &r, NULL));
}

static void face_leave(void)
{
	ringup_fini(face_job);
}

#endif

#endif
