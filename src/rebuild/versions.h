/* versions.h - the table of what goes with what: frameworks, compilers, CUDA, NCCL, engines. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_VERSIONS_H
#define REBUILD_VERSIONS_H

#include <stddef.h>

struct err;

/*
 * compat/versions.tsv: one fact a line, eight fields with tabs between them; lines that begin
 * with '#' and the line of headings are for people.  An attribute may end in @VARIANT: the
 * fact is then one of that variant only (cp37, cpu, cu126, conda, debian).
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
	int line;
};

struct versions {
	char *text; /* what the facts point into */
	struct version_fact *at;
	int count;
};

/*
 * versions_parse - facts out of @len bytes of @text, which @name calls.
 *
 * A subject, an attribute or a trust that is not known, a value that is not of its
 * attribute's kind, a range whose end is before its start: refused, with the line.  So are
 * lines out of order, and two facts of equal trust about overlapping ranges that differ.
 *
 * Ownership: versions_free() also after a failure.
 */
int versions_parse(struct versions *t, const char *name, const char *text, size_t len,
		   struct err *e);

/* versions_load - from the file at @path; NULL: the one that came with this program. */
int versions_load(struct versions *t, const char *path, struct err *e);
void versions_free(struct versions *t);

/*
 * versions_ask - what is known of @attr of @subject at @version, or NULL.
 *
 * @variants, ended by NULL, or NULL, are those that the thing is, the most telling first:
 * a fact about a variant goes before one about all of them, and then the more trusted goes
 * before the less.
 */
const struct version_fact *versions_ask(const struct versions *t, const char *subject,
					const char *version, const char *attr,
					const char *const *variants);

/* versions_in - is @version in a value that is a range or several, "3.9-3.13" or "2.7,3.5-3.8"?
 */
int versions_in(const char *version, const char *ranges);

#endif
