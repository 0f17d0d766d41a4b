/* culprit.c - root cause: which of the ranks that exit one after another failed first. */
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

/* Ranks that met elsewhere may be processes that the launcher's rank has started. */
bool culprit_has_died(const struct culprit_end *x)
{
	return x->ended && x->cause.joined && !x->cause.left &&
	       (x->cause.has_met_here || x->cause.pid == (uint32_t)x->pid);
}

/* Follows the notes from rank @rank to the rank that it blames, and so on. */
static struct culprit origin_of(const struct culprit_end *ends, int count, int rank)
{
	struct culprit c = { .rank = rank, .awaited = -1, .left = -1 };
	int because;

	for (int i = 0; i < count; i++) {
		because = ends[c.rank].cause.rank;
		/* Of two hosts that lose each other, each blames the other one. */
		if (because < 0 || because >= count || because == c.rank ||
		    (i && because == rank))
			return c;
		if (!ends[because].ended) {
			c.awaited = because;
			c.stillness = ends[c.rank].cause.stillness;
			c.proved = true;
			return c;
		}
		if (!has_failed(&ends[because]) && !culprit_has_died(&ends[because])) {
			c.left = because;
			return c;
		}
		c.rank = because;
		c.proved = true;
	}
	return c;
}

/* Is @a a better answer than @b?  A rank that others blame is; then a rank that a signal has
 * ended, since others fail because of a killed rank, hardly the other way round; then the
 * rank that ended first. */
static bool culprit_is_better(const struct culprit_end *ends, const struct culprit *a,
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
		if (culprit_is_better(ends, &c, &best))
			best = c;
	}
	return best;
}

int64_t culprit_patience_ms(const struct culprit *c, const struct culprit_end *ends)
{
	if (c->awaited >= 0)
		return c->stillness == ALARM_MOVES ? CULPRIT_AWAIT_MS : CULPRIT_SILENT_MS;
	return c->proved || ends[c->rank].code != CLD_EXITED ? 0 : CULPRIT_SECOND_LOOK_MS;
}

void culprit_describe(const struct culprit_end *x, char *out, size_t size)
{
	size_t n;

	ending_describe(x->code, x->status, out, size);
	n = strlen(out);
	if (!has_failed(x))
		snprintf(out + n, size - n, " during the job, without ringup_fini()");
}

int culprit_status(const struct culprit_end *x)
{
	int status = ending_status(x->code, x->status);

	return status ? status : 1;
}
