/* api_group.c - groups of ranks: add, remove, inquire. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/kinds.h"
#include "engine/over.h"
#include "engine/provider.h"
#include "wire/ranks.h"

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Sorts the ranks, and checks that they exist and are distinct. */
static int check_ranks(const struct ringup *r, int *ranks, int count, struct err *e)
{
	qsort(ranks, (size_t)count, sizeof(*ranks), by_number);
	for (int i = 0; i < count; i++) {
		if (ranks[i] < 0 || ranks[i] >= r->context.size)
			return fail(e, RINGUP_EINVAL,
				    "ringup_group_add: rank %d is not one of the %d ranks",
				    ranks[i], r->context.size);
		if (i && ranks[i] == ranks[i - 1])
			return fail(e, RINGUP_EINVAL,
				    "ringup_group_add: rank %d is named twice", ranks[i]);
	}
	return 0;
}

/* Communicators have to begin on a cache line. */
static struct ringup_group *make(struct ringup *r)
{
	struct ringup_group *g = aligned_alloc(64, (sizeof(*g) + 63) / 64 * 64);

	if (!g)
		return NULL;
	memset(g, 0, sizeof(*g));
	g->ringup = r;
	g->group = &g->own;
	return g;
}

int ringup_group_add(struct ringup *r, const int *ranks, int count, struct ringup_group **gp)
{
	struct ringup_group *g = NULL;
	struct err e = { 0 };
	int *sorted = NULL, rc;

	if (!r || !ranks || !gp)
		return call_null("ringup_group_add", !r       ? "the handle"
						     : !ranks ? "ranks"
							      : "where the group goes");
	if (count < 1 || count > r->context.size)
		rc = fail(&e, RINGUP_EINVAL, "ringup_group_add: %d ranks of %d", count,
			  r->context.size);
	else if (!(g = make(r)) || !(sorted = malloc((size_t)count * sizeof(*sorted))))
		rc = fail(&e, RINGUP_ENOMEM, "ringup_group_add: no memory");
	else
		rc = 0;
	if (!rc) {
		memcpy(sorted, ranks, (size_t)count * sizeof(*sorted));
		rc = check_ranks(r, sorted, count, &e);
	}
	if (!rc)
		rc = context_group_open(&r->context, sorted, count, &g->own, &e);
	free(sorted);
	if (rc) {
		free(g);
		return call_fail(&e);
	}
	g->id = ++r->ids;
	g->next = r->groups;
	r->groups = g;
	*gp = g;
	return 0;
}

static int fail_not_mine(const char *call, struct err *e)
{
	return fail(e, RINGUP_ESHUTDOWN, "%s: a forked child is not a rank of the job", call);
}

int ringup_group_remove(struct ringup_group *g)
{
	struct ringup_group **p;
	struct err e = { 0 };
	int rc;

	if (!g)
		return call_null("ringup_group_remove", "the group");
	p = &g->ringup->groups;
	/* A child does not map the memory in which operations in flight are counted. */
	if (!engine_is_mine(&g->ringup->context.engine))
		rc = fail_not_mine("ringup_group_remove", &e);
	else if (g == &g->ringup->world)
		rc = fail(&e, RINGUP_EINVAL, "ringup_group_remove: the world stays");
	else
		rc = context_group_close(&g->ringup->context, &g->own, &e);
	if (rc)
		return call_fail(&e);
	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	free(g);
	return 0;
}

/* Checks that this process is a rank of @g. */
static int check_member(const char *call, const struct ringup_group *g)
{
	struct err e;

	if (!g)
		return call_null(call, "the group");
	if (!engine_is_mine(&g->ringup->context.engine))
		fail_not_mine(call, &e);
	else if (g->group->rank < 0)
		fail(&e, RINGUP_EINVAL, "%s: this rank is not in the group", call);
	else
		return 0;
	return call_fail(&e);
}

int ringup_group_abort(struct ringup_group *g)
{
	int rc = check_member("ringup_group_abort", g);

	if (!rc)
		context_group_abort(&g->ringup->context, g->group);
	return rc;
}

int ringup_group_error(struct ringup_group *g)
{
	struct err e;
	int rc = check_member("ringup_group_error", g);

	if (rc)
		return rc;
	return over_comm(&g->group->comm, &e) ? call_fail(&e) : 0;
}

int ringup_group_id(const struct ringup_group *g)
{
	return g ? g->id : call_null("ringup_group_id", "the group");
}

struct ringup_group *ringup_group_get(struct ringup *r, int id)
{
	struct ringup_group *g = r ? r->groups : NULL;

	if (!r)
		call_null("ringup_group_get", "the handle");
	while (g && g->id != id)
		g = g->next;
	return g;
}

int ringup_group_member(const struct ringup_group *g, int rank)
{
	if (!g)
		return call_null("ringup_group_member", "the group");
	return rank < 0 || rank >= g->group->size ? -1 : ranks_in_world(g->group->ranks, rank);
}

struct ringup_group *ringup_world(struct ringup *r)
{
	if (!r)
		call_null("ringup_world", "the handle");
	return r ? &r->world : NULL;
}

int ringup_rank(const struct ringup_group *g)
{
	return g ? g->group->rank : call_null("ringup_rank", "the group");
}

int ringup_size(const struct ringup_group *g)
{
	return g ? g->group->size : call_null("ringup_size", "the group");
}

const char *ringup_backend(const struct ringup_group *g)
{
	return !g || g->group->rank < 0 ? "none" : provider_name(&g->group->comm);
}

int ringup_accepts(const struct ringup_group *g, enum ringup_memory memory)
{
	return g && memory >= 0 && memory < MEMORY_COUNT && g->group->rank >= 0 &&
	       g->group->comm.memory >> memory & 1;
}
