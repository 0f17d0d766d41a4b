/* over.c - whether the job is over or a rank has left, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/over.h"

#include "base/err.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/ranks.h"

void over_leave(uint32_t *left, int rank)
{
	uint32_t nobody = 0;

	__atomic_compare_exchange_n(left, &nobody, (uint32_t)rank + 1, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

int over_left(const struct comm *c)
{
	int left = (int)__atomic_load_n(c->left, __ATOMIC_ACQUIRE) - 1;

	return left < 0 ? -1 : ranks_in_world(c->ranks, left);
}

bool over_has_left(const struct comm *c, struct err *e)
{
	int left = over_left(c);

	if (left >= 0 && e)
		fail(e, RINGUP_ESHUTDOWN, "rank %d has left the job", left);
	return left >= 0;
}

void over_blame(struct engine *g, int culprit)
{
	if (g->cause)
		cause_blame(g->cause, culprit);
}

void over_why(struct engine *g, struct err *e)
{
	if (!alarm_get(g->alarm, e))
		fail(e, RINGUP_ESHUTDOWN, "the job is over");
	over_blame(g, alarm_culprit(g->alarm));
}

bool over_has_failed(struct engine *g, struct err *e)
{
	if (!engine_is_alarmed(g) && !engine_is_dead(g))
		return false;
	if (e)
		over_why(g, e);
	return true;
}

bool over_comm(struct comm *c, struct err *e)
{
	bool left = over_has_left(c, e);

	/* Checked second: a rank that left because of an alarm left after it. */
	if (over_has_failed(c->engine, e))
		return true;
	if (left && e)
		over_blame(c->engine, over_left(c));
	return left;
}
