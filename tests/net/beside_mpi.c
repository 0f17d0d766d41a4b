/* beside_mpi.c - a program of MPI and ringup: what its arguments say, in their order. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringup.h"

/* The library is opened by name: this is compiled against each MPI, by its own compiler. */
static int (*init)(const struct ringup_init *how, struct ringup **out);
static void (*fini)(struct ringup *r);
static int (*allreduce)(struct ringup_group *g, const struct ringup_reduce *what,
			struct ringup_op **op);
static int (*rank_of)(const struct ringup_group *g), (*size_of)(const struct ringup_group *g);
static struct ringup_group *(*world)(struct ringup *r);
static const char *(*error)(void);

static struct ringup *self;

static void find(void *to, void *library, const char *name)
{
	*(void **)to = dlsym(library, name);
	if (*(void **)to)
		return;
	fprintf(stderr, "no %s\n", name);
	exit(2);
}

static void load(void)
{
	const char *path = getenv("RINGUP_LIBRARY");
	void *library = dlopen(path ? path : "libringup.so.0", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	find(&init, library, "ringup_init");
	find(&fini, library, "ringup_fini");
	find(&world, library, "ringup_world");
	find(&allreduce, library, "ringup_allreduce");
	find(&rank_of, library, "ringup_rank");
	find(&size_of, library, "ringup_size");
	find(&error, library, "ringup_error");
}

static void *join(void *arg)
{
	int rc = init(NULL, &self);

	if (rc)
		fprintf(stderr, "join: %d: %s\n", rc, error());
	return rc ? arg : NULL;
}

static int join_in_thread(void)
{
	pthread_t thread;
	void *failed = &thread;

	return pthread_create(&thread, NULL, join, &thread) || pthread_join(thread, &failed) ||
	       failed;
}

/* Every rank brings one. */
static int sum(void)
{
	double one = 1, all = 0;
	struct ringup_reduce what = {
		.in = &one, .out = &all, .count = 1, .dtype = RINGUP_F64
	};

	return allreduce(world(self), &what, NULL) || all != size_of(world(self));
}

static int sum_by_mpi(void)
{
	int one = 1, all = 0, size;

	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return all != size;
}

static int step(const char *what)
{
	if (!strcmp(what, "MPI_Init"))
		return MPI_Init(NULL, NULL);
	if (!strcmp(what, "MPI_Allreduce"))
		return sum_by_mpi();
	if (!strcmp(what, "MPI_Finalize"))
		return MPI_Finalize();
	if (!strcmp(what, "join"))
		return join(&self) != NULL;
	if (!strcmp(what, "thread"))
		return join_in_thread();
	if (!strcmp(what, "sum"))
		return sum();
	if (strcmp(what, "fini") != 0)
		return 2;
	fini(self);
	return 0;
}

int main(int argc, char **argv)
{
	int i, rank = -1;

	load();
	for (i = 1; i < argc; i++) {
		if (step(argv[i])) {
			fprintf(stderr, "%s failed\n", argv[i]);
			return 1;
		}
		if (!strcmp(argv[i], "sum"))
			rank = rank_of(world(self));
	}
	if (rank == 0)
		puts("all steps are done");
	return 0;
}
