/* look.c - one sample of a job's ranks: the input to the verdict. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/look.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for one more of *@n elements, at most @most; the new one is all zero. */
static void *grow(void **list, int *n, int most, size_t size)
{
	void *more;

	if (*n >= most)
		return NULL;
	if (!(*n & (*n - 1))) { /* 0, 1, 2, 4 ...: full */
		more = realloc(*list, (size_t)(*n ? 2 * *n : 1) * size);
		if (!more)
			return NULL;
		*list = more;
	}
	more = (char *)*list + (size_t)*n * size;
	memset(more, 0, size);
	(*n)++;
	return more;
}

static bool row_is_rank(int rank)
{
	return rank >= 0 && rank < ROWS_RANKS;
}

struct row_rank *look_rank(struct look *l, int rank)
{
	void *list = l->rank;
	struct row_rank *r =
		row_is_rank(rank) ? grow(&list, &l->ranks, ROWS_RANKS, sizeof(*r)) : NULL;

	l->rank = list;
	if (r) {
		r->rank = rank;
		r->since_ms = -1;
	}
	return r;
}

struct row_wait *look_wait(struct look *l, int rank)
{
	void *list = l->wait;
	struct row_wait *w =
		row_is_rank(rank) ? grow(&list, &l->waits, ROWS_WAITS, sizeof(*w)) : NULL;

	l->wait = list;
	if (w) {
		w->rank = rank;
		w->peer = -1;
		w->since_ms = -1;
	}
	return w;
}

struct row_count *look_count(struct look *l, int rank)
{
	void *list = l->count;
	struct row_count *c =
		row_is_rank(rank) ? grow(&list, &l->counts, ROWS_WAITS, sizeof(*c)) : NULL;

	l->count = list;
	if (c)
		c->rank = rank;
	return c;
}

/* Mostly ranks are in order. */
struct row_rank *look_find(const struct look *l, int rank)
{
	if (rank >= 0 && rank < l->ranks && l->rank[rank].rank == rank)
		return &l->rank[rank];
	for (int i = 0; i < l->ranks; i++)
		if (l->rank[i].rank == rank)
			return &l->rank[i];
	return NULL;
}

bool look_advances(const struct look *l, const struct look *later)
{
	const struct row_rank *b;

	for (int i = 0; i < later->ranks; i++) {
		b = look_find(l, later->rank[i].rank);
		if (b && b->counts && later->rank[i].counts &&
		    b->progress != later->rank[i].progress)
			return true;
	}
	return false;
}

void look_find_before(struct look *l)
{
	for (int i = 0; i < l->ranks; i++)
		if (l->has_page && l->rank[i].phase == ROW_UNKNOWN &&
		    (l->rank[i].state == ROW_ALIVE || l->rank[i].state == ROW_STOPPED))
			l->rank[i].phase = ROW_BEFORE;
}

/* Has each rank started the operation of @w?  Sets @has by rank. */
static void mark_same(const struct look *l, const struct row_wait *w, bool *has)
{
	memset(has, 0, ROWS_RANKS * sizeof(*has));
	for (int i = 0; i < l->waits; i++) {
		const struct row_wait *x = &l->wait[i];

		if (!x->reported && x->number == w->number && !strcmp(x->what, w->what) &&
		    !strcmp(x->group, w->group) && row_is_rank(x->rank))
			has[x->rank] = true;
	}
}

void look_compare(struct look *l)
{
	static bool has[ROWS_RANKS];

	look_find_before(l);
	for (int i = 0; i < l->waits; i++) {
		struct row_wait *w = &l->wait[i];

		if (w->message || w->reported || w->all_known || w->size != l->size ||
		    w->size <= 1)
			continue;
		mark_same(l, w, has);
		w->missing = 0;
		for (int k = 0; k < l->ranks; k++) {
			const struct row_rank *r = &l->rank[k];

			if (!r->counts || !row_is_rank(r->rank) || has[r->rank])
				continue;
			if (w->missing < ROWS_MISSING)
				w->who[w->missing] = r->rank;
			w->missing++;
		}
		w->waiting = w->size - w->missing;
	}
}

void look_free(struct look *l)
{
	free(l->rank);
	free(l->wait);
	free(l->count);
	memset(l, 0, sizeof(*l));
}
