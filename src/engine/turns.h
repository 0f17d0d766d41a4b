/* turns.h - plans of several groups on one device begin in the same order on all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TURNS_H
#define ENGINE_TURNS_H

#include <stdbool.h>

#include "engine/comm.h"

struct err;
struct wait_on;

/*
 * A collective on a GPU holds the GPU until all ranks have begun it.  Two groups whose plans
 * begin in different order on two ranks would wait for each other for ever.  So the ranks of a
 * group agree on a number for each such plan, and a rank begins its plans, of all its groups,
 * in the order of these numbers:
 *
 * - When a rank comes to a plan, it proposes a number greater than all that it has seen.
 * - The number of the plan is the greatest that a rank of the group has proposed.  The ranks
 *   tell each other by a small allgather of the group in the host's memory.
 * - The plan begins when no other group of this rank has a plan with a smaller number, or one
 *   that may still get a smaller number: whose proposal is smaller.  It has its turn until it
 *   is done, for NCCL may queue it on the GPU some time after it has been asked to.
 *
 * This is Skeen's ordered multicast.  Ranks outside the group hear nothing of it, and a job
 * without groups but the world pays nothing.  Why no plan waits for ever: docs/DESIGN.md.
 */
/* turns_open - makes room; turns_close frees it.  @wanted: as in the struct. */
int turns_open(struct comm *c, bool wanted, struct err *e);
void turns_close(struct comm *c);

/* turns_take - may the plan of @c that is made begin?  1: yes, now; 0: not yet; negative: the
 * allgather has failed.  With the baton, again and again until it returns 1. */
int turns_take(struct comm *c, struct err *e);

/* turns_done - the plan that has begun is done. */
void turns_done(struct comm *c);

/* turns_wait - as a back end's wait(): what @c's allgather waits for.  False if that is
 * nothing; then *@again says whether to step again at once. */
bool turns_wait(struct comm *c, struct wait_on *w, bool *again);

/* turns_is_open - is the plan that @c has made still to begin? */
bool turns_is_open(const struct comm *c);

#endif
