/* textpool.h - a pool of strings and lists of string pairs that are freed together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_TEXTPOOL_H
#define REBUILD_TEXTPOOL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised, a pool is empty.  Its strings live until textpool_free(). */
struct textpool {
	struct textpool_block *first;
	bool is_short; /* memory was refused: results are incomplete */
};

/* A name and a text, such as a package and the reason for it; neither is NULL. */
struct textpair {
	const char *name, *text;
};

struct textpairs {
	struct textpair *at;
	int count;
};

/* textpool_keep - a copy of @s; "" for NULL, and where there is no memory. */
const char *textpool_keep(struct textpool *p, const char *s);

/* textpool_format - a formatted text of any length. */
const char *textpool_format(struct textpool *p, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/* textpool_more - append a zeroed element of @size bytes to the array at *@arrayp, which has
 * *@count of them and moves when it grows; NULL without memory. */
void *textpool_more(struct textpool *p, void *arrayp, int *count, size_t size);

/* textpool_add - append a pair of copies.  textpool_set - the same, or replace the text of an
 * existing @name.  textpool_get - the text of @name, or NULL. */
void textpool_add(struct textpool *p, struct textpairs *list, const char *name,
		  const char *text);
void textpool_set(struct textpool *p, struct textpairs *list, const char *name,
		  const char *text);
const char *textpool_get(const struct textpairs *list, const char *name);

void textpool_free(struct textpool *p);

#endif
