/* sift.h - read a log in one pass and turn known messages into evidence. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SIFT_H
#define DIAGNOSE_SIFT_H

#include <stdint.h>

#include "diagnose/evidence.h"

struct err;
struct matcher;
struct reader;
struct unknown;

/*
 * One block of a log is in memory at a time, however long its lines are.  The cost beyond the
 * pass itself is limited by an allowance that grows with the bytes read: where known beginnings
 * follow each other more densely than in any real log, some are skipped.
 */
struct sieve {
	struct matcher *matcher;
	struct evidence evidence;
	struct unknown *unknown;
	char *block;
	uint64_t bytes;
	long lines;
	long unseen; /* beginnings that were skipped */
};

int sift_open(struct sieve *s, struct err *e);
void sift_close(struct sieve *s);

/* sift_log - all of @r, as log number @file. */
int sift_log(struct sieve *s, struct reader *r, int file, struct err *e);

#endif
