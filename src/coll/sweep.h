/* sweep.h - algorithms between hosts: along one dimension of a grid after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_SWEEP_H
#define COLL_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/step.h"
#include "wire/grid.h"

enum sweep_kind {
	SWEEP_ALLREDUCE,
	SWEEP_REDUCESCATTER,
	SWEEP_ALLGATHER,
	SWEEP_BROADCAST,
	SWEEP_EXCHANGE,
};

/*
 * A collective on a vector that each host has.
 *
 * The vector consists of one block per host, in the order of grid_place(): the
 * block at place i is [start[i], start[i + 1]).  An allgather begins with each
 * host's own block in place, a reduce-scatter ends with it; in an allreduce and
 * a broadcast blocks only tell which host works on which elements.  An exchange
 * sends block i to the host at place i and receives into the blocks that into[]
 * describes; it needs connections between all hosts.
 *
 * Whole: in an allreduce or broadcast each host works on all elements, which
 * takes fewer rounds and more bytes.
 *
 * Contributions are added up in an order that depends on the number of hosts
 * alone: along dimension 0 by host number, the sums along dimension 1, and so
 * on; a host that leans comes right behind the one it leans on.  So each element
 * has the same sum to the bit, whatever its place and however it is cut.
 */
struct sweep {
	enum sweep_kind kind;
	bool whole;
	int root;              /* broadcast: a host                                  */
	const uint64_t *start; /* hosts + 1 entries                                  */
	const uint64_t *into;  /* exchange: likewise, blocks that come from others   */
};

/* sweep_most - the most steps, and rounds, that sweep_steps() emits. */
int sweep_most(const struct grid *g);

/*
 * sweep_steps - write the steps of @host to @out; returns their number.
 *
 * Sorted by round.  STEP_RECV_REDUCEs of a round are sorted by host; sends begin
 * behind this host, so that not all send to the same one first.
 */
int sweep_steps(const struct grid *g, int host, const struct sweep *s, struct step *out);

#endif
