/* relay.h - all-to-all on a grid where not all hosts are connected: blocks are relayed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_RELAY_H
#define BACKEND_RELAY_H

#include <stdint.h>

#include "backend/cut.h"
#include "coll/step.h"

/*
 * A block from one host to another is passed on along one dimension of the grid after the
 * other: after dimensions 0 .. d-1 it lies on the host whose first d digits are the
 * receiver's and whose others are the sender's.  So a host has as many blocks to pass on
 * each time as there are hosts, sends radix - 1 messages along each dimension, and each
 * block crosses the network once per dimension.  A host that leans sends all blocks to the
 * one it leans on first, and gets all from it last.
 *
 * A chunk's vector consists of areas of cut.half elements: blocks that this host's ranks
 * have put, blocks that they will take, blocks to send in the next round, and one area of
 * received blocks for each round, since neighbours may be ahead.
 */

/* relay_areas - the number of areas in a vector. */
int relay_areas(const struct grid *g);

/*
 * relay_busiest - the most elements that lie on any host at a time, were all one chunk;
 * *pairsp: the most pairs of hosts that they belong to, since of each pair a chunk may
 * have one element more than its share.  Writes to @load, which has an entry per host.
 */
uint64_t relay_busiest(const struct cut *c, uint64_t *load, uint64_t *pairsp);

/* relay_steps - as sweep_steps(), of chunk @k. */
int relay_steps(struct cut *c, uint64_t k, struct step *out);

/* relay_fill - at the start of @round: sort the blocks received so far into those to send. */
void relay_fill(struct cut *c, uint64_t k, int round, unsigned char *vector);

#endif
