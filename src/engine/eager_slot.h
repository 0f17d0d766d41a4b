/* eager_slot.h - write eager slots, and compute results from those of all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_EAGER_SLOT_H
#define ENGINE_EAGER_SLOT_H

#include <stdint.h>

#include "engine/comm.h"
#include "engine/ledger.h"

struct request;
struct op_signature;
struct err;

/* The most ranks whose slots are reduced together. */
enum { EAGER_SLOT_RANKS = 4096 };

/* eager_slot_share - bytes that this rank puts into its slot for @r. */
uint64_t eager_slot_share(const struct comm *c, const struct request *r);

/* eager_slot_splits_bytes - bytes of the splits at the start of an all-to-all's slot. */
static inline uint64_t eager_slot_splits_bytes(const struct comm *c)
{
	return (uint64_t)c->topo.size * sizeof(uint64_t);
}

/* eager_slot_write - fill this rank's slot and publish it. */
void eager_slot_write(struct comm *c, const struct eager_round *t, const struct request *r);

/* eager_slot_put - the same for a sum with signature @s. */
void eager_slot_put(const struct comm *c, const struct eager_round *t,
		    const struct op_signature *s, const void *in);

/* eager_slot_fetch - have this rank's slot of the next round, probably as @s says, here by the
 * time it is written. */
void eager_slot_fetch(const struct comm *c, const struct eager_round *t,
		      const struct op_signature *s);

/* eager_slot_finish - compute the result from all slots.  Returns 0 or RINGUP_ENOMEM; then
 * nothing has been handed out. */
int eager_slot_finish(struct comm *c, const struct eager_slots *at, const struct request *r,
		      struct err *e);

/* eager_slot_sum - as eager_slot_finish(), for a sum with signature @s. */
void eager_slot_sum(const struct comm *c, const struct eager_slots *at,
		    const struct op_signature *s, const void *in, void *out);

#endif
