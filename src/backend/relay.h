/* relay.h - an all-to-all between more hosts than are connected with each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_RELAY_H
#define BACKEND_RELAY_H

#include <stdint.h>

#include "backend/cut.h"
#include "coll/step.h"

/*
 * What a host has for another one is passed on along one dimension of the grid after the
 * other: after dimensions 0 .. d-1 it lies where these digits are the receiver's and the
 * others still the sender's.  So a host has as many blocks to pass on each time as there
 * are hosts, sends radix - 1 messages along each dimension, and everything crosses the
 * network once per dimension.  A host that leans gives all to the one it leans on first,
 * and has all from it last.
 *
 * A chunk's vector consists of areas of the same size, cut.half elements: what this host's
 * ranks have put, what they will take, what is to be sent in the round that comes, and for
 * each round what has come in it: neighbours may be ahead.
 */

/* relay_areas - how many. */
int relay_areas(const struct grid *g);

/*
 * relay_busiest - the most elements that lie on any host at a time, were all one chunk,
 * and in *pairsp of how many pairs of hosts: of each, a chunk may have one element more
 * than its share.  Writes to @load, which has an entry per host.
 */
uint64_t relay_busiest(const struct cut *c, uint64_t *load, uint64_t *pairsp);

/* relay_steps - as sweep_steps(), of chunk @k. */
int relay_steps(struct cut *c, uint64_t k, struct step *out);

/* relay_fill - sort into what is sent in @round what had come before; when it begins. */
void relay_fill(struct cut *c, uint64_t k, int round, unsigned char *vector);

#endif
