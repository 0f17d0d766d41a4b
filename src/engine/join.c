/* join.c - a rank that has no more data takes part with nothing until all have joined. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/join.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coll/neutral.h"
#include "coll/reduce.h"
#include "engine/agree.h"
#include "engine/comm.h"
#include "engine/eager.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/proxy.h"
#include "engine/submit.h"
#include "ringup.h"

/*
 * While a rank has joined, whoever submits says so to it (submit_notify()); it then
 * submits the same, with what changes nothing: zeros to a sum, the greatest number
 * to a minimum, no rows to an allgather.  So for the agreement and the back end it
 * is a rank like the others.
 *
 * That all have joined is agreed like any operation, so it lies between the same
 * operations on all ranks.  A rank publishes that it has joined when all is complete
 * that it had submitted before; so that lies before it.  What a rank submits after it
 * comes after it on the list, too: a rank that finds itself called looks at the list
 * again before it answers, and does not answer what it will submit by itself.
 */

/* Operations of ours that nobody waits for. */
static void release_proxies(struct comm *l)
{
	struct ringup_op *op, *found;

	do {
		lock_take(&l->lock);
		for (found = NULL, op = l->flying; op && !found; op = op->next)
			if (op->proxy && op_is_done(op))
				found = op;
		lock_give(&l->lock);
		if (found)
			op_release(found);
	} while (found);
}

static int call_answer(struct comm *l, uint32_t id, struct err *e)
{
	struct request q = { 0 };
	struct ringup_op *op = NULL;
	struct op_signature w;
	char name[NAME_BYTES + 1];
	void *own = NULL;
	enum arrival as;
	int rc;

	q.name_len = ledger_called(l->ledger, id, name, &w);
	q.name = name;
	rc = proxy_request(l, &w, &q, &own, e);
	if (rc)
		return rc;
	lock_take(&l->lock);
	rc = submit_queued(l, &q, own, false, &op, &as, e);
	lock_give(&l->lock);
	if (rc)
		free(own);
	else
		submit_notify(l, op, as);
	return rc == RINGUP_EBUSY ? 0 : rc;
}

bool join_ready(struct comm *l)
{
	bool is;

	if (!__atomic_load_n(&l->join, __ATOMIC_RELAXED))
		return false;
	lock_take(&l->lock);
	is = submit_join_ready(l);
	lock_give(&l->lock);
	return is;
}

/* Say that we have joined, if all is complete by now that came before. */
static void join_publish(struct comm *l)
{
	enum arrival as = ARRIVED_EARLY;
	bool is;

	lock_take(&l->lock);
	is = submit_join(l, &as);
	lock_give(&l->lock);
	if (is)
		submit_notify(l, NULL, as);
	else
		sched_yield();
}

int join_answer(struct comm *l, struct err *e)
{
	uint64_t calls = ledger_calls(l->ledger);
	uint32_t ids[64];
	int i, n, rc = 0, any = 0;

	if (join_ready(l)) {
		join_publish(l);
		return 1;
	}
	if (calls == __atomic_load_n(&l->calls_seen, __ATOMIC_RELAXED))
		return 0;
	/* Ours may be complete, and nobody has looked: then the others may have used the name
	 * again, or it was the last before we joined. */
	eager_collect(l);
	release_proxies(l);
	do {
		n = ledger_calling(l->ledger, ids, 64);
		/* Whatever comes after the last join has come after it on the list. */
		if (agree_ready(l->agree))
			return 1;
		for (i = 0; i < n && !rc; i++)
			rc = call_answer(l, ids[i], e);
		any |= n;
	} while (n == 64 && !rc);
	__atomic_store_n(&l->calls_seen, calls, __ATOMIC_RELAXED);
	return rc < 0 ? rc : any > 0;
}

void join_done(struct comm *l, struct ringup_op *op, const uint64_t *rows)
{
	int r, last = 0;

	for (r = 1; r < l->topo.size; r++)
		if (rows[r] >= rows[last])
			last = r;
	if (op->ask.last)
		*op->ask.last = last;
	__atomic_store_n(&l->joined, false, __ATOMIC_RELEASE);
	ledger_join(l->ledger, false);
	/* What is left of ours is complete, but nobody may have looked. */
	eager_scan(l);
	release_proxies(l);
}
