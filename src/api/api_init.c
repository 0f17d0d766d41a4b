/* api_init.c - join and leave a job, and inquire about it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/stack.h"
#include "engine/engine.h"
#include "engine/notify.h"

/* An array of sets has no size of its elements, so old programs need this one. */
_Static_assert(sizeof(struct ringup_set) == 2 * sizeof(int *) &&
		       offsetof(struct ringup_set, count) == sizeof(int *),
	       "struct ringup_set never changes");

static int add_groups(struct ringup *r, const struct ringup_init *how)
{
	struct ringup_group *g;
	struct err e;
	int rc = 0;

	if (how->group_count < 0 || (how->group_count && !how->groups)) {
		fail(&e, RINGUP_EINVAL, "ringup_init: %d groups%s", how->group_count,
		     how->group_count < 0 ? "" : ", but groups is NULL");
		return call_fail(&e);
	}
	for (int i = 0; i < how->group_count && !rc; i++)
		rc = ringup_group_add(r, how->groups[i].ranks, how->groups[i].count, &g);
	return rc;
}

int ringup_init(const struct ringup_init *how, struct ringup **rp)
{
	struct ringup_init room;
	struct err e = { 0 };
	struct ringup *r;
	int rc;

	if (how)
		how = CALL_TAKE_TO("ringup_init", how, how, &room, part_ranks);
	else
		how = memset(&room, 0, sizeof(room));
	if (!how)
		return RINGUP_EINVAL;
	if (!rp) {
		fail(&e, RINGUP_EINVAL, "ringup_init: the place for the result is NULL");
		return call_fail(&e);
	}
	if (stack_check(&e)) {
		fail_in(&e, "ringup_init");
		return call_fail(&e);
	}
	/* Waiters and plans have to begin on a cache line. */
	r = aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	if (!r) {
		fail(&e, RINGUP_ENOMEM, "ringup_init: no memory");
		return call_fail(&e);
	}
	memset(r, 0, sizeof(*r));
	rc = context_open(&r->context, how, &e);
	if (rc) {
		free(r);
		fail_in(&e, "ringup_init");
		return call_fail(&e);
	}
	r->context.engine.callbacks.prepare = call_keep;
	r->world.ringup = r;
	r->world.group = &r->context.world;
	r->groups = &r->world;
	rc = add_groups(r, how);
	if (rc) {
		ringup_fini(r);
		return rc;
	}
	*rp = r;
	return 0;
}

void ringup_fini(struct ringup *r)
{
	struct ringup_group *g;

	bool mine;

	if (!r)
		return;
	mine = context_leave(&r->context);
	while ((g = r->groups) != &r->world) {
		r->groups = g->next;
		if (mine)
			group_close(&g->own);
		free(g);
	}
	if (mine)
		context_close(&r->context);
	free(r);
}

void ringup_abort(struct ringup *r, const char *why)
{
	struct err e;

	if (!r)
		return;
	/* A child of fork() is not part of the job, and no longer maps its memory. */
	if (!engine_is_mine(&r->context.engine))
		return;
	fail(&e, RINGUP_EABORTED, "rank %d aborted the job: %s", r->context.rank,
	     why ? why : "no reason given");
	notify_alarm(&r->context.engine, r->context.rank, RINGUP_EABORTED, e.text);
}

int ringup_hosts_changed(const struct ringup *r)
{
	if (!r)
		return call_null("ringup_hosts_changed", "the handle");
	return (int)notice_read(&r->context.notice, r->context.generation);
}

void ringup_state_synced(int synced)
{
	context_state_synced(synced);
}

int ringup_generation(const struct ringup *r)
{
	return r ? (int)r->context.generation : call_null("ringup_generation", "the handle");
}

int ringup_local_rank(const struct ringup *r)
{
	return r ? r->context.local_rank : call_null("ringup_local_rank", "the handle");
}

int ringup_local_size(const struct ringup *r)
{
	return r ? r->context.local_size : call_null("ringup_local_size", "the handle");
}

int ringup_host_rank(const struct ringup *r)
{
	return r ? r->context.host_rank : call_null("ringup_host_rank", "the handle");
}

int ringup_host_count(const struct ringup *r)
{
	return r ? r->context.host_count : call_null("ringup_host_count", "the handle");
}

int ringup_is_homogeneous(const struct ringup *r)
{
	return r ? r->context.homogeneous : call_null("ringup_is_homogeneous", "the handle");
}
