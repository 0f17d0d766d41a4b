/* mpi_find.h - find this process's MPI library, and load the module that calls it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_MPI_FIND_H
#define BACKEND_MPI_FIND_H

#include <stddef.h>

struct err;
struct mpi_module;

/*
 * mpi_find_name - "openmpi", "mpich", or the value of RINGUP_MPI (also a path).
 *
 * A process can have one MPI only, so the first of these decides: the library
 * that is loaded already; RINGUP_MPI; the launcher, as its variables tell.
 * @loaded, a summary, and the others are "" if there is none.  Returns NULL if nothing decides,
 * or if RINGUP_MPI names another one than is loaded.
 */
const char *mpi_find_name(const char *loaded, const char *asked, const char *launcher,
			  struct err *e);

/* mpi_find_summary - name and version from MPI_Get_library_version()'s text: "Open MPI
 * v4.1.4", "MPICH 4.0.2 (ch4:ucx)". */
enum { MPI_FIND_SUMMARY = 128, MPI_FIND_VERSION = 32 };
void mpi_find_summary(const char *text, char out[MPI_FIND_SUMMARY]);

/* mpi_find_kind - "openmpi" or "mpich" for a summary; every MPI but Open MPI counts as
 * "mpich", whose binary interface it has. */
const char *mpi_find_kind(const char *summary);

/* mpi_find_launcher - the launcher, by its variables in the environment: "openmpi",
 * "mpich" or ""; *size: the processes that it started, 0 if it does not say. */
const char *mpi_find_launcher(int *size);

/* mpi_find_version - the version in a summary: "4.1.4" of "Open MPI v4.1.4"; "" if none. */
void mpi_find_version(const char *summary, char out[MPI_FIND_VERSION]);

/* mpi_find_launcher_version - the launcher's version, by its variables: "5.0.11",
 * "4" (any up to 4.1, which do not tell), or "". */
void mpi_find_launcher_version(char out[MPI_FIND_VERSION]);

/*
 * mpi_find_best - the one of @n file names that is the module for @kind in @version.
 *
 * A module for one MPI of several is called ringup-mpi-KIND-VERSION.so, the one that was
 * built with ringup itself ringup-mpi-KIND.so.  The best is the exact version;
 * then the newest with the same first number, since its binary interface is the same; then the
 * one without.  For @version "": the one without, else the newest.  NULL: there is none.
 */
const char *mpi_find_best(const char *const *names, size_t n, const char *kind,
			  const char *version);

/*
 * mpi_find_module - load the module for this process's MPI.
 *
 * Loads no second MPI, and no module twice; a loaded module stays.  Returns 0, or
 * RINGUP_ENOBACKEND or RINGUP_EINVAL with the reason.
 */
int mpi_find_module(const struct mpi_module **modp, char summary[MPI_FIND_SUMMARY],
		    struct err *e);

/*
 * mpi_find_begin - MPI_Init_thread(), if this process has an MPI that is not initialised.
 *
 * For a job whose back end will be MPI and whose ranks meet by the launcher's store: Open MPI
 * 5 cannot be initialised in a process that is connected to its launcher already.  A failure
 * here comes again, and is reported, when the back end is opened.
 */
void mpi_find_begin(void);

#endif
