/* buildplan.h - turn the facts about a node into a build plan: parts, flags and reasons. */
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

/* The request.  Zero-initialise, then set what you need. */
struct buildplan_how {
	const char *engine; /* "ringup" (NULL: the same) or "horovod"               */
	const char *const *frameworks; /* these only, and all of them; NULL: all installed */
	int framework_count;
	const struct recipe
		*recipe;     /* of horovod's version; NULL: there is none, so no build */
	const char *machine; /* "x86_64", of this node; NULL: unknown                  */
	bool without_mpi;    /* every MPI is rejected                                  */
	const struct probes *probes;     /* probe results; NULL: none                   */
	const struct packages *packages; /* installable packages; NULL: not looked up */
};

enum { BUILDPLAN_FRAMEWORKS = 8 };

/* Parts of a plan (jsonrecord.h), in the order of their JSON.  Texts are never NULL: "" means
 * unknown or not applicable. */
#define BUILDPLAN_PYTHON(T, N, F, S) T(S, path) T(S, version) T(S, prefix)
/* compiler: "gcc 13.3.1"; _by: its source, "elf", "probe" or "table" */
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
/* probe: a value that a probe or a library shows; table: the table's other value */
#define BUILDPLAN_DISAGREEMENT(T, N, F, S) T(S, about) T(S, probe) T(S, table)

RECORD_STRUCT(buildplan_python, BUILDPLAN_PYTHON);
RECORD_STRUCT(buildplan_framework, BUILDPLAN_FRAMEWORK);
RECORD_STRUCT(buildplan_compiler, BUILDPLAN_COMPILER);
RECORD_STRUCT(buildplan_mpi, BUILDPLAN_MPI);
RECORD_STRUCT(buildplan_cuda, BUILDPLAN_CUDA);
RECORD_STRUCT(buildplan_nccl, BUILDPLAN_NCCL);
RECORD_STRUCT(buildplan_disagreement, BUILDPLAN_DISAGREEMENT);

/* Fields that a plan copies from the facts. */
extern const struct jsonrecord_field buildplan_python_fields[], buildplan_framework_fields[],
	buildplan_mpi_fields[], buildplan_cuda_fields[], buildplan_nccl_fields[];

/* A plan; it owns its texts. */
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
	const char *manager;         /* package manager: "apt", "dnf" or ""     */
	struct textpairs packages;   /* to be installed, and why               */
	struct textpairs build;      /* the artefacts to build, and their users*/
	struct textpairs env;        /* environment variables of the build     */
	struct textpairs edits;      /* names of the recipe's edits, and why   */
	struct textpairs adds;       /* files added to the sources, and their origin */
	struct textpairs advisories; /* ids and texts                          */
	struct textpairs rejected;   /* rejected candidates, and why           */
	struct buildplan_disagreement *disagreements;
	int disagreement_count;
	bool possible;
	const char *why_not, *nearest; /* if not possible; nearest: an alternative, or "" */
};

/* buildplan_check - are engine and frameworks known?  The text of RINGUP_EINVAL lists the known
 * ones. */
int buildplan_check(const struct buildplan_how *how, struct err *e);

/*
 * buildplan_make - make the plan; reads no file, runs no program, changes nothing.
 *
 * @facts comes from find_all().  Evidence in the framework's library comes before a probe's,
 * then the table's; where they differ, the plan has a disagreement.  An impossible plan is no
 * failure: possible is false, why_not says why, and nearest names an alternative.
 *
 * Ownership: *@plan is the caller's storage, for buildplan_free() on any return value.
 * Returns 0, RINGUP_EINVAL (no such engine or framework) or RINGUP_ENOMEM.
 */
int buildplan_make(const struct buildplan_how *how, const json_t *facts,
		   const struct versions *t, struct buildplan *plan, struct err *e);

/* buildplan_blank - an empty plan for @engine, which owns nothing.
 * buildplan_free - free the plan's contents. */
void buildplan_blank(struct buildplan *plan, const char *engine);
void buildplan_free(struct buildplan *plan);

/* buildplan_world - the names and versions that a recipe's conditions are about.  @keras counts
 * only where TensorFlow is served. */
struct textpairs buildplan_world(struct textpool *pool, const struct buildplan *plan,
				 const char *python, const char *keras, const char *cmake,
				 bool mpi);

/* buildplan_framework - the plan's framework @name, or NULL. */
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
 * nearest.  Inapplicable members are null or empty.
 * buildplan_json_mpi - one of its MPIs.
 *
 * The caller's reference, or NULL without memory.
 */
json_t *buildplan_json(const struct buildplan *plan);
json_t *buildplan_json_mpi(const struct buildplan_mpi *mpi);

#endif
