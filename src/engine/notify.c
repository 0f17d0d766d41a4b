/* notify.c - wake sleeping threads and ranks: an operation is complete, ready, or failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/notify.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/futex.h"
#include "engine/comm.h"
#include "engine/ledger.h"
#include "engine/progress.h"
#include "ringup.h"

void notify_completed(struct engine *g)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&g->waiting, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&g->done, 1, __ATOMIC_SEQ_CST);
	futex_wake(&g->done);
}

void notify_news(struct engine *g)
{
	waitset_notify_one(g->waitset, g->waitset->me);
	progress_notify(g->progress, g->waitset, g->waitset->me);
}

void notify_ranks(struct engine *g, const struct waitset *w)
{
	for (int i = 0; i < w->count; i++) {
		waitset_notify_one(w, i);
		progress_notify(g->progress, w, i);
	}
}

static void notify_raise(struct engine *g, int culprit, enum alarm_stillness stillness,
			 int code, const char *why)
{
	if (alarm_raise_still(g->alarm, culprit, stillness, code, why) && g->on_alarm)
		g->on_alarm(g->on_alarm_ctx, culprit, code, why);
	notify_ranks(g, g->waitset);
}

void notify_alarm(struct engine *g, int culprit, int code, const char *why)
{
	notify_raise(g, culprit, ALARM_MOVES, code, why);
}

void notify_lost(struct engine *g, int culprit, enum alarm_stillness stillness, const char *why)
{
	notify_raise(g, culprit, stillness, RINGUP_EPEER, why);
}

void notify_blind(struct engine *g, int rank, const char *cannot)
{
	char why[160];

	snprintf(why, sizeof(why),
		 "rank %d %s: poll: %s; check whether its limit of open files (ulimit -n) was "
		 "lowered",
		 rank, cannot, strerror(errno));
	notify_alarm(g, -1, RINGUP_ESYSTEM, why);
}

void notify_call(struct comm *c)
{
	waitset_notify(c->waitset, WAITSET_ANY);
	for (int i = 0; i < c->waitset->count; i++)
		progress_notify(c->engine->progress, c->waitset, i);
}

void notify_announce(struct comm *c)
{
	waitset_notify(c->waitset, c->waitset->me);
	/* After the fence in there: a rank that joins sees this rank's slot, or this rank
	 * sees the join. */
	if (c->ledger && ledger_joined(c->ledger)) {
		ledger_call(c->ledger);
		notify_call(c);
	}
}

void notify_device(struct engine *g)
{
	int fd = __atomic_load_n(&g->device_fd, __ATOMIC_ACQUIRE);
	uint64_t one = 1;

	if (!__atomic_load_n(&g->device_busy, __ATOMIC_RELAXED) && fd > 0 &&
	    !__atomic_exchange_n(&g->device_busy, true, __ATOMIC_SEQ_CST))
		(void)!write(fd, &one, sizeof(one));
}
