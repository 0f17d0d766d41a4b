/* modules.h - the modules by which the back end mpi speaks to each MPI of a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_MODULES_H
#define REBUILD_MODULES_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * One module for each MPI, by kind and version (backend/mpi_find.h chooses), in one folder
 * with the library.  modules.json beside them, a stamp, says what each was built for and
 * from which source.  A module that was built together with the library has no version in
 * its name and no stamp; it is for the first MPI of its kind.
 *
 * An MPI is an entry of detect's list: {flavour, version, mpicc, mpirun, library, header}.
 */
enum { MODULES_NAME = 96, MODULES_KEY = 80 };

/* modules_folder - where the modules of this program's library are, below @root. */
int modules_folder(char out[PATH_MAX], const char *root, struct err *e);

/* modules_name - "ringup-mpi-openmpi-5.0.11.so". */
void modules_name(char out[MODULES_NAME], const json_t *mpi);

/* modules_source - the key of the source that this release brings. */
int modules_source(char out[MODULES_KEY], struct err *e);

/* modules_why_not - why nothing can be built for @mpi: it has no mpi.h or no mpicc, and what
 * brings them; or NULL. */
const char *modules_why_not(const json_t *mpi);

enum modules_fate {
	MODULES_BUILT,      /* and stamped                       */
	MODULES_INSTALLED,  /* with the library                  */
	MODULES_STALE,      /* to be built again                 */
	MODULES_MISSING,    /* to be built                       */
	MODULES_IMPOSSIBLE, /* missing, and nothing can be built */
};

/* What there is for one MPI. */
struct modules_state {
	const json_t *mpi; /* of the facts                                    */
	const char *flavour, *version;
	char module[MODULES_NAME];
	enum modules_fate fate;
	const char *why; /* it cannot be used: a sentence for the last three fates, or NULL */
};

/* modules_is_wanted - is there something to build? */
bool modules_is_wanted(const struct modules_state *s);

/*
 * modules_states - what there is for each MPI of @facts in @folder, below @root.
 *
 * @source is modules_source(), or "" to ask nothing about the source.  Returns how many there
 * are, in detect's order, in *@statesp, which is the caller's to free(); none without memory.
 */
int modules_states(const char *root, const char *folder, const char *source,
		   const json_t *facts, struct modules_state **statesp);

/* What a build needs to know besides the MPI. */
struct modules_how {
	const char *cc;       /* the compiler behind mpicc; NULL or "": mpicc's own        */
	const char *compiler; /* "gcc 12.2.0"                                            */
	const char *home;     /* a folder that is its HOME and TMPDIR                    */
	const char *tool;     /* the program `ringup`, a rank of which proves the module */
	int log_fd;           /* what compiler and mpirun say; -1: nowhere               */
};

/* modules_key - of the cache, for the module of @mpi: all that its bytes depend on. */
int modules_key(char out[MODULES_KEY], const struct modules_how *how, const json_t *mpi,
		struct err *e);

/* modules_build - compile the module of @mpi into the folder @into. */
int modules_build(const struct modules_how *how, const json_t *mpi, const char *into,
		  struct err *e);

/* One module to be proved, and what came of it: 0, 1 if there is no mpirun to ask, or
 * RINGUP_ENOBACKEND or RINGUP_ETIMEDOUT with the reason in why. */
struct modules_trial {
	const json_t *mpi;
	char path[PATH_MAX];
	int rc;
	struct err why;
};

/*
 * modules_prove - for each of @trials two ranks, which its MPI's mpirun starts, add up by it.
 *
 * All at the same time: most of it is mpirun waiting for somebody.  What they say is in the log
 * in the order of @trials.  Returns 0 if all could be tried, whatever came of it.
 */
int modules_prove(const struct modules_how *how, struct modules_trial *trials, int n,
		  struct err *e);

#endif
