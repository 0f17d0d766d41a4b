/* choose.h - choose a compiler: the framework's own, or the best that fits all limits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_CHOOSE_H
#define REBUILD_CHOOSE_H

#include <jansson.h>
#include <stdbool.h>

#include "rebuild/textpool.h"

struct packages;
struct probes;
struct versions;

enum { CHOOSE_LIMITS = 16, CHOOSE_MAKERS = 8 };

/* Versions @min to @max of @family, both included and either "-" (open); no limit on other
 * families. */
struct choose_limit {
	char family[8];
	char min[32], max[32];
	char who[64]; /* "CUDA 12.4" */
};

/* The compiler of a framework. */
struct choose_maker {
	char framework[80]; /* "torch 2.13.0" */
	char family[8];     /* empty: unknown */
	char version[32];
	char glibcxx[16]; /* newest symbols that it needs, "3.4.30", or empty */
};

/* The requirements.  Zero-initialise, then set what applies. */
struct choose_how {
	const struct versions *table;
	const struct probes *probes;     /* NULL: none was probed                 */
	const struct packages *packages; /* NULL: none is installable             */
	bool cxx;            /* C++, not just C                                        */
	int abi;             /* _GLIBCXX_USE_CXX11_ABI of the frameworks; -1: any       */
	int standard;        /* C++17 is 17; 0: any                                    */
	const char *machine; /* "x86_64"; NULL: any                                    */
	char glibcxx[16];    /* newest symbols where the result runs; empty: unknown */
	struct choose_maker makers[CHOOSE_MAKERS];
	int maker_count;
	struct choose_limit limits[CHOOSE_LIMITS];
	int limit_count;
};

struct choice {
	bool found, installed;
	const char *family, *version, *cc, *cxx; /* texts of the facts */
	const char *package;                     /* that has it, if it is not installed */
	char why[400];                           /* why this one; or why there is none */
	char nearest[300]; /* a possible alternative; empty if none is known */
};

/*
 * choose_compiler - the best of @facts' compilers and of those that packages would bring.
 *
 * An installed compiler comes before one to be installed.  Next comes a framework's own
 * compiler; then one whose libstdc++ is not older than the frameworks need; then gcc, with
 * which all frameworks have been tried; then the version nearest to theirs, the older of two.
 * Probe results take precedence over the table.
 *
 * A framework built with a gcc before 5 accepts only objects of such a gcc: the layout of
 * std::function differs, beyond the ABI flag.  No compiler is chosen whose objects need a newer
 * libstdc++ than the one present when the result is loaded.
 *
 * Adds each rejected compiler with the reason to @rejected, of @pool.
 */
void choose_compiler(const struct choose_how *how, const json_t *facts, struct textpool *pool,
		     struct textpairs *rejected, struct choice *out);

#endif
