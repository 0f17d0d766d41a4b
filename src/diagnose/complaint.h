/* complaint.h - tell from its form alone whether a line of a log is a complaint. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_COMPLAINT_H
#define DIAGNOSE_COMPLAINT_H

#include <stdbool.h>

enum complaint {
	COMPLAINT_NONE,
	COMPLAINT_WARNING, /* about a failure; others are ignored */
	COMPLAINT_ERROR,
	COMPLAINT_EXCEPTION, /* an error, as Python and Java print it */
	COMPLAINT_TRACEBACK, /* the line before the stack of a Python exception */
	COMPLAINT_DEATH,     /* a shell's message about a process killed by a signal */
	COMPLAINT_RULE,      /* a line of dashes; Open MPI has one before and after a message */
};

/*
 * complaint_judge - the level that a line states: WARN of NCCL, glog's letter, a word of
 * Python's, Java's or syslog's, the first word of a Python exception.
 *
 * The words are searched where loggers put them, after marks, dates and names, within the first
 * COMPLAINT_HEAD bytes.  *@said is the start of the message.
 */
enum { COMPLAINT_HEAD = 192 };
enum complaint complaint_judge(const char *line, const char *end, const char **said);

/* complaint_has_level - does the line state a level, even a harmless one? */
bool complaint_has_level(const char *line, const char *end, enum complaint *level);

/* complaint_is_detail - is the line a Java exception below a record of a logger that is no
 * error? The line before is looked for from @start on. */
bool complaint_is_detail(const char *start, const char *line, const char *end);

/* complaint_tries_again - does the message tell that another attempt follows: "retry 1 of 10"?
 */
bool complaint_tries_again(const char *said, const char *end);

/* complaint_look - skip: no line that begins at @p or later and before the result complains.
 * The result is a little before a possible complaint, or before @end. */
const char *complaint_look(const char *p, const char *end);

/* complaint_box - the same for the first line of a message between lines of dashes. */
enum complaint complaint_box(const char *line, const char *end);

#endif
