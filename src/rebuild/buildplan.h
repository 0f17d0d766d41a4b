/* buildplan.h - from what a node has to what will be built for it, with what, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_BUILDPLAN_H
#define REBUILD_BUILDPLAN_H

#include <jansson.h>
#include <stdbool.h>

struct err;
struct recipe;
struct versions;

/* What is wanted.  Zero-initialise, then set what you need. */
struct buildplan_how {
	const char *engine; /* "ringup" (NULL: the same) or "horovod"               */
	const char *const *frameworks; /* these only, and all of them; NULL: what is there */
	int framework_count;
	const struct recipe
		*recipe;     /* of horovod's version; NULL: there is none, so no build */
	const char *machine; /* "x86_64", of this node; NULL: not known                */
	bool without_mpi;    /* every MPI is rejected                                  */
};

/* buildplan_check - are there such an engine and such frameworks?  RINGUP_EINVAL says what
 * there is. */
int buildplan_check(const struct buildplan_how *how, struct err *e);

/*
 * buildplan_make - decide; nothing is read, run or changed.
 *
 * @facts is what find_all() gives, and, where somebody has looked, "probes" (probe.h) and
 * "packages" (packages.h).  Of the two the evidence in the framework's library goes first, then
 * a probe's, then the table's; where they differ, that is among the disagreements.
 *
 * Into *@planp an object of: engine, version, python {path, version, prefix}, frameworks
 * [{name, version, location, library, cxx11_abi, cxx11_abi_by, compiler, compiler_by,
 * cxx_standard, cxx_standard_by}], compiler {cc, cxx, family, version, installed, why},
 * cxx_standard, cxx11_abi, cuda {path, version}, nccl {version, library, header}, mpi
 * [{flavour, version, mpicc, mpicxx, mpirun, library, header}], packages [{name, why}], build
 * [{what, why}], env {NAME: value}, edits [name], adds [{to, from}], advisories [{id, text}],
 * rejected [{what, why}], disagreements [{about, probe, table}], possible, why_not, nearest.
 * What does not apply is null or empty.  What cannot be is no failure: possible is false,
 * why_not says why, and nearest what could be, or is null.
 *
 * Ownership: *@planp is the caller's to json_decref().
 * Returns 0, RINGUP_EINVAL (no such engine or framework) or RINGUP_ENOMEM.
 */
int buildplan_make(const struct buildplan_how *how, const json_t *facts,
		   const struct versions *t, json_t **planp, struct err *e);

#endif
