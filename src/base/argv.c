/* argv.c - build a command's argument list, word by word. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/argv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "ringup.h"

void argv_take(struct argv *a, char *word)
{
	/* One more place, for the NULL that ends the list. */
	char **end = word ? array_room(&a->word, a->count + 1, sizeof(*end)) : NULL;

	if (!end) {
		a->failed = true;
		free(word);
		return;
	}
	a->word[a->count++] = word;
}

void argv_add(struct argv *a, const char *fmt, ...)
{
	char *word;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&word, fmt, ap) < 0)
		word = NULL;
	va_end(ap);
	argv_take(a, word);
}

void argv_put(struct argv *a, ...)
{
	const char *word;
	va_list ap;

	va_start(ap, a);
	while ((word = va_arg(ap, const char *)))
		argv_take(a, strdup(word));
	va_end(ap);
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
