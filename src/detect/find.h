/* find.h - find all software that detect knows, as one JSON object. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_FIND_H
#define DETECT_FIND_H

#include <jansson.h>

struct err;

/* Where to look.  Zero-initialise, then set what you need. */
struct find_how {
	const char *root;   /* a recorded or mounted tree; NULL or "": this node */
	const char *python; /* only this one; NULL or "": all                    */
	const char *nccl;   /* RINGUP_NCCL, of jobs on this node; NULL or "": not set */
};

/*
 * find_all - pythons, frameworks, compilers, cuda, nccl, mpi, engines, problems.
 *
 * A framework that was built for CUDA has a member nccl, of nccllibs_choose(), whose member
 * fault is of nccllibs_judge(); that of others is null.
 *
 * Nothing is imported, and of the programs found only gcc is run, if the node is live and gcc's
 * files do not show its version.  Unreadable files are in problems, an array of {path, reason},
 * and are never a failure.
 *
 * Ownership: *@out is the caller's to json_decref().
 * Returns 0, RINGUP_ESYSTEM (root cannot be opened), RINGUP_EINVAL (no Python at @how->python)
 * or RINGUP_ENOMEM.
 */
int find_all(const struct find_how *how, json_t **out, struct err *e);

#endif
