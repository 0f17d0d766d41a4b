/* groups.c - parse the --groups option: lists of ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/groups.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

static int groups_add(struct groups *g, int rank, int ranks, struct err *e)
{
	int n = g->count - 1;

	if (rank < 0 || rank >= ranks)
		return fail(e, RINGUP_EINVAL, "rank %d is not one of %d ranks", rank, ranks);
	for (int i = 0; i < g->size[n]; i++)
		if (g->ranks[g->first[n] + i] == rank)
			return fail(e, RINGUP_EINVAL, "rank %d is twice in a group", rank);
	if (g->first[n] + g->size[n] == GROUPS_RANKS)
		return fail(e, RINGUP_EINVAL, "at most %d ranks in all groups", GROUPS_RANKS);
	g->ranks[g->first[n] + g->size[n]++] = rank;
	return 0;
}

static int groups_begin(struct groups *g, struct err *e)
{
	int n = g->count;

	if (n == GROUPS_MOST)
		return fail(e, RINGUP_EINVAL, "at most %d groups", GROUPS_MOST);
	g->first[n] = n ? g->first[n - 1] + g->size[n - 1] : 0;
	g->size[n] = 0;
	g->count++;
	return 0;
}

static int deal(struct groups *g, int count, int ranks, struct err *e)
{
	int rc = 0;

	if (count < 1 || count > ranks)
		return fail(e, RINGUP_EINVAL, "%d ranks cannot be %d groups", ranks, count);
	for (int n = 0; n < count && !rc; n++) {
		rc = groups_begin(g, e);
		for (int i = 0; i < ranks && !rc; i++)
			if ((int)((long)i * count / ranks) == n)
				rc = groups_add(g, i, ranks, e);
	}
	return rc;
}

/* Parses a number without a sign; a number too large for a rank becomes -1. */
static bool groups_number(const char *text, int *n, char **end)
{
	long value = strtol(text, end, 10);

	*n = value < 0 || value > 1 << 20 ? -1 : (int)value;
	return *end != text && isdigit((unsigned char)*text);
}

int groups_parse(struct groups *g, const char *text, int ranks, struct err *e)
{
	const char *at = text;
	char *end;
	int n, rc;

	memset(g, 0, sizeof(*g));
	if (!*text)
		return 0;
	if (!strpbrk(text, ",/")) {
		if (!groups_number(text, &n, &end) || *end)
			return fail(
				e, RINGUP_EINVAL,
				"\"%.40s\" is neither a number of groups nor a list of them",
				text);
		return deal(g, n, ranks, e);
	}
	rc = groups_begin(g, e);
	while (!rc) {
		if (!groups_number(at, &n, &end) || (*end && *end != ',' && *end != '/'))
			return fail(e, RINGUP_EINVAL, "\"%.40s\" is not a rank", at);
		rc = groups_add(g, n, ranks, e);
		if (rc || !*end)
			break;
		if (*end == '/')
			rc = groups_begin(g, e);
		at = end + 1;
	}
	return rc;
}
