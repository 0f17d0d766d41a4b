/* argv.c - the words of a command, put together one by one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/argv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "ringup.h"

void argv_add(struct argv *a, const char *fmt, ...)
{
	char **more = realloc(a->word, sizeof(*more) * ((size_t)a->count + 2));
	va_list ap;

	if (!more) {
		a->failed = true;
		return;
	}
	a->word = more;
	va_start(ap, fmt);
	if (vasprintf(&a->word[a->count], fmt, ap) < 0)
		a->failed = true;
	else
		a->count++;
	va_end(ap);
	a->word[a->count] = NULL;
}

char *const *argv_words(const struct argv *a, struct err *e)
{
	if (!a->failed && a->count)
		return a->word;
	fail(e, RINGUP_ENOMEM, "the words of a command");
	return NULL;
}

void argv_free(struct argv *a)
{
	while (a->count)
		free(a->word[--a->count]);
	free(a->word);
	a->word = NULL;
}
