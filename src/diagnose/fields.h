/* fields.h - match the rest of a signature's text and extract its fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_FIELDS_H
#define DIAGNOSE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

enum { FIELDS_TEXT = 128, FIELDS_HOSTS = 4 };

/* Values that a message holds.  Empty, or -1: not stated. */
struct fields {
	char address[64];
	char interface[32];
	char value[FIELDS_TEXT];
	char host[FIELDS_HOSTS][65]; /* that the message names */
	int hosts;
	int port;
	int rank;   /* that the message is about */
	int signal; /* the signal that ended a process, or 0 */
	int status; /* of an ended process, or -1 */
};

/* fields_init - set all fields to "not stated". */
void fields_init(struct fields *f);

/* fields_literal - match the literal beginning of *@rest at @at; returns the place after it and
 * advances *@rest, or NULL.  *@looked is as below. */
const char *fields_literal(const char **rest, const char *at, const char *end, size_t *looked);

/*
 * fields_match - does @rest of a text (signature.h) match at @at?
 *
 * Reads up to @end, and for {*} and {**} a few hundred bytes.  Adds the number of bytes read to
 * *@looked.  @f holds the fields found so far on failure, too.
 */
bool fields_match(const char *rest, const char *at, const char *end, struct fields *f,
		  size_t *looked);

/* fields_box - extract the lines "Key: value" after @at, as in Open MPI's messages: up to a
 * line of dashes, and never far.  A line may begin with the mark of a rank. */
void fields_box(const char *at, const char *end, struct fields *f, size_t *looked);

/* fields_host - add a host if it is a name or an address and not yet there. */
void fields_host(struct fields *f, const char *at, size_t len);

/* fields_show - copy bytes for display: '?' replaces control characters and invalid UTF-8. @out
 * may be @text. */
void fields_show(char *out, size_t size, const char *text, size_t len);

/* fields_elide - copy a line of any length to @size bytes: of a long one whose end has a colon,
 * as nested errors have, the beginning and the end.  Returns the length. */
size_t fields_elide(char *out, size_t size, const char *line, const char *end);

/* fields_label - skip srun's label of a task, "3: "; NULL if there is none. */
const char *fields_label(const char *at, const char *end, int *n);

/* fields_unmark - skip the marks that launchers put before a rank's lines. */
const char *fields_unmark(const char *at, const char *end, int *rank);

#endif
