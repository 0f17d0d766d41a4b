/* notice.h - a word that the launcher of an elastic job shares with its ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_NOTICE_H
#define WIRE_NOTICE_H

#include <stdint.h>

struct err;

/*
 * One page in a memory file, which ranks inherit and map for reading.  Its word holds a
 * generation's number and the changes of hosts since its ranks met: to read it is one load.
 */
struct notice {
	int fd;         /* the launcher's; 0: none */
	uint64_t *word; /* NULL: none              */
};

enum { NOTICE_REMOVED = 1, NOTICE_ADDED = 2, NOTICE_BITS = 2 };

/* notice_create - the launcher's side; the launcher alone can write. */
int notice_create(struct notice *n, struct err *e);

/* notice_map - a rank's side, of descriptor @fd, which stays open. */
int notice_map(struct notice *n, int fd, struct err *e);

/* notice_set - @bits have changed for @generation. */
void notice_set(struct notice *n, uint32_t generation, unsigned bits);

/* notice_read - the bits for @generation; 0 if the word is about another one. */
unsigned notice_read(const struct notice *n, uint32_t generation);

/* notice_close - either side; @n may be all zero. */
void notice_close(struct notice *n);

#endif
