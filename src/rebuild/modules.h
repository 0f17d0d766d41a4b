/* modules.h - build and test the modules of the back end mpi, one for each MPI of a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_MODULES_H
#define REBUILD_MODULES_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * One module for each MPI, by kind and version (backend/mpi_find.h chooses), in one folder with
 * the library.  modules.json beside them, a stamp, lists the MPI and the source of each build.
 * A module that was built together with the library has no version in its name and no stamp; it
 * is for the first MPI of its kind.
 *
 * An MPI is an entry of detect's list: {flavour, version, mpicc, mpirun, library, header}.
 */
enum { MODULES_NAME = 96, MODULES_KEY = 80 };

/* modules_folder - the folder of the modules of this program's library, below @root. */
int modules_folder(char out[PATH_MAX], const char *root, struct err *e);

/* modules_name - "ringup-mpi-openmpi-5.0.11.so". */
void modules_name(char out[MODULES_NAME], const json_t *mpi);

/* modules_source - the key of this release's module source. */
int modules_source(char out[MODULES_KEY], struct err *e);

/* modules_why_not - the reason why nothing can be built for @mpi, such as a missing mpi.h or
 * mpicc, with the package to install; or NULL. */
const char *modules_why_not(const json_t *mpi);

enum modules_fate {
	MODULES_BUILT,      /* and stamped                       */
	MODULES_INSTALLED,  /* with the library                  */
	MODULES_STALE,      /* to be built again                 */
	MODULES_MISSING,    /* to be built                       */
	MODULES_IMPOSSIBLE, /* missing, and nothing can be built */
};

/* State of the module for one MPI. */
struct modules_state {
	const json_t *mpi; /* of the facts                                    */
	const char *flavour, *version;
	char module[MODULES_NAME];
	enum modules_fate fate;
	const char *why; /* it cannot be used: a sentence for the last three fates, or NULL */
};

/* modules_is_wanted - does this module have to be built? */
bool modules_is_wanted(const struct modules_state *s);

/*
 * modules_states - the state of the module for each MPI of @facts in @folder, below @root.
 *
 * @source is modules_source(), or "" to ignore the source.  Returns the number of states, in
 * detect's order, in *@statesp, which is the caller's to free(); none without memory.
 */
int modules_states(const char *root, const char *folder, const char *source,
		   const json_t *facts, struct modules_state **statesp);

/* Inputs of a build besides the MPI. */
struct modules_how {
	const char *cc;       /* the compiler behind mpicc; NULL or "": mpicc's own        */
	const char *compiler; /* "gcc 12.2.0"                                            */
	const char *home;     /* a folder that is its HOME and TMPDIR                    */
	const char *tool;     /* the program `ringup`, run as a rank to prove the module */
	int log_fd;           /* output of compiler and mpirun; -1: none                 */
	int64_t prove_ms;     /* limit for each proof; 0: two minutes                    */
};

/* modules_key - the cache key for the module of @mpi, over all inputs of its build. */
int modules_key(char out[MODULES_KEY], const struct modules_how *how, const json_t *mpi,
		struct err *e);

/* modules_build - compile the module of @mpi into the folder @into. */
int modules_build(const struct modules_how *how, const json_t *mpi, const char *into,
		  struct err *e);

/* One module to prove, and the result: 0, 1 if there is no mpirun, or RINGUP_ENOBACKEND or
 * RINGUP_ETIMEDOUT with the reason in why. */
struct modules_trial {
	const json_t *mpi;
	char path[PATH_MAX];
	int rc;
	struct err why;
};

/*
 * modules_prove - for each of @trials, two ranks started by its MPI's mpirun run a sum.
 *
 * All run in parallel, since mpirun mostly waits.  Their output is in the log in the order of
 * @trials.  Returns 0 if all could be tried, whatever the results.
 */
int modules_prove(const struct modules_how *how, struct modules_trial *trials, int n,
		  struct err *e);

#endif
