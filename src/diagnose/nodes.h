/* nodes.h - find the node that owns an address, among recorded nodes or this machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_NODES_H
#define DIAGNOSE_NODES_H

#include <stdbool.h>
#include <stddef.h>

#include "host/snapshot.h"

struct err;

/* The nodes that logs are compared with: recorded ones, or this one.  Zero-initialise. */
struct nodes {
	struct snapshot *node;
	int n;
	bool live; /* the only one is this machine */
};

/* nodes_add - add a node that `ringup net snapshot` recorded. */
int nodes_add(struct nodes *l, const char *path, struct err *e);

/* nodes_here - add this machine, whose paths are below @root. */
int nodes_here(struct nodes *l, const char *root, struct err *e);
void nodes_free(struct nodes *l);

enum nodes_owner {
	NODES_UNKNOWN,  /* none of these has it */
	NODES_LOOPBACK, /* every node has it, for itself */
	NODES_SHARED,   /* several have it, or all that have such a bridge */
	NODES_ONE,      /* exactly one */
};

/* nodes_own - find the owner of @address; @out, of @size bytes: a sentence on it, or "". */
enum nodes_owner nodes_own(const struct nodes *l, const char *address, char *out, size_t size);

/* nodes_shared - the same for an address that several nodes have, if there is one. */
enum nodes_owner nodes_shared(const struct nodes *l, char *out, size_t size);

/* nodes_name - the name of node @i, for display. */
const char *nodes_name(const struct nodes *l, int i);

#endif
