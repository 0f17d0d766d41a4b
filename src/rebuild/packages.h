/* packages.h - compilers that this node's distribution has, and how to get one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_PACKAGES_H
#define REBUILD_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rebuild/textpool.h"

struct err;
struct versions;

/* A compiler that a package would bring, and where it puts it. */
struct packages_compiler {
	const char *family, *version, *cc, *cxx, *package;
};

/* Zero-initialised, it is what is not known of any node. */
struct packages {
	struct textpool pool;
	const char *manager; /* "apt", "dnf" or NULL           */
	bool asked;          /* the manager, what it really has */
	struct packages_compiler *at;
	int count;
};

/*
 * packages_find - the compilers that the distribution has, into *@p, for packages_free().
 *
 * On the live node (@root NULL, "" or "/") the manager is asked what it really has; for a
 * recorded tree, or where it cannot be asked, the table tells what the distribution has.
 * Reads lists that are there already, and changes nothing.
 */
void packages_find(struct packages *p, const char *root, const struct versions *t);
void packages_free(struct packages *p);

/* packages_parse_os - "debian" and "12" out of an os-release; both empty if it is none.
 * What is built from another distribution is called by that one's name and release. */
void packages_parse_os(const char *text, size_t len, char name[32], char release[32]);

/* packages_parse_names - add the compilers among the names of packages, a line each. */
void packages_parse_names(struct packages *p, const char *manager, const char *text);

/* Why packages could not be installed. */
enum packages_fate {
	PACKAGES_DONE,
	PACKAGES_OFFLINE, /* no package list, or no package, can be fetched  */
	PACKAGES_LOCKED,  /* somebody else holds the package manager's lock  */
	PACKAGES_MISSING, /* the distribution does not have one              */
	PACKAGES_DENIED,  /* only root may                                   */
	PACKAGES_FAILED,  /* anything else                                   */
};

struct packages_how {
	const char *manager; /* "apt" or "dnf"                                          */
	const struct textpairs *names; /* a plan's packages                              */
	int log_fd;         /* what the package manager says goes there, too; -1: not  */
	int64_t lock_ms;    /* how long to wait for somebody else's lock               */
	int64_t timeout_ms; /* and for all of it                                       */
	int offline;        /* 1: fetch nothing; what is not here is PACKAGES_OFFLINE   */
};

/*
 * packages_install - install what a plan asks for, beside what is there.
 *
 * No alternative and no default is changed; nothing is removed.  Lists of packages are
 * fetched only if there are none, or if they lead nowhere.
 *
 * Sets *@fate.  Returns 0, or RINGUP_ESYSTEM, RINGUP_ETIMEDOUT or RINGUP_EINVAL with a
 * sentence that says what to do next.
 */
int packages_install(const struct packages_how *how, enum packages_fate *fate, struct err *e);

#endif
