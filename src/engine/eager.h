/* eager.h - small operations: rounds of slots, and who is missing in one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_EAGER_H
#define ENGINE_EAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/eager_slot.h"

struct comm;
struct request;
struct ringup_op;

/* eager_may - can what @r asks for be an eager operation in this communicator, as far as this
 * rank's share of it is concerned? */
bool eager_may(const struct comm *l, const struct request *r);

/* eager_begin - start one, if @id has a slot that takes this rank's share; else false. */
bool eager_begin(struct comm *l, uint32_t id, const struct request *r, struct eager_round *t);

/* eager_decline - say that this round is queued; others may be waiting for the slot. */
void eager_decline(const struct comm *l, uint32_t id, uint32_t round, const struct request *r);

/* eager_splits - of an all-to-all that is queued, [i * size + j] rows go from i to
 * j: false, on all ranks alike, if its slots have no room to tell. */
bool eager_splits(const struct comm *l, const struct ringup_op *op, uint64_t *matrix);

/* eager_missing - a rank whose slot is still empty, one that waits for our processor if
 * there is such a one; -1 if all are there, or -2 if a rank has changed its mind, so that
 * this round is queued. */
int eager_missing(const struct comm *l, uint32_t id, uint32_t round);

/* eager_has_come - has @rank published its share of @op, which is eager? */
bool eager_has_come(const struct comm *l, const struct ringup_op *op, int rank);

/* eager_spin - the same after waiting for a moment, if need be. */
int eager_spin(const struct comm *l, const struct eager_round *t);

/* eager_try - finish @op, if it can be by now; true if it is done. */
bool eager_try(struct comm *l, struct ringup_op *op);

/* eager_look - the same with l->lock, of any operation; true if that completed it. */
bool eager_look(struct comm *l, struct ringup_op *op);

/*
 * eager_follow - @op has been submitted, and a fence passed since: if it was queued,
 * call those who did not; if it did not and somebody else has, follow.  Nobody may be waiting
 * for theirs.  Nobody else has @op yet.
 */
void eager_follow(struct comm *l, struct ringup_op *op);

/* eager_scan - all that are in flight, for threads that sleep, and for minds
 * changed; true if any was completed. */
bool eager_scan(struct comm *l);

/* eager_collect - finish what is small and can be finished by now, and wake the threads that
 * wait for it; nobody may have looked. */
void eager_collect(struct comm *l);

#endif
