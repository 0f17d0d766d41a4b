/* probe.h - probe compilers and framework headers by compiling with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_PROBE_H
#define REBUILD_PROBE_H

#include <jansson.h>
#include <stdbool.h>

#include "rebuild/textpool.h"

struct buildplan;
struct buildplan_how;
struct err;
struct versions;

enum { PROBE_STANDARDS = 24 };

/* Results for one compiler. */
struct probe_compiler {
	const char *cxx;
	const char *failed; /* why it does not work at all, or ""            */
	int abi[2];         /* the ABI of its objects if 0 or 1 is requested; -1: not tried */
	bool refuses[PROBE_STANDARDS]; /* [17]: framework headers do not compile as C++17 */
};

/* Results for one framework, by its location. */
struct probe_framework {
	const char *location;
	int cxx_standard; /* the oldest that its headers compile with, or 0           */
	int cxx11_abi;    /* the framework's own statement, where its library shows none; -1 */
};

/*
 * All probe results.  Zero-initialise; probes_free().
 *
 * Everything is compiled in a private folder that is removed afterwards; the next run removes a
 * killed run's folder.  A compiler gets 30 s, headers get 60.
 */
struct probes {
	struct textpool pool;
	const char *cmake; /* cmake's version; NULL: none                                */
	const char
		*glibcxx; /* the newest symbols of the libstdc++ that Python will load; NULL */
	struct probe_compiler *compilers;
	struct probe_framework *frameworks;
	int compiler_count, framework_count;
};

void probes_free(struct probes *p);

/* probe_of_compiler, probe_of_framework - the results for one, or NULL; @p may be NULL. */
struct probe_compiler *probe_of_compiler(const struct probes *p, const char *cxx);
struct probe_framework *probe_of_framework(const struct probes *p, const char *location);

/* probe_tools - find the versions of a build's tools, and the libstdc++ of the plan's
 * Python. */
void probe_tools(struct probes *p, const struct buildplan *plan);

/* probe_compiler - can @cxx build a shared library, with the requested C++ ABI?  @abi: 0, 1, or
 * -1 for both. */
int probe_compiler(struct probes *p, const char *cxx, int abi, struct err *e);

/* probe_headers - do the frameworks' headers compile with the plan's compiler at its standard,
 * or else at a newer one? */
int probe_headers(struct probes *p, const struct buildplan *plan, struct err *e);

/*
 * probe_plan - plan, probe the plan's choices, and plan again until the plan holds.
 *
 * If no installed compiler fits, the package manager is asked for more.  Notes in @facts each
 * mpicc without a compiler.  For the live node only.
 *
 * Ownership: *@plan is the caller's storage, for buildplan_free() on any return value.
 */
int probe_plan(const struct buildplan_how *how, json_t *facts, const struct versions *t,
	       struct buildplan *plan, struct err *e);

#endif
