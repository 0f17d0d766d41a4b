/* lanes.h - the lanes that an engine drives: add, remove, go through them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_LANES_H
#define ENGINE_LANES_H

#include <stdbool.h>

#include "engine/engine_state.h"

struct err;
struct lane;

/* lanes_add - drive @l, too, from now on; returns its place, or RINGUP_ENOMEM.
 * lanes_remove - no longer; the caller then closes it.  Nothing is in flight in it. */
int lanes_add(struct engine *g, struct lane *l, struct err *e);
void lanes_remove(struct engine *g, struct lane *l);

/* lanes_visit - call @fn for every lane; none goes away meanwhile.  Any thread. */
void lanes_visit(struct engine *g, void (*fn)(struct lane *l, void *arg), void *arg);

/* lanes_any - does @wanted say yes to one of them? */
bool lanes_any(struct engine *g, bool (*wanted)(struct lane *l));

/* lanes_end - all lanes are below.  lanes_at - the one at @i, or NULL. */
static inline int lanes_end(const struct engine *g)
{
	return __atomic_load_n(&g->lane_end, __ATOMIC_SEQ_CST);
}

static inline struct lane *lanes_at(const struct engine *g, int i)
{
	return __atomic_load_n(&g->lanes[i], __ATOMIC_SEQ_CST);
}

/* lanes_enter - as long as a thread goes through the lanes, none of them goes away.  Returns
 * the number below which they all are, for lanes_exit().  The first lane, the world, stays as
 * long as the engine: alone it needs no such care. */
static inline int lanes_enter(struct engine *g)
{
	if (lanes_end(g) > 1)
		__atomic_fetch_add(&g->looking, 1, __ATOMIC_SEQ_CST);
	else
		return 1;
	return lanes_end(g);
}

static inline void lanes_exit(struct engine *g, int end)
{
	if (end > 1)
		__atomic_fetch_sub(&g->looking, 1, __ATOMIC_RELEASE);
}

#endif
