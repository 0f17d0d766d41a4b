/* groups.h - parse the --groups option: lists of ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_GROUPS_H
#define BENCH_GROUPS_H

struct err;

enum { GROUPS_MOST = 64, GROUPS_RANKS = 1024 };

struct groups {
	int count;
	int first[GROUPS_MOST], size[GROUPS_MOST]; /* places in ranks */
	int ranks[GROUPS_RANKS];
};

/* groups_parse - "4" divides all @ranks ranks into so many groups, the first ranks to the
 * first; "0,1/1,2,3" lists the groups, which may overlap; "" is no group. */
int groups_parse(struct groups *g, const char *text, int ranks, struct err *e);

#endif
