/* over.h - tell whether the job is over or a rank has left, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OVER_H
#define ENGINE_OVER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/comm.h"
#include "engine/engine_state.h"

struct err;

/* over_leave - @rank leaves the ranks that share @left, here or on another host.  The first
 * rank to leave is the reason: the others leave because of it.  @rank | SEGMENT_ABORTED: it
 * aborts the group. */
void over_leave(uint32_t *left, int rank);

/* over_left - the first rank of @c that has left, by its number in the world; -1: none. */
int over_left(const struct comm *c);

/* over_is_aborted - has a rank aborted the group?  Then no plan of it goes on. */
bool over_is_aborted(const struct comm *c);

/* over_has_left - has a rank of @c left?  Then says so in @e, which may be NULL. */
bool over_has_left(const struct comm *c, struct err *e);

/* over_has_failed - has the job failed?  Then says so in @e, which may be NULL. */
bool over_has_failed(struct engine *g, struct err *e);

/* over_comm - has the job failed, or a rank left that @c needs?  Likewise. */
bool over_comm(struct comm *c, struct err *e);

/* over_not_yet - true while the job has not failed and no rank of @c has left: the opposite
 * of over_comm(), inline for the fast path. */
static inline bool over_not_yet(const struct comm *c)
{
	const struct engine *g = c->engine;

	return !__atomic_load_n(c->left, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&g->alarm->word, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&g->dead, __ATOMIC_RELAXED);
}

/* over_why - why the job has failed; tells the launcher that the same rank is to blame. */
void over_why(struct engine *g, struct err *e);

/* over_blame - tell the launcher that world rank @culprit is to blame for the error @why; -1
 * has no effect. */
void over_blame(struct engine *g, int culprit, const struct err *why);

#endif
