/* log.c - log messages for the user, one line and one write each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

static enum log_level threshold = LOG_WARN;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of prefix */
static char prefix[64];

static const struct {
	const char *name;
	enum log_level level;
} names[] = {
	{ "fatal", LOG_ERROR },  { "error", LOG_ERROR }, { "warn", LOG_WARN },
	{ "warning", LOG_WARN }, { "info", LOG_INFO },   { "debug", LOG_DEBUG },
	{ "trace", LOG_TRACE },
};

int log_set_level(const char *name, struct err *e)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcasecmp(name, names[i].name)) {
			__atomic_store_n(&threshold, names[i].level, __ATOMIC_RELAXED);
			return 0;
		}
	return fail(e, RINGUP_EINVAL,
		    "RINGUP_LOG_LEVEL=%s: not one of error, warn, info, debug, trace", name);
}

void log_set_who(const char *who)
{
	pthread_mutex_lock(&lock);
	snprintf(prefix, sizeof(prefix), "%s", who);
	pthread_mutex_unlock(&lock);
}

int log_is_on(enum log_level level)
{
	return level <= __atomic_load_n(&threshold, __ATOMIC_RELAXED);
}

static void log_put(enum log_level level, const char *word, const char *fmt, va_list ap)
{
	char line[1024];
	size_t n;
	int saved = errno;

	if (!log_is_on(level))
		return;
	pthread_mutex_lock(&lock);
	n = (size_t)snprintf(line, sizeof(line), "ringup: %s%s%s: ", prefix,
			     *prefix ? ": " : "", word);
	pthread_mutex_unlock(&lock);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	fail_clean(line);
	n = strlen(line);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0) {
		/* A failure to log cannot be logged. */
	}
	errno = saved;
}

#define LEVEL(name, LEVEL_NAME)                            \
	void log_##name(const char *fmt, ...)              \
	{                                                  \
		va_list ap;                                \
                                                           \
		va_start(ap, fmt);                         \
		log_put(LOG_##LEVEL_NAME, #name, fmt, ap); \
		va_end(ap);                                \
	}
LEVEL(warn, WARN)
LEVEL(info, INFO)
#undef LEVEL
