/* argv.h - the words of a command, put together one by one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_ARGV_H
#define BENCH_ARGV_H

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

/* argv_words - what proc_start() takes, or NULL if there was no memory; @a's. */
char *const *argv_words(const struct argv *a, struct err *e);

void argv_free(struct argv *a);

#endif
