/* textpool.c - a pool of strings and lists of string pairs that are freed together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/textpool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct textpool_block {
	struct textpool_block *next;
	max_align_t data[];
};

static void *block_take(struct textpool *p, size_t size)
{
	struct textpool_block *b = calloc(1, sizeof(*b) + size);

	if (!b) {
		p->is_short = true;
		return NULL;
	}
	b->next = p->first;
	p->first = b;
	return b->data;
}

const char *textpool_keep(struct textpool *p, const char *s)
{
	size_t n = s ? strlen(s) : 0;
	char *copy = n ? block_take(p, n + 1) : NULL;

	return copy ? memcpy(copy, s, n) : "";
}

const char *textpool_format(struct textpool *p, const char *fmt, va_list ap)
{
	char *made = NULL;
	const char *kept;

	if (vasprintf(&made, fmt, ap) < 0) {
		made = NULL;
		p->is_short = true;
	}
	kept = textpool_keep(p, made);
	free(made);
	return kept;
}

void *textpool_more(struct textpool *p, void *arrayp, int *count, size_t size)
{
	size_t n = (size_t)*count;
	char *array;

	memcpy(&array, arrayp, sizeof(array));
	/* The array is full at each power of two. */
	if (!(n & (n - 1))) {
		char *grown = block_take(p, (n ? 2 * n : 1) * size);

		if (!grown)
			return NULL;
		if (n)
			memcpy(grown, array, n * size);
		array = grown;
		memcpy(arrayp, &array, sizeof(array));
	}
	(*count)++;
	return array + n * size;
}

void textpool_add(struct textpool *p, struct textpairs *list, const char *name,
		  const char *text)
{
	struct textpair *o = textpool_more(p, &list->at, &list->count, sizeof(*o));

	if (o)
		*o = (struct textpair){ textpool_keep(p, name), textpool_keep(p, text) };
}

void textpool_set(struct textpool *p, struct textpairs *list, const char *name,
		  const char *text)
{
	for (int i = 0; i < list->count; i++)
		if (!strcmp(list->at[i].name, name)) {
			list->at[i].text = textpool_keep(p, text);
			return;
		}
	textpool_add(p, list, name, text);
}

const char *textpool_get(const struct textpairs *list, const char *name)
{
	for (int i = 0; i < list->count; i++)
		if (!strcmp(list->at[i].name, name))
			return list->at[i].text;
	return NULL;
}

void textpool_free(struct textpool *p)
{
	struct textpool_block *b, *next;

	for (b = p->first; b; b = next) {
		next = b->next;
		free(b);
	}
	*p = (struct textpool){ 0 };
}
