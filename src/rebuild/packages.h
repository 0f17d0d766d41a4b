/* packages.h - compilers in the node's distribution: list and install their packages. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_PACKAGES_H
#define REBUILD_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rebuild/textpool.h"

struct err;
struct versions;

/* A compiler in a package, and the paths that it gets. */
struct packages_compiler {
	const char *family, *version, *cc, *cxx, *package;
};

/* Zero-initialised: nothing is known. */
struct packages {
	struct textpool pool;
	const char *manager; /* "apt", "dnf" or NULL           */
	bool asked;          /* the manager was asked for its real list */
	struct packages_compiler *at;
	int count;
};

/*
 * packages_find - list the distribution's compilers in *@p, for packages_free().
 *
 * On the live node (@root NULL, "" or "/") the manager is asked for its real list; for a
 * recorded tree, or without an answer, the table has the distribution's compilers.  Reads
 * existing lists, and changes nothing.
 */
void packages_find(struct packages *p, const char *root, const struct versions *t);
void packages_free(struct packages *p);

/* packages_parse_os - "debian" and "12" out of an os-release; both empty if it is none. A
 * derived distribution gets its parent's name and release. */
void packages_parse_os(const char *text, size_t len, char name[32], char release[32]);

/* packages_parse_names - add the compilers from a list of package names, one a line. */
void packages_parse_names(struct packages *p, const char *manager, const char *text);

/* The outcome of an installation. */
enum packages_fate {
	PACKAGES_DONE,
	PACKAGES_OFFLINE, /* no package list, or no package, can be fetched  */
	PACKAGES_LOCKED,  /* another process holds the package manager's lock */
	PACKAGES_MISSING, /* the distribution lacks a package                */
	PACKAGES_DENIED,  /* only root may                                   */
	PACKAGES_FAILED,  /* any other failure                               */
};

struct packages_how {
	const char *manager; /* "apt" or "dnf"                                          */
	const struct textpairs *names; /* a plan's packages                              */
	int log_fd;         /* gets the package manager's output; -1: none does        */
	int64_t lock_ms;    /* limit of the wait for another process's lock            */
	int64_t timeout_ms; /* limit of the whole call                                 */
	int offline;        /* 1: download nothing, else PACKAGES_OFFLINE               */
};

/*
 * packages_install - install a plan's packages beside the existing ones.
 *
 * No alternative and no default is changed; nothing is removed.  Package lists are fetched only
 * if there are none, or if they are out of date.
 *
 * Sets *@fate.  Returns 0, or RINGUP_ESYSTEM, RINGUP_ETIMEDOUT or RINGUP_EINVAL with a sentence
 * that names the next step.
 */
int packages_install(const struct packages_how *how, enum packages_fate *fate, struct err *e);

#endif
