/* versions.h - the table of compatible versions: frameworks, compilers, CUDA, NCCL, engines. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_VERSIONS_H
#define REBUILD_VERSIONS_H

#include <stddef.h>

struct err;

/*
 * compat/versions.tsv: one fact a line, eight fields with tabs between them; lines that begin
 * with '#' and the line of headings are ignored.  An attribute may end in @VARIANT: the fact
 * then holds for that variant only (cp37, cpu, cu126, conda, debian).
 */
enum version_trust {
	VERSION_MEMORY,
	VERSION_ISSUE,
	VERSION_RECIPE,
	VERSION_DOC,
	VERSION_TESTED
};

struct version_fact {
	char *subject, *min, *max;   /* "torch", "2.6", "2.6"; "-" is open                   */
	char *attr, *variant;        /* "cxx11_abi", "cu126"; variant may be empty           */
	char *value, *source, *note; /* note may be empty                                    */
	enum version_trust trust;
};

struct versions {
	char *text; /* the storage of the facts' texts */
	struct version_fact *at;
	int count;
};

/*
 * versions_parse - parse @len bytes of @text; @name is for messages.
 *
 * Refused, with the line: other than eight fields, and an unknown trust.  The table comes with
 * this program, and tests/py/test_tables.py checks it.
 *
 * Ownership: versions_free() also after a failure.
 */
int versions_parse(struct versions *t, const char *name, const char *text, size_t len,
		   struct err *e);

/* versions_load - from the file at @path; NULL: the one that came with this program. */
int versions_load(struct versions *t, const char *path, struct err *e);
void versions_free(struct versions *t);

/*
 * versions_ask - the fact about @attr of @subject at @version, or NULL.
 *
 * @variants, ended by NULL, or NULL, are the variants of the thing, the most specific first: a
 * fact about a variant takes precedence over one about all of them, and then the more trusted
 * one over the less trusted.
 */
const struct version_fact *versions_ask(const struct versions *t, const char *subject,
					const char *version, const char *attr,
					const char *const *variants);

/* Versions of JAX that ringup.jax does not serve, since they have no jax.ffi. */
#define JAX_UNSERVED "0-0.4"

/* versions_in - is @version in @ranges, such as "3.9-3.13" or "2.7,3.5-3.8"? */
int versions_in(const char *version, const char *ranges);

#endif
