/* check.h - check the network between nodes: agents, all pairs, facts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_CHECK_H
#define PROBE_CHECK_H

#include <stdbool.h>

#include "probe/agents.h"
#include "probe/facts.h"
#include "probe/manual.h"

struct err;

struct check_options {
	struct agents_how agents;
	bool quick;                           /* leave bandwidth out */
	bool reach_only;                      /* measure nothing     */
	const struct manual_options *by_hand; /* NULL: agents are started from here */
};

/*
 * Bounds of the parts that follow the start, in this order.  Rounds share the time to measure,
 * so that it does not grow with the nodes.  A round that takes too long starts no further path,
 * and has CHECK_PATH_MS to end the path under way.  While paths seem slow and CHECK_DOUBT_MS
 * has not passed, all are measured again, CHECK_AGAIN_MS at a time.
 */
enum {
	CHECK_REACH_MS = 8000,
	CHECK_ROUND_MS = 3000,
	CHECK_PATH_MS = 3500,
	CHECK_MEASURE_MS = 5000,
	CHECK_MEASURE_MOST_MS = 7000,
	CHECK_PAIR_MS = 150,
	CHECK_DOUBT_MS = 1500,
	CHECK_AGAIN_MS = 700,
};

/*
 * check_run - start an agent on each node, have all of them try all addresses of all others,
 * and measure between all pairs, each node with one other at a time.
 *
 * A node without an agent, or whose agent dies, is silent or talks nonsense, gets its error
 * into its facts, and the others are checked all the same.  On return, no process and no
 * connection of the check is left on any node.
 *
 * Ownership: the contents of @f are the caller's until facts_free(), also on failure.
 */
int check_run(const struct check_options *how, struct probe_facts *f, struct err *e);

#endif
