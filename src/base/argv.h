/* argv.h - build a command's argument list, word by word. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARGV_H
#define BASE_ARGV_H

#include <stdbool.h>

struct err;

/* Zero-initialise. */
struct argv {
	char **word; /* ends with NULL once there is one */
	int count;
	bool failed; /* there was no memory */
};

/* argv_add - the next word, as printf would write it. */
void argv_add(struct argv *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* argv_put - add copies of several words, unchanged; NULL ends them. */
void argv_put(struct argv *a, ...) __attribute__((sentinel));

/* argv_take - the next word is @word, which is on the heap and @a's now; NULL: no memory. */
void argv_take(struct argv *a, char *word);

/* argv_words - the list for proc_start(), or NULL if there was no memory; @a's. */
char *const *argv_words(const struct argv *a, struct err *e);

void argv_free(struct argv *a);

#endif
