/* unknown.h - find the first complaint of each process that matches no signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_UNKNOWN_H
#define DIAGNOSE_UNKNOWN_H

#include <stddef.h>
#include <stdint.h>

#include "diagnose/evidence.h"

struct err;

/*
 * A process is a log, a rank and a host in it; lines that state neither are one process.  Its
 * first error counts, unless a signature of a cause matched before.  A warning of a failure
 * counts if the whole log has nothing worse.
 *
 * A log is read in pieces: unknown_read() records the complaints that begin in a piece,
 * unknown_cover() reports the signatures in it, in order, and unknown_settle() ends the piece.
 */
struct unknown;

int unknown_open(struct unknown **up, struct err *e);
void unknown_close(struct unknown *u);

/* unknown_begin - start log number @file. */
void unknown_begin(struct unknown *u, int file);

/* A piece of a log: the bytes @block[from..to), after which the bytes up to @len may be read;
 * @before bytes and some lines came before @block. */
struct piece {
	const char *block;
	size_t from, to, len;
	uint64_t before;
};

/* unknown_read - record the complaints in the piece. */
void unknown_read(struct unknown *u, const struct piece *piece);

/*
 * unknown_cover - report that @s matches at @at of the log.
 *
 * A vague message does not make known the exception that follows it, and one that healthy jobs
 * print does not make known an exception that ends its process.
 */
void unknown_cover(struct unknown *u, uint64_t at, const struct signature *s);

/* unknown_end - after the last piece: report the last error of a process that went on after its
 * first. */
void unknown_end(struct unknown *u, struct evidence *v);

/* unknown_settle - decide on complaints that end before @end, and put them into @v. */
void unknown_settle(struct unknown *u, uint64_t end, struct evidence *v);

#endif
