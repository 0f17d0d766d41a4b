/* mpi_early.h - begin MPI before this library itself connects to the launcher. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_MPI_EARLY_H
#define BACKEND_MPI_EARLY_H

/*
 * mpi_early_begin - MPI_Init_thread(), if this process has an MPI that has not begun.
 *
 * For a rank whose back end will be MPI and whose ranks meet by the launcher's store: Open MPI
 * 5 cannot begin in a process that is connected to its launcher already.  What fails here fails
 * again, and is told, when the back end is opened.
 */
void mpi_early_begin(void);

#endif
