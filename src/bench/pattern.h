/* pattern.h - data for collectives whose result is known in advance, to the bit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <stdint.h>

#include "ringup.h"

/*
 * Element i of a rank is a small whole number and differs from rank to rank, from iteration to
 * iteration and from its neighbours, so that any omission, double addition, shift or leftover
 * shows. It repeats with a period that no slice or chunk is a multiple of.
 */
struct pattern {
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	int ranks;
	uint32_t iteration;
};

/* pattern_fill - write the contribution of @rank. */
void pattern_fill(const struct pattern *p, int rank, void *to, uint64_t count);

/* pattern_wrong - count the elements of @got that differ from @rank's contribution. */
uint64_t pattern_wrong(const struct pattern *p, int rank, const void *got, uint64_t count);

/* pattern_wrong_result - count the elements that differ from the combined result. */
uint64_t pattern_wrong_result(const struct pattern *p, const void *got, uint64_t count);

#endif
