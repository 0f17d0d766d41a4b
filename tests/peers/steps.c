/* steps.c - what a training job does, over and over: compute, then add up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "face.h"

/*
 * steps SECONDS COMPUTE_US BYTES [CHILDREN] - one rank; steps.py makes tables of it.
 *
 * In each step a rank computes for COMPUTE_US of processor time, half as long to half as long
 * again as it happens, and adds up BYTES with the others.  Rank 0 prints how many steps there
 * were, how long they took, and what all ranks together had of the processors.  With CHILDREN,
 * so many processes are forked off first that do nothing, as those that read data do most of
 * the time; what a fork takes is told in any case, before joining and afterwards.
 */
enum { FORKS = 40, MOST = 1 << 20 };

static float us[MOST];
static uint64_t seed = 88172645463325252u, heat;

static double now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void compute(double turns)
{
	double i;

	for (i = 0; i < turns; i++)
		heat += next();
}

/* How many turns a microsecond of processor time has, whatever is kept from us meanwhile. */
static double pace(void)
{
	enum { TURNS = 2000000 };
	double begun = now_us(CLOCK_THREAD_CPUTIME_ID);

	compute(TURNS);
	return TURNS / (now_us(CLOCK_THREAD_CPUTIME_ID) - begun);
}

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* A child that does nothing: until it has ended, or until its parent has. */
static double fork_one(int stays)
{
	double begun = now_us(CLOCK_MONOTONIC);
	pid_t p = fork();

	if (p == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (stays)
			pause();
		_exit(0);
	}
	begun = now_us(CLOCK_MONOTONIC) - begun;
	if (p < 0)
		exit(3);
	if (!stays)
		waitpid(p, NULL, 0);
	return begun;
}

/* What the parent waits in fork(), microseconds: the median. */
static double fork_us(void)
{
	float took[FORKS];
	int i;

	for (i = 0; i < FORKS; i++)
		took[i] = (float)fork_one(0);
	qsort(took, FORKS, sizeof(*took), by_size);
	return took[FORKS / 2];
}

static double cpu_seconds(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* Until rank 0 says that it is over, in the first number; returns how many there were. */
static int take_steps(float *v, int count, double seconds, double turns, double *took)
{
	double begun = now_us(CLOCK_MONOTONIC), before = begun, after,
	       end = begun + seconds * 1e6;
	int n = 0, over = 0;

	while (!over) {
		compute(turns * (0.5 + (double)(next() >> 11) * 0x1p-53));
		v[0] = (float)(face_rank == 0 && now_us(CLOCK_MONOTONIC) > end);
		face_sum(v, count);
		over = v[0] > 0;
		memset(v, 0, (size_t)count * sizeof(*v));
		after = now_us(CLOCK_MONOTONIC);
		us[n++ % MOST] = (float)(after - before);
		before = after;
	}
	*took = before - begun;
	return n;
}

int main(int argc, char **argv)
{
	double fresh = fork_us(), joined, turns, took, cpu;
	int count, children, kept, i, n;
	float *v, used;

	if (argc < 4)
		return 2;
	count = atoi(argv[3]) / (int)sizeof(*v);
	count = count > 0 ? count : 1;
	children = argc > 4 ? atoi(argv[4]) : 0;
	v = calloc((size_t)count, sizeof(*v));
	turns = pace() * atof(argv[2]);
	face_join();
	seed += (uint64_t)face_rank << 32;
	if (!v)
		return 3;
	for (i = 0; i < 100; i++)
		face_sum(v, count);
	joined = fork_us();
	for (i = 0; i < children; i++)
		fork_one(1);
	face_sum(v, count);
	memset(v, 0, (size_t)count * sizeof(*v));
	cpu = cpu_seconds();
	n = take_steps(v, count, atof(argv[1]), turns, &took);
	used = (float)(cpu_seconds() - cpu);
	face_sum(&used, 1);
	kept = n < MOST ? n : MOST;
	qsort(us, (size_t)kept, sizeof(*us), by_size);
	if (face_rank == 0)
		printf("{\"steps_per_s\":%.1f,\"median_us\":%.3f,\"most_us\":%.1f,"
		       "\"cores\":%.3f,\"fork_before_us\":%.1f,\"fork_after_us\":%.1f}\n",
		       n / took * 1e6, us[kept / 2], us[kept - 1], (double)used / took * 1e6,
		       fresh, joined);
	fflush(stdout);
	face_leave();
	return heat == 1;
}
