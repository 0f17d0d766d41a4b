/* agent.h - the agent on each node of a check: reports its node, answers and sends probes. */
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
 * no program but nft and iptables-save, which list rules.  In a check it gives up its rights
 * before it listens, and answers only agents of the same check.  With orders it carries out
 * its caller's requests, and listens only to its conversation.
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
	AGENT_WAIT_SECONDS = 1800, /* an agent started by hand waits this long for "hello" */
	AGENT_REGISTERED = 1024,
	AGENT_STORE = 29500,
	AGENT_RENDEZVOUS = 29400,
	AGENT_NAMES_MS = 1500
};

/* Requests that an agent carries out besides a check; see settle/writer.h. */
struct agent_orders {
	bool (*knows)(const char *op);
	/* Carries out @msg; *@replyp is the answer, which the agent releases. */
	int (*obey)(void *self, const json_t *msg, json_t **replyp, struct err *e);
	void *self;
};

/*
 * agent_run - run the agent of the node whose files are below @root, until its conversation
 * ends.
 *
 * @known is the secret of an agent that was started by hand, else NULL.  With @orders NULL the
 * agent only checks.
 */
int agent_run(struct talk *t, const char *root, const struct secret *known,
	      const struct agent_orders *orders, struct err *e);

#endif
