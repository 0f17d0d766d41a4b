/* fields.h - the rest of a text, and what its fields hold. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_FIELDS_H
#define DIAGNOSE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

enum { FIELDS_TEXT = 128, FIELDS_HOSTS = 4 };

/* What a message tells besides being one.  Empty, or -1: not told. */
struct fields {
	char address[64];
	char interface[32];
	char value[FIELDS_TEXT];
	char host[FIELDS_HOSTS][65]; /* that the message names */
	int hosts;
	int port;
	int rank;   /* that the message is about */
	int signal; /* that ended a process, or 0 */
	int status; /* of a process that ended, or -1 */
};

/* fields_init - nothing is told yet. */
void fields_init(struct fields *f);

/*
 * fields_literal - past what is literal at the beginning of *@rest, which is moved on; NULL if
 * that does not stand at @at.  *@looked is as below.
 */
const char *fields_literal(const char **rest, const char *at, const char *end, size_t *looked);

/*
 * fields_match - does @rest of a text (signature.h) fit what begins at @at?
 *
 * Looks at no more than @end, and for {*} and {**} at a few hundred bytes.  Adds the
 * bytes that it looked at to *@looked.  @f holds what was found also on failure.
 */
bool fields_match(const char *rest, const char *at, const char *end, struct fields *f,
		  size_t *looked);

/*
 * fields_box - what the lines "Key: value" after @at tell, as in Open MPI's messages:
 * up to a line of dashes, and never far.  A line may begin with the mark of a rank.
 */
void fields_box(const char *at, const char *end, struct fields *f, size_t *looked);

/* fields_host - add a host if it is a name or an address and not there yet. */
void fields_host(struct fields *f, const char *at, size_t len);

/* fields_unmark - past the marks that launchers put before a rank's lines. */
const char *fields_unmark(const char *at, const char *end, int *rank);

#endif
