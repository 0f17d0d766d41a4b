/* common.h - choose one network for all nodes of a job, and each node's interface in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_COMMON_H
#define NICPICK_COMMON_H

#include "nicpick/own.h"

struct err;

enum { COMMON_NETWORK = IFACE_TEXT };

struct common_node {
	const char *name;         /* for messages                                       */
	const char *address;      /* numeric, which the name resolves to; NULL: unknown */
	const char *container_ip; /* the platform's setting on that node, or NULL       */
	const struct iface_list *ifaces;
	struct picked own; /* the result, own_choose()'s                                */
};

/* The user's wishes; NULL: none. */
struct common_ask {
	const char *interface, *named_by;
	const char *network;
	enum own_prefer prefer;
	const char *decide; /* as in struct own_hint */
};

/*
 * common_choose - own_choose() for each node, knowing the others, and one network for all.
 *
 * @network gets the CIDR that contains each node's chosen address and no other interface's, if
 * the interfaces' names differ between nodes or the user asked for a network; else "".
 *
 * Returns 0, RINGUP_EINVAL with a sentence that names the node that cannot decide or the two
 * that would not meet, or RINGUP_ENOMEM.  nodes[].own belongs to the caller until
 * picker_free(), also on failure; then some may be empty.
 */
int common_choose(struct common_node *nodes, int n, const struct common_ask *ask,
		  char network[COMMON_NETWORK], struct err *e);

#endif
