/* choose.h - which compiler: the framework's own, or the best that fits all limits. */
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

/* From @min to @max of @family, both included and either "-"; others if it is not of that
 * family. */
struct choose_limit {
	char family[8];
	char min[32], max[32];
	char who[64]; /* "CUDA 12.4" */
};

/* What a framework was built with. */
struct choose_maker {
	char framework[80]; /* "torch 2.13.0" */
	char family[8];     /* empty: not known */
	char version[32];
	char glibcxx[16]; /* the newest symbols that it wants, "3.4.30", or empty */
};

/* What is needed.  Zero-initialise, then set what applies. */
struct choose_how {
	const struct versions *table;
	const struct probes *probes;     /* NULL: nothing was tried               */
	const struct packages *packages; /* NULL: nothing more can be had         */
	bool cxx;            /* C++, not just C                                        */
	int abi;             /* _GLIBCXX_USE_CXX11_ABI of the frameworks; -1: any       */
	int standard;        /* C++17 is 17; 0: any                                    */
	const char *machine; /* "x86_64"; NULL: any                                    */
	char glibcxx[16];    /* the newest symbols where the result runs; empty: unknown */
	struct choose_maker makers[CHOOSE_MAKERS];
	int maker_count;
	struct choose_limit limits[CHOOSE_LIMITS];
	int limit_count;
};

struct choice {
	bool found, installed;
	const char *family, *version, *cc, *cxx; /* texts of the facts */
	const char *package;                     /* that brings it, if it is not installed */
	char why[400];                           /* it, and not another; or why there is none */
	char nearest[300]; /* what would be possible; empty if nothing is known */
};

/*
 * choose_compiler - the best of @facts' compilers and of those that packages would bring.
 *
 * One that the node has goes before one to be installed.  Of these: what a framework was built
 * with; then what has no older libstdc++ than the frameworks want; then gcc, with which all
 * frameworks have been tried, the nearest to theirs, and of two as near the older.  What
 * probes found of a compiler goes before what the table knows.
 *
 * A framework of a gcc before 5 takes objects of such a gcc only: the layout of std::function
 * is not what the ABI flag is about.  Nothing is chosen that wants a newer libstdc++ than the
 * one there will be when the result is loaded.
 *
 * Adds to @rejected, of @pool, each that was not taken, and why.
 */
void choose_compiler(const struct choose_how *how, const json_t *facts, struct textpool *pool,
		     struct textpairs *rejected, struct choice *out);

#endif
