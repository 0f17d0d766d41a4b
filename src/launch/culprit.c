/* culprit.c - which rank has failed first, of ranks that end one after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/culprit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "launch/ending.h"

static bool has_failed(const struct culprit_end *x)
{
	return x->ended && ending_status(x->code, x->status) != 0;
}

/* Without ringup_fini(), in the midst of the job. */
static bool has_died(const struct culprit_end *x)
{
	return x->ended && x->cause.joined && !x->cause.left;
}

/* From rank @rank to the one because of which it failed, and so on. */
static struct culprit origin_of(const struct culprit_end *ends, int count, int rank)
{
	struct culprit c = { .rank = rank, .awaited = -1, .left = -1 };
	int because;

	for (int i = 0; i < count; i++) {
		because = ends[c.rank].cause.rank;
		if (because < 0 || because >= count || because == c.rank)
			return c;
		if (!ends[because].ended) {
			c.awaited = because;
			c.proved = true;
			return c;
		}
		if (!has_failed(&ends[because]) && !has_died(&ends[because])) {
			c.left = because;
			return c;
		}
		c.rank = because;
		c.proved = true;
	}
	return c;
}

/* Is @a, of the failed rank @i, a better answer than @b?  A rank that others name is; then one
 * that a signal has ended, because others may have failed for want of it, hardly the other way
 * round; then the one that ended first. */
static bool is_better(const struct culprit_end *ends, const struct culprit *a,
		      const struct culprit *b)
{
	const struct culprit_end *x = &ends[a->rank], *y;

	if (b->rank < 0)
		return true;
	y = &ends[b->rank];
	if (a->proved != b->proved)
		return a->proved;
	if (!a->proved && (x->code == CLD_EXITED) != (y->code == CLD_EXITED))
		return y->code == CLD_EXITED;
	return x->order < y->order;
}

struct culprit culprit_find(const struct culprit_end *ends, int count)
{
	struct culprit best = { .rank = -1, .awaited = -1, .left = -1 }, c;

	for (int i = 0; i < count; i++) {
		if (!has_failed(&ends[i]))
			continue;
		c = origin_of(ends, count, i);
		if (is_better(ends, &c, &best))
			best = c;
	}
	return best;
}

int64_t culprit_patience_ms(const struct culprit *c, const struct culprit_end *ends)
{
	if (c->awaited >= 0)
		return CULPRIT_AWAIT_MS;
	return c->proved || ends[c->rank].code != CLD_EXITED ? 0 : CULPRIT_SECOND_LOOK_MS;
}

void culprit_describe(const struct culprit_end *x, char *out, size_t size)
{
	size_t n;

	ending_describe(x->code, x->status, out, size);
	n = strlen(out);
	if (!has_failed(x))
		snprintf(out + n, size - n, " in the midst of the job, without ringup_fini()");
}

int culprit_status(const struct culprit_end *x)
{
	int status = ending_status(x->code, x->status);

	return status ? status : 1;
}
