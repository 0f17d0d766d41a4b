/* comms.h - the set of communicators that an engine drives: add, remove, visit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_COMMS_H
#define ENGINE_COMMS_H

#include <stdbool.h>

#include "engine/engine_state.h"

struct err;
struct comm;

/* comms_add - drive @c from now on; returns its place, or RINGUP_ENOMEM.  comms_remove -
 * drive it no longer; the caller then closes it.  No operation is in flight in it. */
int comms_add(struct engine *g, struct comm *c, struct err *e);
void comms_remove(struct engine *g, struct comm *c);

/* comms_visit - call @fn for every communicator; none is closed meanwhile.  Any thread. */
void comms_visit(struct engine *g, void (*fn)(struct comm *c, void *arg), void *arg);

/* comms_any - is @wanted true for any of them? */
bool comms_any(struct engine *g, bool (*wanted)(struct comm *c));

/* comms_end - all places are below.  comms_at - the communicator at place @i, or NULL. */
static inline int comms_end(const struct engine *g)
{
	return __atomic_load_n(&g->comm_end, __ATOMIC_SEQ_CST);
}

static inline struct comm *comms_at(const struct engine *g, int i)
{
	return __atomic_load_n(&g->comms[i], __ATOMIC_SEQ_CST);
}

/* comms_enter - while a thread goes through the communicators, none of them is closed.  Returns
 * the number that all places are below, for comms_exit().  The first communicator, the world,
 * stays as long as the engine: alone it needs no such care. */
static inline int comms_enter(struct engine *g)
{
	if (comms_end(g) > 1)
		__atomic_fetch_add(&g->looking, 1, __ATOMIC_SEQ_CST);
	else
		return 1;
	return comms_end(g);
}

static inline void comms_exit(struct engine *g, int end)
{
	if (end > 1)
		__atomic_fetch_sub(&g->looking, 1, __ATOMIC_RELEASE);
}

#endif
