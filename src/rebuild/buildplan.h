/* buildplan.h - from what a node has to what will be built for it, with what, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_BUILDPLAN_H
#define REBUILD_BUILDPLAN_H

#include <jansson.h>
#include <stdbool.h>

#include "rebuild/jsonrecord.h"
#include "rebuild/textpool.h"

struct err;
struct packages;
struct probes;
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
	const struct probes *probes;     /* what was tried; NULL: nothing               */
	const struct packages *packages; /* what could be installed; NULL: nobody asked */
};

enum { BUILDPLAN_FRAMEWORKS = 8 };

/*
 * Parts of a plan (jsonrecord.h), in the order of their JSON.  Texts are never NULL: "" is what
 * does not apply or is not known.
 */
#define BUILDPLAN_PYTHON(T, N, F, S) T(S, path) T(S, version) T(S, prefix)
/* compiler: "gcc 13.3.1"; _by: "elf", "probe" or "table", which tells it */
#define BUILDPLAN_FRAMEWORK(T, N, F, S) \
	T(S, name)                      \
	T(S, version)                   \
	T(S, location)                  \
	T(S, library)                   \
	N(S, cxx11_abi, -1)             \
	T(S, cxx11_abi_by)              \
	T(S, compiler) T(S, compiler_by) N(S, cxx_standard, 0) T(S, cxx_standard_by)
#define BUILDPLAN_COMPILER(T, N, F, S) \
	T(S, cc) T(S, cxx) T(S, family) T(S, version) F(S, installed) T(S, why)
#define BUILDPLAN_MPI(T, N, F, S) \
	T(S, flavour)             \
	T(S, version) T(S, mpicc) T(S, mpirun) T(S, library) T(S, header) T(S, mpicxx)
#define BUILDPLAN_CUDA(T, N, F, S) T(S, path) T(S, version) T(S, nvcc)
#define BUILDPLAN_NCCL(T, N, F, S) T(S, version) T(S, library) T(S, header)
/* what a probe or a library shows, and what the table of versions has otherwise */
#define BUILDPLAN_DISAGREEMENT(T, N, F, S) T(S, about) T(S, probe) T(S, table)

RECORD_STRUCT(buildplan_python, BUILDPLAN_PYTHON);
RECORD_STRUCT(buildplan_framework, BUILDPLAN_FRAMEWORK);
RECORD_STRUCT(buildplan_compiler, BUILDPLAN_COMPILER);
RECORD_STRUCT(buildplan_mpi, BUILDPLAN_MPI);
RECORD_STRUCT(buildplan_cuda, BUILDPLAN_CUDA);
RECORD_STRUCT(buildplan_nccl, BUILDPLAN_NCCL);
RECORD_STRUCT(buildplan_disagreement, BUILDPLAN_DISAGREEMENT);

/* What a plan takes from the facts as it is there. */
extern const struct jsonrecord_field buildplan_python_fields[], buildplan_framework_fields[],
	buildplan_mpi_fields[], buildplan_cuda_fields[], buildplan_nccl_fields[];

/* A plan; its texts are its own. */
struct buildplan {
	struct textpool pool;
	const char *engine, *version;
	struct buildplan_python python; /* path "": there is none */
	struct buildplan_framework frameworks[BUILDPLAN_FRAMEWORKS];
	int framework_count;
	struct buildplan_compiler compiler; /* family "": none is needed, or none fits */
	int cxx_standard;                   /* 0: any                                  */
	int cxx11_abi;                      /* -1: any                                 */
	bool gpu;                           /* it is built for CUDA and NCCL           */
	struct buildplan_cuda cuda;
	struct buildplan_nccl nccl;
	struct buildplan_mpi *mpi;
	int mpi_count;
	const char *manager;         /* of packages: "apt", "dnf" or ""         */
	struct textpairs packages;   /* to be installed, and why               */
	struct textpairs build;      /* what is made, and for whom             */
	struct textpairs env;        /* variables of the build                 */
	struct textpairs edits;      /* of the sources, and why                */
	struct textpairs adds;       /* files of the sources, and from where   */
	struct textpairs advisories; /* ids, and what they say                 */
	struct textpairs rejected;   /* what is not taken, and why             */
	struct buildplan_disagreement *disagreements;
	int disagreement_count;
	bool possible;
	const char *why_not, *nearest; /* if it is not; nearest: what could be, or "" */
};

/* buildplan_check - are there such an engine and such frameworks?  RINGUP_EINVAL says what
 * there is. */
int buildplan_check(const struct buildplan_how *how, struct err *e);

/*
 * buildplan_make - decide; nothing is read, run or changed.
 *
 * @facts is what find_all() gives.  The evidence in the framework's library goes first, then a
 * probe's, then the table's; where they differ, that is among the disagreements.  What cannot
 * be is no failure: possible is false, why_not says why, and nearest what could be.
 *
 * Ownership: *@plan is the caller's storage, for buildplan_free() whatever is returned.
 * Returns 0, RINGUP_EINVAL (no such engine or framework) or RINGUP_ENOMEM.
 */
int buildplan_make(const struct buildplan_how *how, const json_t *facts,
		   const struct versions *t, struct buildplan *plan, struct err *e);

/* buildplan_blank - a plan for nothing yet, by @engine.  buildplan_free - a blank one again
 * owns nothing. */
void buildplan_blank(struct buildplan *plan, const char *engine);
void buildplan_free(struct buildplan *plan);

/* buildplan_framework - that called @name, or NULL. */
const struct buildplan_framework *buildplan_framework(const struct buildplan *plan,
						      const char *name);

/*
 * buildplan_json - @plan as it is printed: an object of engine, version, python {path, version,
 * prefix}, frameworks [{name, version, location, library, cxx11_abi, cxx11_abi_by, compiler,
 * compiler_by, cxx_standard, cxx_standard_by}], compiler {cc, cxx, family, version, installed,
 * why}, cxx_standard, cxx11_abi, cuda {path, version, nvcc}, nccl {version, library, header},
 * mpi [{flavour, version, mpicc, mpirun, library, header, mpicxx}], packages [{name, why}],
 * build [{what, why}], env {NAME: value}, edits [name], adds [{to, from}], advisories [{id,
 * text}], rejected [{what, why}], disagreements [{about, probe, table}], possible, why_not,
 * nearest.  What does not apply is null or empty.
 * buildplan_json_mpi - one of its MPIs.
 *
 * The caller's reference, or NULL without memory.
 */
json_t *buildplan_json(const struct buildplan *plan);
json_t *buildplan_json_mpi(const struct buildplan_mpi *mpi);

#endif
