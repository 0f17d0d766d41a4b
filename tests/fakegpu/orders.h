/* orders.h - for tests: operations of three groups and the world, in random order on each rank.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORDERS_H
#define TESTS_ORDERS_H

#include "fakegpu/gpu_ranks.h"

enum { GROUPS = 3, ROUNDS = 30 };

static int order_rounds = ROUNDS;

static uint32_t draw(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 16;
}

/* Each rank starts the operations of a round in an order of its own, until one fails. */
static inline void orders(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	struct ringup_group *g[GROUPS + 1] = { ringup_world(r) };
	int lists[GROUPS][RANKS_MAX], counts[GROUPS], failed = 0;
	uint32_t seed = 17 * (uint32_t)rank + 1;
	float host[8] = { 0 };
	void *at[GROUPS + 1];

	gpu_sit(&s, rank);
	for (int i = 0; i < GROUPS; i++) {
		counts[i] = 0;
		/* All but one rank: each two groups share some, and three form a circle. */
		for (int k = 0; k < size; k++)
			if (k != i % size || size == 1)
				lists[i][counts[i]++] = k;
		check(!ringup_group_add(r, lists[i], counts[i], &g[i + 1]), "a group", rank);
	}
	for (int i = 0; i <= GROUPS; i++)
		at[i] = gpu_new(&s, sizeof(host));
	for (int round = 0; round < order_rounds && !failed; round++) {
		struct ringup_op *op[GROUPS + 1] = { NULL };
		int turn[GROUPS + 1] = { 0, 1, 2, 3 };

		for (int i = GROUPS; i > 0; i--) {
			int k = (int)(draw(&seed) % (uint32_t)(i + 1)), t = turn[i];

			turn[i] = turn[k];
			turn[k] = t;
		}
		for (int i = 0; i <= GROUPS; i++) {
			struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
						   .name = "order",
						   .in = at[turn[i]],
						   .out = at[turn[i]],
						   .count = 8,
						   .dtype = RINGUP_F32,
						   .memory = RINGUP_CUDA,
						   .stream = s.stream };

			if (ringup_rank(g[turn[i]]) < 0)
				continue;
			for (int k = 0; k < 8; k++)
				host[k] = (float)(turn[i] + 1);
			gpu_put_bytes(&s, at[turn[i]], host, sizeof(host));
			check(gpu_sync(&s, 20000), "the stream goes on", rank);
			failed |= ringup_allreduce(g[turn[i]], &a, &op[turn[i]]);
			check(!failed, "starts", rank);
		}
		for (int i = GROUPS; i >= 0; i--) {
			if (!op[turn[i]])
				continue;
			failed |= ringup_wait(op[turn[i]], -1);
			check(!failed, "ends", rank);
			check(failed || (gpu_get_bytes(&s, host, at[turn[i]], sizeof(host)) &&
					 host[7] == (float)((turn[i] + 1) *
							    ringup_size(g[turn[i]]))),
			      "its sum", rank);
		}
	}
	for (int i = 0; i <= GROUPS; i++)
		gpu_drop(&s, at[i]);
	gpu_stand(&s);
}

#endif
