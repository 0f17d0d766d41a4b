/* wrap.h - unwrap log lines from JSON or from the head of a syslog line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_WRAP_H
#define DIAGNOSE_WRAP_H

#include <stdbool.h>

/*
 * wrap_open - move from a line to the message in it, which docker, Fluentd, the journal and
 * others have under a key such as "log" or "message".  Other lines stay as they are.  Returns
 * whether another key says that the message is an error.
 */
bool wrap_open(const char **line, const char **end);

/* wrap_next - from the end of a JSON message at @p to the message in the next line, whose end
 * is *@stop then; NULL if @p is no such end. */
const char *wrap_next(const char *p, const char *end, const char **stop);

/* wrap_skip_syslog - skip "<6>1 DATE HOST PROGRAM PID ID -" of RFC 5424; else @line. */
const char *wrap_skip_syslog(const char *line, const char *end);

#endif
