/* blame.h - find the smallest scopes (nodes, interface, port) that explain failed trials. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_BLAME_H
#define PROBE_BLAME_H

#include <stdbool.h>

struct err;

/* Traits in which trials differ besides their nodes; values count from 1, 0: all the same. */
enum blame_trait { BLAME_NIC, BLAME_NET, BLAME_PORT, BLAME_TRAITS };

struct blame_trial {
	int from, to;
	int trait[BLAME_TRAITS];
	bool bad;
	int scope; /* the scope that explains it, set by blame_find(); -1: none */
};

/* The nodes that all trials of a scope share.  The order is preference where two scopes explain
 * the same trials: with two nodes, "n1 to n2" claims no more than was seen. */
enum blame_form {
	BLAME_PAIR,  /* from a to b                             */
	BLAME_BOTH,  /* between a and b                         */
	BLAME_TO,    /* to a, from all nodes                    */
	BLAME_FROM,  /* from a, to all nodes                    */
	BLAME_NODE,  /* to and from a                           */
	BLAME_SPLIT, /* between groups that are connected within */
	BLAME_ANY,   /* all nodes                               */
};

struct blame_scope {
	enum blame_form form;
	int a, b;                /* nodes, where the form has them; -1 otherwise */
	int trait[BLAME_TRAITS]; /* 0: any value */
	int trials;              /* bad trials that it explains and no earlier scope does */
};

struct blame {
	struct blame_scope *scopes; /* those that explain most come first */
	int n;
	int *group; /* of each node, if there is a BLAME_SPLIT; NULL otherwise */
	int groups;
};

enum { BLAME_NODES = 4095, BLAME_VALUES = 4095, BLAME_SCOPES = 32 };

/*
 * blame_find - find scopes in which every trial is bad, until all bad trials are explained.
 *
 * Each step takes the scope that explains most of the rest; of two that explain the same, the
 * one with fewer traits, then the earlier form.  It stops after BLAME_SCOPES, since so many
 * faults have no common cause.  Pure: the same trials give the same scopes.
 *
 * @nodes is at most BLAME_NODES.  Ownership: the contents of @b are the caller's until
 * blame_free(), also on failure.
 */
int blame_find(struct blame *b, struct blame_trial *trials, int n, int nodes, struct err *e);
void blame_free(struct blame *b);

#endif
