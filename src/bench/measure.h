/* measure.h - how long a collective takes, by way of ringup.h alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "ringup.h"

struct err;

enum measure_what { MEASURE_ALLREDUCE, MEASURE_BROADCAST, MEASURE_ALLGATHER, MEASURE_BARRIER };

struct measure {
	enum measure_what what;
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	uint64_t bytes; /* of the tensor; of all blocks together in an allgather */
	int samples;    /* 0: as many as fit into half a second, 10 to 200       */
	bool check;
};

/*
 * Times in microseconds for one call.  Each sample is that of its slowest rank;
 * short calls are timed several at a time.
 */
struct measured {
	uint64_t bytes, count; /* as measured; elements of one rank              */
	double min, median, max;
	double algbw, busbw; /* 10^9 bytes a second, from the median; 0 in a barrier */
	uint64_t wrong;      /* elements, on all ranks, in all checked iterations */
	int samples, calls;  /* calls per sample                                  */
};

/*
 * measure_run - every rank of @r calls it with the same @m.
 *
 * busbw is algbw times the share of the bytes that has to cross the slowest
 * place whatever the algorithm: 2(n-1)/n for an allreduce, (n-1)/n for an
 * allgather, 1 for a broadcast.  Input is written anew before each sample, and
 * results are checked after it, outside of the timed part.
 */
int measure_run(struct ringup *r, const struct measure *m, struct measured *to, struct err *e);

/* measure_find - "allreduce" is MEASURE_ALLREDUCE; -1 if there is none. */
int measure_find(const char *name);
const char *measure_name(enum measure_what what);

#endif
