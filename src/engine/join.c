/* join.c - a rank that has joined takes part with neutral data until all have joined. */
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
 * While a rank has joined, the other ranks call it when they submit (submit_notify()); it then
 * submits the same operation with neutral data: zeros to a sum, the greatest number to a
 * minimum, no rows to an allgather.  So for the agreement and the back end it is a rank like
 * any other.
 *
 * That all ranks have joined is agreed like any operation, so it comes between the same
 * operations on all ranks.  A rank publishes its join when all its earlier operations are
 * complete; so they come before it.  Operations that a rank submits after it come after it on
 * the list, too: a rank that is called looks at the list again before it answers, and does not
 * answer an operation that it will submit by itself.
 */

/* Frees complete proxy operations of this rank, which no thread waits for. */
static void release_proxies(struct comm *c)
{
	struct ringup_op *op, *found;

	do {
		lock_take(&c->lock);
		for (found = NULL, op = c->flying; op && !found; op = op->next)
			if (op->proxy && op_is_done(op))
				found = op;
		lock_give(&c->lock);
		if (found)
			op_release(found);
	} while (found);
}

static int call_answer(struct comm *c, uint32_t id, struct err *e)
{
	struct request q = { 0 };
	struct ringup_op *op = NULL;
	struct op_signature w;
	char name[NAME_BYTES + 1];
	void *own = NULL;
	enum arrival as;
	int rc;

	q.name_len = ledger_called(c->ledger, id, name, &w);
	q.name = name;
	rc = proxy_request(c, &w, &q, &own, e);
	if (rc)
		return rc;
	lock_take(&c->lock);
	rc = submit_queued(c, &q, own, false, &op, &as, e);
	lock_give(&c->lock);
	if (rc)
		free(own);
	else
		submit_notify(c, op, as);
	return rc == RINGUP_EBUSY ? 0 : rc;
}

bool join_ready(struct comm *c)
{
	bool is;

	if (!__atomic_load_n(&c->join, __ATOMIC_RELAXED))
		return false;
	lock_take(&c->lock);
	is = submit_join_ready(c);
	lock_give(&c->lock);
	return is;
}

/* Publishes this rank's join if all its earlier operations are complete by now. */
static void join_publish(struct comm *c)
{
	enum arrival as = ARRIVED_EARLY;
	bool is;

	lock_take(&c->lock);
	is = submit_join(c, &as);
	lock_give(&c->lock);
	if (is)
		submit_notify(c, NULL, as);
	else
		sched_yield();
}

int join_answer(struct comm *c, struct err *e)
{
	uint64_t calls = ledger_calls(c->ledger);
	uint32_t ids[64];
	int n, rc = 0, any = 0;

	if (join_ready(c)) {
		join_publish(c);
		return 1;
	}
	if (calls == __atomic_load_n(&c->calls_seen, __ATOMIC_RELAXED))
		return 0;
	/* This rank's eager operations may be complete without a look: other ranks may then
	 * have used the name again, or the operation was its last before it joined. */
	eager_collect(c);
	release_proxies(c);
	do {
		n = ledger_calling(c->ledger, ids, 64);
		/* An operation after the last join comes after it on the list. */
		if (agree_ready(c->agree))
			return 1;
		for (int i = 0; i < n && !rc; i++)
			rc = call_answer(c, ids[i], e);
		any |= n;
	} while (n == 64 && !rc);
	__atomic_store_n(&c->calls_seen, calls, __ATOMIC_RELAXED);
	return rc < 0 ? rc : any > 0;
}

void join_done(struct comm *c, struct ringup_op *op, const uint64_t *rows)
{
	int last = 0;

	for (int r = 1; r < c->topo.size; r++)
		if (rows[r] >= rows[last])
			last = r;
	if (op->ask.last)
		*op->ask.last = last;
	__atomic_store_n(&c->joined, false, __ATOMIC_RELEASE);
	ledger_join(c->ledger, false);
	/* This rank's other operations are complete, but perhaps no thread has looked. */
	eager_scan(c);
	release_proxies(c);
}
