/* lanes.c - the lanes that an engine drives: add, remove, go through them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lanes.h"

#include <sched.h>

#include "base/err.h"
#include "engine/lane.h"
#include "ringup.h"

void lanes_visit(struct engine *g, void (*fn)(struct lane *l, void *arg), void *arg)
{
	struct lane *l;
	int i, end = lanes_enter(g);

	for (i = 0; i < end; i++)
		if ((l = lanes_at(g, i)))
			fn(l, arg);
	lanes_exit(g, end);
}

bool lanes_any(struct engine *g, bool (*wanted)(struct lane *l))
{
	struct lane *l;
	int i, end = lanes_enter(g);
	bool is = false;

	for (i = 0; i < end && !is; i++)
		is = (l = lanes_at(g, i)) && wanted(l);
	lanes_exit(g, end);
	return is;
}

int lanes_add(struct engine *g, struct lane *l, struct err *e)
{
	int i;

	for (i = 0; i < ENGINE_LANES && g->lanes[i]; i++)
		;
	if (i == ENGINE_LANES)
		return fail(e, RINGUP_ENOMEM, "more than %d groups", ENGINE_LANES);
	l->row->patient = true;
	__atomic_store_n(&g->lanes[i], l, __ATOMIC_SEQ_CST);
	if (i >= lanes_end(g))
		__atomic_store_n(&g->lane_end, i + 1, __ATOMIC_SEQ_CST);
	return i;
}

void lanes_remove(struct engine *g, struct lane *l)
{
	int i;

	for (i = 0; i < lanes_end(g); i++)
		if (g->lanes[i] == l)
			__atomic_store_n(&g->lanes[i], NULL, __ATOMIC_SEQ_CST);
	/* Whoever looks now either has not seen it or will be through with it soon, as will be
	 * who waits for what is complete. */
	while (__atomic_load_n(&g->looking, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&l->inside, __ATOMIC_SEQ_CST))
		sched_yield();
}
