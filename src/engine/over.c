/* over.c - tell whether the job is over or a rank has left, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/over.h"

#include "base/err.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/ranks.h"
#include "wire/segment.h"

void over_leave(uint32_t *left, int rank)
{
	uint32_t was = 0, mine = (uint32_t)rank + 1;

	while (!__atomic_compare_exchange_n(left, &was, mine, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED) &&
	       mine & SEGMENT_ABORTED && !(was & SEGMENT_ABORTED))
		;
}

bool over_is_aborted(const struct comm *c)
{
	return __atomic_load_n(c->left, __ATOMIC_ACQUIRE) & SEGMENT_ABORTED;
}

int over_left(const struct comm *c)
{
	uint32_t word = __atomic_load_n(c->left, __ATOMIC_ACQUIRE);
	int left = (int)(word & ~(uint32_t)SEGMENT_ABORTED) - 1;

	return left < 0 ? -1 : ranks_in_world(c->ranks, left);
}

bool over_has_left(const struct comm *c, struct err *e)
{
	int left = over_left(c);

	if (left >= 0 && e && over_is_aborted(c))
		fail(e, RINGUP_EABORTED, "rank %d has aborted group %llu", left,
		     (unsigned long long)c->serial);
	else if (left >= 0 && e)
		fail(e, RINGUP_ESHUTDOWN, "rank %d has left the job", left);
	return left >= 0;
}

/* The launcher has numbers of its own for ranks that did not meet there. */
static void over_note(struct engine *g, int culprit, enum alarm_stillness stillness,
		      const struct err *why)
{
	if (g->cause)
		cause_blame(g->cause, culprit < 0 || !g->launched ? -1 : g->launched[culprit],
			    stillness, why);
}

void over_blame(struct engine *g, int culprit, const struct err *why)
{
	if (culprit >= 0)
		over_note(g, culprit,
			  alarm_culprit(g->alarm) == culprit ? alarm_stillness(g->alarm)
							     : ALARM_MOVES,
			  why);
}

void over_why(struct engine *g, struct err *e)
{
	if (alarm_get(g->alarm, e))
		over_note(g, alarm_culprit(g->alarm), alarm_stillness(g->alarm), e);
	else
		fail(e, RINGUP_ESHUTDOWN, "the job is over");
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
	if (left && e && !over_is_aborted(c))
		over_blame(c->engine, over_left(c), e);
	return left;
}
