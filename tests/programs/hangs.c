/* hangs.c - a rank that hangs in one of several ways, or is healthy: for `ringup hang`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_MPI
#include <mpi.h>
#else
#include "ringup.h"
#endif

/*
 * Usage: hangs KIND RANK [ANNOUNCE]: after a few operations rank RANK behaves as KIND says. The
 * file ANNOUNCE is made then.
 *
 *   sleep, patient (the same, and the others wait with a deadline), spin, stop, skip, branch,
 * circle, absent; and healthy: busy, uneven, checkpoint (the rank writes a file at times,
 * for seconds), short (the job ends after two seconds), steps (as busy; the rank writes to
 * ANNOUNCE.steps when each step ended and how long it took, in microseconds)
 */
enum { EARLY = 20, OFTEN = 50, SHORT = 400, FILE_BYTES = 64 << 20 };

static volatile double sink;
static const char *kind, *announce;
static int culprit, rank, size;

static int is(const char *what)
{
	return !strcmp(kind, what);
}

#ifdef WITH_MPI
static void begin(void)
{
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void sum(const char *name)
{
	int in = 1, out;

	(void)name;
	MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void meet(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static void receive(int from)
{
	int x;

	MPI_Recv(&x, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
#else
static struct ringup *job;
static struct ringup_group *world;

static void check(int rc)
{
	if (!rc)
		return;
	printf("rank %d: %s\n", rank, ringup_error());
	exit(3);
}

static void begin(void)
{
	check(ringup_init(NULL, &job));
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);
}

static void sum(const char *name)
{
	static float v[1000];
	struct ringup_reduce r = {
		.name = name, .in = v, .out = v, .count = 1000, .dtype = RINGUP_F32
	};

	struct ringup_op *op;

	/* With a deadline, as torch's groups wait. */
	check(ringup_allreduce(world, &r, is("patient") ? &op : NULL));
	if (is("patient"))
		check(ringup_wait(op, 100000));
}

static void meet(void)
{
	check(ringup_barrier(world, "checkpoint", NULL));
}

static void receive(int from)
{
	float x;
	struct ringup_recv r = { .out = &x, .count = 1, .dtype = RINGUP_F32, .from = from };

	check(ringup_recv(world, &r, NULL));
}
#endif

static __attribute__((noinline)) void load_batch(void)
{
	for (;;)
		pause();
}

static __attribute__((noinline)) void compute_for_ever(void)
{
	for (;;)
		sink += 1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void compute(double seconds)
{
	double until = now() + seconds;

	do
		for (int i = 0; i < 1000; i++)
			sink += 1;
	while (now() < until);
}

/* A fixed amount of work, unlike compute(). */
static void step(void)
{
	static FILE *f;
	static double before;
	char name[4096];
	double at = now();

	if (!f && announce && rank == culprit) {
		snprintf(name, sizeof(name), "%s.steps", announce);
		f = fopen(name, "w");
	} else if (f) {
		fprintf(f, "%.0f %.0f\n", at * 1e6, (at - before) * 1e6);
		fflush(f);
	}
	before = at;
	for (int i = 0; i < 100000; i++)
		sink += 1;
}

/* Writes a file for about three seconds. */
static void save_model(void)
{
	static char block[1 << 16];
	struct timespec pause = { .tv_nsec = 3000000 };
	FILE *f = rank == culprit ? tmpfile() : NULL;

	for (size_t at = 0; f && at < FILE_BYTES; at += sizeof(block)) {
		fwrite(block, 1, sizeof(block), f);
		fflush(f);
		nanosleep(&pause, NULL);
	}
	if (f)
		fclose(f);
}

static void say_so(void)
{
	FILE *f = announce && rank == culprit ? fopen(announce, "w") : NULL;

	if (f)
		fclose(f);
}

static void go_wrong(void)
{
	say_so(); /* also when it is healthy: then it has begun */
	if (rank != culprit && !is("circle"))
		return;
	if (is("sleep") || is("patient"))
		load_batch();
	if (is("spin"))
		compute_for_ever();
	if (is("stop"))
		raise(SIGSTOP);
	if (is("skip"))
		sum("grad.second");
	if (is("branch"))
		meet();
	if (is("circle"))
		receive((rank + 1) % size);
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "RINGUP_RANK", "OMPI_COMM_WORLD_RANK",
					     "PMI_RANK" };
	const char *name = NULL;

	for (int i = 0; i < 3 && !name; i++)
		name = getenv(names[i]);
	if (argc < 3)
		return 2;
	kind = argv[1];
	culprit = atoi(argv[2]);
	announce = argc > 3 ? argv[3] : NULL;
	if (is("absent") && name && atoi(name) == culprit) {
		rank = culprit;
		say_so();
		load_batch();
	}
	begin();
	if (is("absent"))
		return 0;
	for (int i = 0;; i++) {
		if (is("uneven"))
			compute(rank == culprit ? 0.08 : 0.02);
		if (is("busy") || is("short"))
			compute(0.005);
		if (is("steps"))
			step();
		if (is("checkpoint") && i % OFTEN == OFTEN - 1)
			save_model();
		if (is("short") && i == SHORT)
			break;
		sum("grad.first");
		if (i == EARLY)
			go_wrong();
		sum("grad.second");
	}
#ifdef WITH_MPI
	MPI_Finalize();
#else
	ringup_fini(job);
#endif
	return 0;
}
