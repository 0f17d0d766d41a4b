/* mpi_early.h - initialise MPI before this library itself connects to the launcher. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_MPI_EARLY_H
#define BACKEND_MPI_EARLY_H

/*
 * mpi_early_begin - MPI_Init_thread(), if this process has an MPI that is not initialised.
 *
 * For a job whose back end will be MPI and whose ranks meet by the launcher's store: Open MPI
 * 5 cannot be initialised in a process that is connected to its launcher already.  A failure
 * here comes again, and is reported, when the back end is opened.
 */
void mpi_early_begin(void);

#endif
