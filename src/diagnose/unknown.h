/* unknown.h - the first complaint of each process, where no signature knows it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_UNKNOWN_H
#define DIAGNOSE_UNKNOWN_H

#include <stddef.h>
#include <stdint.h>

#include "diagnose/evidence.h"

struct err;

/*
 * A process is a log, a rank and a host in it; lines that tell neither are one process.
 * Its first error counts, unless a signature that names a cause fits one before.  A
 * warning of a failure counts where the whole log has nothing worse.
 *
 * A log is read in pieces: unknown_read() takes down the complaints that begin in a
 * piece, unknown_cover() tells of signatures in it, in order, and unknown_settle() ends
 * the piece.
 */
struct unknown;

int unknown_open(struct unknown **up, struct err *e);
void unknown_close(struct unknown *u);

/* unknown_begin - log number @file follows. */
void unknown_begin(struct unknown *u, int file);

/* A piece of a log: the bytes @block[from..to), behind which some up to @len may be
 * looked at; @before bytes and some lines came before @block. */
struct piece {
	const char *block;
	size_t from, to, len;
	uint64_t before;
};

/* unknown_read - take down what complains in it. */
void unknown_read(struct unknown *u, const struct piece *piece);

/* unknown_cover - a signature of @kind fits at @at of the log. */
void unknown_cover(struct unknown *u, uint64_t at, enum signature_kind kind);

/* unknown_settle - what ends before @end is decided, and goes into @v. */
void unknown_settle(struct unknown *u, uint64_t end, struct evidence *v);

#endif
