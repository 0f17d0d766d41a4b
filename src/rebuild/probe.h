/* probe.h - what a compiler and a framework's headers really do, found out by trying. */
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

/* What came of having a compiler compile. */
struct probe_compiler {
	const char *cxx;
	const char *failed; /* why it does not work at all, or ""            */
	int abi[2];         /* what comes out where 0 or 1 is asked for; -1: not tried */
	bool refuses[PROBE_STANDARDS]; /* the frameworks' headers do not compile as C++17, ...
					*/
};

/* What a framework, by its location, shows when it is asked. */
struct probe_framework {
	const char *location;
	int cxx_standard; /* the oldest that its headers take, or 0                   */
	int cxx11_abi;    /* that it says it has, where its library does not show it; -1 */
};

/*
 * What was found out by trying.  Zero-initialise; probes_free().
 *
 * Everything is compiled in a private folder that is gone afterwards; what a run that was
 * killed has left is removed by the next.  A compiler gets 30 s, headers get 60.
 */
struct probes {
	struct textpool pool;
	const char *cmake; /* the version of a program that a build uses; NULL: none     */
	const char
		*glibcxx; /* the newest symbols of the libstdc++ that Python will load; NULL */
	struct probe_compiler *compilers;
	struct probe_framework *frameworks;
	int compiler_count, framework_count;
};

void probes_free(struct probes *p);

/* probe_of_compiler, probe_of_framework - what is known of one, or NULL; @p may be NULL. */
struct probe_compiler *probe_of_compiler(const struct probes *p, const char *cxx);
struct probe_framework *probe_of_framework(const struct probes *p, const char *location);

/* probe_tools - versions of programs that a build uses, and the libstdc++ of the plan's
 * Python. */
void probe_tools(struct probes *p, const struct buildplan *plan);

/* probe_compiler - does @cxx make a shared library, and of the C++ ABI that it is asked for?
 * @abi: 0, 1, or -1 for both. */
int probe_compiler(struct probes *p, const char *cxx, int abi, struct err *e);

/* probe_headers - do the headers of the plan's frameworks take its compiler at its standard, or
 * else at a newer one? */
int probe_headers(struct probes *p, const struct buildplan *plan, struct err *e);

/*
 * probe_plan - plan, try what the plan chose, and plan again until it holds.
 *
 * Where no compiler of the node fits, the package manager is asked for more.  Notes among
 * @facts what mpicc has no compiler.  For the live node only.
 *
 * Ownership: *@plan is the caller's storage, for buildplan_free() whatever is returned.
 */
int probe_plan(const struct buildplan_how *how, json_t *facts, const struct versions *t,
	       struct buildplan *plan, struct err *e);

#endif
