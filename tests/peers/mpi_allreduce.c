/* mpi_allreduce.c - MPI_Allreduce timed as ringup bench times: the same samples. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* As in src/bench/measure.c. */
enum { SINGLE_BYTES = 256 << 10, SAMPLE_US = 200, MOST_CALLS = 1000 };
enum { WARM_UP = 5, LEAST_SAMPLES = 10, MOST_SAMPLES = 200, ALL_US = 500000 };

static int rank, ranks, iteration;
static long count;
static float *in, *out;
static long wrong;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double largest(double mine)
{
	double all;

	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static double sample(int calls)
{
	double begun, us;
	long i;

	iteration++;
	for (i = 0; i < count; i++)
		in[i] = (float)((i + rank + iteration) % ranks);
	largest(0);
	begun = now_us();
	for (i = 0; i < calls; i++)
		MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	us = (now_us() - begun) / calls;
	largest(0);
	for (i = 0; i < count; i++)
		wrong += out[i] != (float)(ranks * (ranks - 1) / 2);
	return us;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(long bytes)
{
	double us[MOST_SAMPLES], slowest[MOST_SAMPLES], last = 0, fit;
	int calls = 1, samples, i;

	count = bytes / (long)sizeof(float);
	in = malloc((size_t)bytes);
	out = malloc((size_t)bytes);
	if (!in || !out)
		MPI_Abort(MPI_COMM_WORLD, 3);
	for (i = 0; i < WARM_UP; i++)
		last = sample(1);
	last = largest(last);
	if (bytes < SINGLE_BYTES && last < SAMPLE_US)
		calls = SAMPLE_US / last > MOST_CALLS ? MOST_CALLS : (int)(SAMPLE_US / last);
	fit = ALL_US / (last * calls);
	samples = fit < LEAST_SAMPLES  ? LEAST_SAMPLES
		  : fit > MOST_SAMPLES ? MOST_SAMPLES
				       : (int)fit;
	for (i = 0; i < samples; i++)
		us[i] = sample(calls);
	MPI_Allreduce(us, slowest, samples, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	qsort(slowest, (size_t)samples, sizeof(*slowest), by_size);
	if (rank == 0)
		printf("{\"collective\":\"allreduce\",\"dtype\":\"f32\",\"op\":\"sum\","
		       "\"bytes\":%ld,\"ranks\":%d,\"us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f,"
		       "\"samples\":%d,\"wrong\":%ld}\n",
		       bytes, ranks, slowest[samples / 2], slowest[0], slowest[samples - 1],
		       samples, wrong);
	fflush(stdout);
	free(in);
	free(out);
}

/* Arguments: sizes in bytes, multiples of 4. */
int main(int argc, char **argv)
{
	int i;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (i = 1; i < argc; i++)
		measure(atol(argv[i]));
	MPI_Finalize();
	return 0;
}
