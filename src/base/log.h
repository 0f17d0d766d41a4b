/* log.h - log messages for the user, on stderr. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

struct err;

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* log_set_level - by name: "warn", or Horovod's spelling "warning", in any case. */
int log_set_level(const char *name, struct err *e);

/* log_set_who - the text in front of every message, e.g. "rank 3"; copied. */
void log_set_who(const char *who);

/* log_is_on - would a message of this level be shown? */
int log_is_on(enum log_level level);

/*
 * log_warn, log_info - one line.
 *
 * Written by one write(2), so lines of several ranks do not mix.  Control
 * characters in it are shown as '?', since log text may come from anywhere.
 * Threads: any.
 */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
