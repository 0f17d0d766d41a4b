/* mpi_state.h - the MPI library of this process, if it has one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_MPI_STATE_H
#define WIRE_MPI_STATE_H

#include <limits.h>
#include <stdbool.h>

enum mpi_state {
	MPI_STATE_NONE,      /* no MPI, or MPI_Init() has not been called   */
	MPI_STATE_ACTIVE,    /* between MPI_Init() and MPI_Finalize()       */
	MPI_STATE_FINALIZED, /* MPI has closed its connection to the launcher */
};

/* mpi_state - whether this process's MPI is active or finalized.  Threads: any. */
enum mpi_state mpi_state(void);

/* mpi_state_library - the path of the MPI library that this process has loaded; false: none
 * with an MPI's name.  Threads: any. */
bool mpi_state_library(char path[PATH_MAX]);

/* mpi_state_function - @name of that library, or of the program that MPI is linked into; else
 * NULL.  It stays valid while the library is loaded.  Threads: any. */
void *mpi_state_function(const char *name);

#endif
