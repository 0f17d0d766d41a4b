/* eager.h - eager protocol for small operations: rounds of slots, missing ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_EAGER_H
#define ENGINE_EAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/eager_slot.h"

struct comm;
struct request;
struct ringup_op;

/* eager_may - can this rank's share of @r go through an eager slot of this communicator? */
bool eager_may(const struct comm *c, const struct request *r);

/* eager_begin - begin a round of @id; false if its slots cannot take this rank's share. */
bool eager_begin(struct comm *c, uint32_t id, const struct request *r, struct eager_round *t);

/* eager_decline - mark this rank's slot: the round is queued; ranks that see it follow. */
void eager_decline(const struct comm *c, uint32_t id, uint32_t round, const struct request *r);

/* eager_splits - gather the splits of a queued all-to-all: [i * size + j] rows go from rank i
 * to rank j.  False, on all ranks alike, if the slots have no room for the splits. */
bool eager_splits(const struct comm *c, const struct ringup_op *op, uint64_t *matrix);

/* eager_missing - a rank whose slot is still empty, preferably one that needs this thread's
 * processor; -1 if all slots are filled; -2 if a rank has declined, so that the round is
 * queued. */
int eager_missing(const struct comm *c, uint32_t id, uint32_t round);

/* eager_spin - as eager_missing(), after a short spin if a slot is empty. */
int eager_spin(const struct comm *c, const struct eager_round *t);

/* eager_try - finish @op if all slots are filled; true if it is done. */
bool eager_try(struct comm *c, struct ringup_op *op);

/* eager_look - as eager_try(), for any operation, with c->lock; true if it completed @op. */
bool eager_look(struct comm *c, struct ringup_op *op);

/*
 * eager_follow - after the submission of @op and a fence: if @op is queued, notify ranks that
 * submitted it as eager; if @op is eager and another rank has queued it, queue it as well.
 * Those ranks may have no waiting thread.  No other thread of this rank uses @op yet.
 */
void eager_follow(struct comm *c, struct ringup_op *op);

/* eager_scan - eager_look() at all operations in flight, for threads that sleep and for ranks
 * that have declined; true if it completed any. */
bool eager_scan(struct comm *c);

/* eager_collect - finish the eager operations whose slots are filled, and wake the threads that
 * wait for them: perhaps no thread looks at them. */
void eager_collect(struct comm *c);

#endif
