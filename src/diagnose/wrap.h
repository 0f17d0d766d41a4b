/* wrap.h - the JSON, or the head of syslog, around a line of a log. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_WRAP_H
#define DIAGNOSE_WRAP_H

#include <stdbool.h>

/*
 * wrap_open - from a line to the message in it, which docker, Fluentd, the journal and others
 * have under a key such as "log" or "message".  A line that is no such object stays as it is.
 * Returns whether another key says that the message is an error.
 */
bool wrap_open(const char **line, const char **end);

/* wrap_next - from what closes a message of JSON at @p to the message in the next line, whose
 * end is *@stop then; NULL where @p is no such place. */
const char *wrap_next(const char *p, const char *end, const char **stop);

/* wrap_skip_syslog - past "<6>1 DATE HOST PROGRAM PID ID -", as RFC 5424 has it, or @line. */
const char *wrap_skip_syslog(const char *line, const char *end);

#endif
