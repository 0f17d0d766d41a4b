/* complaint.h - whether a line of any program's log complains, by its form alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_COMPLAINT_H
#define DIAGNOSE_COMPLAINT_H

#include <stdbool.h>

enum complaint {
	COMPLAINT_NONE,
	COMPLAINT_WARNING, /* of a failure; other warnings are none */
	COMPLAINT_ERROR,
	COMPLAINT_EXCEPTION, /* an error, as Python and Java print it */
	COMPLAINT_TRACEBACK, /* the line before the stack that an exception of Python follows */
	COMPLAINT_DEATH,     /* the shell's word for a process that a signal ended */
	COMPLAINT_RULE,      /* a line of dashes, between which Open MPI puts its messages */
};

/*
 * complaint_judge - the level that a line says of itself: WARN of NCCL, glog's letter,
 * a word of Python's, Java's or syslog's, the first word of a Python exception.
 *
 * The words are looked for where loggers put them, behind marks, dates and names, within
 * the first COMPLAINT_HEAD bytes.  *@said is where the message begins.
 */
enum { COMPLAINT_HEAD = 192 };
enum complaint complaint_judge(const char *line, const char *end, const char **said);

/* complaint_has_level - does such a word say a level of the line, a harmless one too? */
bool complaint_has_level(const char *line, const char *end, enum complaint *level);

/*
 * complaint_look - a place before which no line complains that begins at @p or later, a little
 * before what may be a complaint, or before @end.
 */
const char *complaint_look(const char *p, const char *end);

/* complaint_box - the same of the first line of a message between lines of dashes. */
enum complaint complaint_box(const char *line, const char *end);

#endif
