/* agent.h - what runs on each node of a check: tells, answers, probes, and goes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_AGENT_H
#define PROBE_AGENT_H

#include <jansson.h>
#include <stdbool.h>

#include "probe/talk.h"
#include "wire/secret.h"

struct err;

/*
 * An agent lives no longer than AGENT_SECONDS, and no longer than its conversation.  It starts
 * no program but nft and iptables-save, which list rules.  An agent either checks: then it
 * gives up its rights before it listens, and answers nobody but agents of the same check.  Or
 * it carries out the orders of its caller, and listens to nobody but its conversation.
 *
 * The conversation of a check, each line with "op":
 *
 *	hello
 *	    secret (unless it is known), node (its number), names (of all nodes),
 *	    port (to try first)
 *	facts
 *	    facts (this node, see facts.h), listens (address, interface, port, kind)
 *	reach
 *	    facts (names of nodes; paths to try)
 *	reached
 *	    facts (the same paths, tried)
 *	measure
 *	    path (its position in reach), latency_ms, bandwidth_ms
 *	measured
 *	    path, latency_min_us, latency_median_us, bandwidth_mbs
 *	error
 *	    why
 */
enum {
	AGENT_SECONDS = 180,
	AGENT_WAIT_SECONDS = 1800, /* by hand: for the others, before it is greeted */
	AGENT_REGISTERED = 1024,
	AGENT_STORE = 29500,
	AGENT_NAMES_MS = 1500
};

/* What an agent can be told to do besides a check; see settle/writer.h. */
struct agent_orders {
	bool (*knows)(const char *op);
	/* Carry out @msg; the answer, the agent's to release, to *@replyp. */
	int (*obey)(void *self, const json_t *msg, json_t **replyp, struct err *e);
	void *self;
};

/*
 * agent_run - take part, on the node whose files are below @root; returns when the
 * conversation ends.
 *
 * An agent that was started by hand has its secret already, @known.  Without @orders, NULL,
 * it checks and does nothing else.
 */
int agent_run(struct talk *t, const char *root, const struct secret *known,
	      const struct agent_orders *orders, struct err *e);

#endif
