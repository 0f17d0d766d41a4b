/* comms.c - the set of communicators that an engine drives: add, remove, visit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/comms.h"

#include <sched.h>

#include "base/err.h"
#include "engine/comm.h"
#include "ringup.h"

void comms_visit(struct engine *g, void (*fn)(struct comm *c, void *arg), void *arg)
{
	struct comm *c;
	int i, end = comms_enter(g);

	for (i = 0; i < end; i++)
		if ((c = comms_at(g, i)))
			fn(c, arg);
	comms_exit(g, end);
}

bool comms_any(struct engine *g, bool (*wanted)(struct comm *c))
{
	struct comm *c;
	int i, end = comms_enter(g);
	bool is = false;

	for (i = 0; i < end && !is; i++)
		is = (c = comms_at(g, i)) && wanted(c);
	comms_exit(g, end);
	return is;
}

int comms_add(struct engine *g, struct comm *c, struct err *e)
{
	int i;

	for (i = 0; i < ENGINE_COMMS && g->comms[i]; i++)
		;
	if (i == ENGINE_COMMS)
		return fail(e, RINGUP_ENOMEM, "more than %d groups", ENGINE_COMMS);
	c->waitset->policy.patient = true;
	__atomic_store_n(&g->comms[i], c, __ATOMIC_SEQ_CST);
	if (i >= comms_end(g))
		__atomic_store_n(&g->comm_end, i + 1, __ATOMIC_SEQ_CST);
	return i;
}

void comms_remove(struct engine *g, struct comm *c)
{
	for (int i = 0; i < comms_end(g); i++)
		if (g->comms[i] == c)
			__atomic_store_n(&g->comms[i], NULL, __ATOMIC_SEQ_CST);
	/* A thread that is looking has not seen it, or is soon done with it; so is a thread
	 * inside, which waits for a complete operation. */
	while (__atomic_load_n(&g->looking, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&c->inside, __ATOMIC_SEQ_CST))
		sched_yield();
}
