/* probe.h - what a compiler and a framework's headers really do, found out by trying. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_PROBE_H
#define REBUILD_PROBE_H

#include <jansson.h>
#include <stdint.h>

struct buildplan;
struct buildplan_how;
struct err;
struct versions;

/*
 * What probes add to the facts of find_all(), as "probes":
 *
 *	tools       {cmake: version}, programs that a build uses
 *	glibcxx     the newest symbols of the libstdc++ that the plan's Python will load
 *	compilers   [{cxx, abi: {"0": 0, "1": 1}, standards: {"17": true}, failed}]: the ABI
 *		    that comes out where one is asked for; whether the frameworks' headers
 *		    compile; failed is why it does not work at all, or null
 *	frameworks  [{location, cxx_standard, cxx11_abi}]: the oldest that its headers take; the
 *		    ABI that it says it has, where its library does not show that
 *
 * Everything is compiled in a private folder that is gone afterwards; what a run that was
 * killed has left is removed by the next.  A compiler gets 30 s, headers get 60.
 */

/* probe_tools - versions of programs that a build uses, and
 * the libstdc++ of the plan's Python. */
int probe_tools(json_t *facts, const struct buildplan *plan, struct err *e);

/* probe_compiler - does @cxx make a shared library, and of the C++ ABI that it is asked for?
 * @abi: 0, 1, or -1 for both. */
int probe_compiler(json_t *facts, const char *cxx, int abi, struct err *e);

/* probe_headers - do the headers of the plan's frameworks take @cxx at the plan's standard, or
 * else at a newer one? */
int probe_headers(json_t *facts, const struct buildplan *plan, struct err *e);

/* probe_frameworks - ask those of @plan whose library is silent about it for their C++ ABI:
 * each is imported once, by its Python, as whoever owns that.  One that does not answer stays
 * silent. */
void probe_frameworks(json_t *facts, const struct buildplan *plan);

/*
 * probe_plan - plan, try what the plan chose, and plan again until it holds.
 *
 * Where no compiler of the node fits, the package manager is asked for more.  Adds "probes" and
 * "packages" to @facts.  For the live node only.
 *
 * Ownership: *@plan is the caller's storage, for buildplan_free() whatever is returned.
 */
int probe_plan(const struct buildplan_how *how, json_t *facts, const struct versions *t,
	       struct buildplan *plan, struct err *e);

#endif
