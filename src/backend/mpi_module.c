/* mpi_module.c - the calls to MPI, built once for each MPI of the node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_module.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mpi_comm {
	MPI_Comm comm;
	MPI_Request request[MODULE_SLOTS];
};

/*
 * One thread of an engine makes progress at a time (it holds the baton), but a process
 * may have several engines.  Where MPI does not serialise them, the lock does.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int needs_lock;

static int users;   /* communicators that are open            */
static int dirty;   /* one was given back while it was in use */
static pid_t owner; /* the process in which init() was called */

static void mpi_module_enter(void)
{
	if (__atomic_load_n(&needs_lock, __ATOMIC_RELAXED))
		pthread_mutex_lock(&lock);
}

static void leave(void)
{
	if (__atomic_load_n(&needs_lock, __ATOMIC_RELAXED))
		pthread_mutex_unlock(&lock);
}

/* Returns 0, or -1 with MPI's own text for @rc in @why. */
static int result(int rc, const char *what, char *why)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int len = 0;

	if (rc == MPI_SUCCESS)
		return 0;
	MPI_Error_string(rc, text, &len);
	snprintf(why, MODULE_WHY, "%s: %s", what, text);
	return -1;
}

/* Ends a call that mpi_module_enter() began. */
static int left(int rc, const char *what, char *why)
{
	leave();
	return result(rc, what, why);
}

_Static_assert(MPI_MAX_LIBRARY_VERSION_STRING <= MODULE_VERSION, "there is room for it");

static void version(char text[MODULE_VERSION])
{
	int len = 0;

	MPI_Get_library_version(text, &len);
}

static void world(struct mpi_world *w)
{
	int level = MPI_THREAD_SINGLE;

	memset(w, 0, sizeof(*w));
	MPI_Initialized(&w->initialized);
	MPI_Finalized(&w->finalized);
	if (!w->initialized || w->finalized)
		return;
	MPI_Query_thread(&level);
	w->threads = level >= MPI_THREAD_SERIALIZED;
	__atomic_store_n(&needs_lock, level < MPI_THREAD_MULTIPLE, __ATOMIC_RELAXED);
	MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &w->size);
}

/* Run by exit(3).  A rank of a failed job, or one that still has communicators, must
 * not wait here for the others; and a child of fork() is no rank. */
static void finalize(void)
{
	int finalized = 1;

	if (getpid() != owner || users || dirty)
		return;
	MPI_Finalized(&finalized);
	if (!finalized)
		MPI_Finalize();
}

static int init(char *why)
{
	int level, rc;

	/* Other libraries of the process may use MPI as well, from other threads. */
	rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
	if (rc)
		return result(rc, "MPI_Init_thread", why);
	owner = getpid();
	if (atexit(finalize)) {
		snprintf(why, MODULE_WHY, "no memory for a handler at exit");
		return -1;
	}
	return 0;
}

static int join_group(struct mpi_comm *c, const int *world_of, int size, char *why)
{
	MPI_Group all, some = MPI_GROUP_NULL;
	int rc;

	rc = result(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group", why);
	if (rc)
		return rc;
	rc = result(MPI_Group_incl(all, size, world_of, &some), "MPI_Group_incl", why);
	if (!rc)
		rc = result(MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &c->comm),
			    "MPI_Comm_create_group", why);
	if (some != MPI_GROUP_NULL)
		MPI_Group_free(&some);
	MPI_Group_free(&all);
	/* Errors shall be returned; by default they end the process. */
	return rc ? rc
		  : result(MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN),
			   "MPI_Comm_set_errhandler", why);
}

static int mpi_module_join(struct mpi_comm **commp, const int *world_of, int size, char *why)
{
	struct mpi_comm *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		snprintf(why, MODULE_WHY, "no memory for a communicator");
		return -1;
	}
	c->comm = MPI_COMM_NULL;
	for (int i = 0; i < MODULE_SLOTS; i++)
		c->request[i] = MPI_REQUEST_NULL;
	mpi_module_enter();
	rc = join_group(c, world_of, size, why);
	leave();
	if (rc) {
		free(c);
		return rc;
	}
	__atomic_add_fetch(&users, 1, __ATOMIC_RELAXED);
	*commp = c;
	return 0;
}

static void mpi_module_leave(struct mpi_comm *c, int clean)
{
	int finalized = 1;

	if (!c)
		return;
	__atomic_sub_fetch(&users, 1, __ATOMIC_RELAXED);
	if (!clean) {
		__atomic_store_n(&dirty, 1, __ATOMIC_RELAXED);
		return;
	}
	MPI_Finalized(&finalized);
	if (!finalized) {
		mpi_module_enter();
		MPI_Comm_free(&c->comm);
		leave();
	}
	free(c);
}

static int alltoall(struct mpi_comm *c, int slot, const void *in, const int *in_bytes,
		    const int *in_at, void *out, const int *out_bytes, const int *out_at,
		    char *why)
{
	mpi_module_enter();
	return left(MPI_Ialltoallv(in, in_bytes, in_at, MPI_BYTE, out, out_bytes, out_at,
				   MPI_BYTE, c->comm, &c->request[slot]),
		    "MPI_Ialltoallv", why);
}

static int allgather(struct mpi_comm *c, int slot, const void *mine, int bytes, void *all,
		     const int *all_bytes, const int *all_at, char *why)
{
	mpi_module_enter();
	return left(MPI_Iallgatherv(mine ? mine : MPI_IN_PLACE, mine ? bytes : 0, MPI_BYTE, all,
				    all_bytes, all_at, MPI_BYTE, c->comm, &c->request[slot]),
		    "MPI_Iallgatherv", why);
}

static int broadcast(struct mpi_comm *c, int slot, void *data, int bytes, int root, char *why)
{
	mpi_module_enter();
	return left(MPI_Ibcast(data, bytes, MPI_BYTE, root, c->comm, &c->request[slot]),
		    "MPI_Ibcast", why);
}

static int barrier(struct mpi_comm *c, int slot, char *why)
{
	mpi_module_enter();
	return left(MPI_Ibarrier(c->comm, &c->request[slot]), "MPI_Ibarrier", why);
}

static int test(struct mpi_comm *c, int slot, char *why)
{
	int done = 0, rc;

	mpi_module_enter();
	rc = MPI_Test(&c->request[slot], &done, MPI_STATUS_IGNORE);
	leave();
	return rc ? result(rc, "MPI_Test", why) : done;
}

extern const struct mpi_module ringup_mpi_module;

__attribute__((visibility("default"))) const struct mpi_module ringup_mpi_module = {
	.abi = MODULE_ABI,
	.version = version,
	.world = world,
	.init = init,
	.join = mpi_module_join,
	.part = mpi_module_leave,
	.alltoall = alltoall,
	.allgather = allgather,
	.broadcast = broadcast,
	.barrier = barrier,
	.test = test,
};
