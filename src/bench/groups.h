/* groups.h - which ranks are a group, in words. */
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

/*
 * groups_parse - "4": all @ranks ranks dealt out to so many groups, the first ranks to
 * the first; "0,1/1,2,3": these groups, which may overlap.  "" is no group at all.
 */
int groups_parse(struct groups *g, const char *text, int ranks, struct err *e);

#endif
