/* mpi_module.h - the interface between libringup.so and a module built against an mpi.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_MPI_MODULE_H
#define BACKEND_MPI_MODULE_H

#include <stdint.h>

/*
 * Handles of Open MPI are pointers, those of MPICH are numbers: code that calls
 * MPI is compiled for one of them.  So all calls are in mpi_module.c, built once
 * for each MPI of the node into ringup-mpi-NAME.so, and the library knows only
 * this table: bytes, numbers and one opaque pointer.
 *
 * A module exports `const struct mpi_module ringup_mpi_module` and is never
 * unloaded.  Any change below is a new MODULE_ABI; the library refuses a table
 * with another number.
 *
 * All functions that can fail return 0 or more, or -1 with a sentence in
 * @why, which has room for MODULE_WHY bytes.
 */
enum { MODULE_ABI = 1, MODULE_SLOTS = 8, MODULE_WHY = 192, MODULE_VERSION = 8192 };

#define MODULE_SYMBOL "ringup_mpi_module"

/* The state of MPI in this process. */
struct mpi_world {
	int initialized, finalized;
	int threads; /* calls may come from any thread, one at a time */
	int rank, size;
};

struct mpi_comm; /* the module's own: a communicator and its requests */

struct mpi_module {
	uint32_t abi;

	/* MPI_Get_library_version(); MODULE_VERSION bytes suffice for all MPIs. */
	void (*version)(char text[MODULE_VERSION]);
	void (*world)(struct mpi_world *w);

	/* init - MPI_Init_thread(), for a program that does not use MPI itself.
	 * MPI_Finalize() is then called when the process exits, if all communicators
	 * were given back clean and the program has not called it. */
	int (*init)(char *why);

	/* join - a communicator of the @size ranks of MPI_COMM_WORLD in @world_of, in
	 * that order; all of them call it.  Blocks. */
	int (*join)(struct mpi_comm **commp, const int *world_of, int size, char *why);

	/* part - give the communicator back.  With @clean 0 MPI may still be writing
	 * to the buffers, and is not called again. */
	void (*part)(struct mpi_comm *comm, int clean);

	/*
	 * Start a collective in a free @slot below MODULE_SLOTS; counts and places are
	 * bytes; all ranks start the same ones in the same order.  The arrays are
	 * left alone until it is done.  allgather: @mine NULL means that this rank's
	 * part lies in @all already.
	 */
	int (*alltoall)(struct mpi_comm *comm, int slot, const void *in, const int *in_bytes,
			const int *in_at, void *out, const int *out_bytes, const int *out_at,
			char *why);
	int (*allgather)(struct mpi_comm *comm, int slot, const void *mine, int bytes,
			 void *all, const int *all_bytes, const int *all_at, char *why);
	int (*broadcast)(struct mpi_comm *comm, int slot, void *data, int bytes, int root,
			 char *why);
	int (*barrier)(struct mpi_comm *comm, int slot, char *why);

	/* test - 1 if the collective in @slot is done, 0 if not yet. */
	int (*test)(struct mpi_comm *comm, int slot, char *why);
};

#endif
