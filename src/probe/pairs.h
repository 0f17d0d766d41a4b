/* pairs.h - the paths of a check as a matrix: from each node to each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_PAIRS_H
#define PROBE_PAIRS_H

#include <stdbool.h>

#include "probe/facts.h"

/* All paths from one node to another. */
struct pair {
	int tried, failed;      /* tried 0: no result */
	enum facts_state state; /* of those that failed, the worst, of the main address if it
				 * is cut off; FACTS_OPEN if none did */
	int main_tried, main_failed;
	double us, mbs;  /* the best of all networks; < 0: not measured */
	bool slow, weak; /* an outlier of latency, of bandwidth */
	bool lost;       /* full-size segments do not arrive */
	/* No connection to the address that jobs would use works, but one to another does. */
	bool cut;
};

/* Rows are sources, columns targets, of the nodes shown: all nodes if there is room. */
struct pairs {
	struct pair *pair;
	int *node; /* [i]: which node is i-th */
	int n;
	double us[2], mbs[2]; /* least and most; < 0: nothing was measured */
};

/*
 * pairs_make - fill the matrix with at most @most nodes, those that findings name first.
 *
 * Ownership: the contents are the caller's until pairs_free(), also on failure.
 */
int pairs_make(struct pairs *p, const struct probe_facts *f, int most, struct err *e);
void pairs_free(struct pairs *p);

/* pairs_is_dead - does no connection work that a job would use? */
static inline bool pairs_is_dead(const struct pair *x)
{
	return x->tried && (x->failed == x->tried || x->cut);
}

/* pairs_at - the pair from the @from-th to the @to-th of the nodes shown. */
static inline const struct pair *pairs_at(const struct pairs *p, int from, int to)
{
	return &p->pair[(size_t)from * (size_t)p->n + (size_t)to];
}

#endif
