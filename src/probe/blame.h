/* blame.h - what failed trials between nodes have in common, in the fewest words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_BLAME_H
#define PROBE_BLAME_H

#include <stdbool.h>

struct err;

/* By what trials may differ besides their nodes; numbers from 1, 0: all the same. */
enum blame_trait { BLAME_NIC, BLAME_NET, BLAME_PORT, BLAME_TRAITS };

struct blame_trial {
	int from, to;
	int trait[BLAME_TRAITS];
	bool bad;
	int scope; /* which of the scopes explains it, or -1: blame_find() says */
};

/*
 * Who takes part in all trials of a scope.  The order is preference where two scopes
 * explain the same trials: with two nodes, "n1 to n2" claims no more than was seen.
 */
enum blame_form {
	BLAME_PAIR,  /* from a to b                             */
	BLAME_BOTH,  /* between a and b                         */
	BLAME_TO,    /* to a, from everybody                    */
	BLAME_FROM,  /* from a, to everybody                    */
	BLAME_NODE,  /* to and from a                           */
	BLAME_SPLIT, /* between groups that are whole in themselves */
	BLAME_ANY,   /* everybody                               */
};

struct blame_scope {
	enum blame_form form;
	int a, b;                /* nodes, where the form has them; -1 otherwise */
	int trait[BLAME_TRAITS]; /* 0: whatever it is */
	int trials;              /* how many it explains that none before it does */
};

struct blame {
	struct blame_scope *scopes; /* what explains most comes first */
	int n;
	int *group; /* of each node, if there is a BLAME_SPLIT; NULL otherwise */
	int groups;
};

enum { BLAME_NODES = 4095, BLAME_VALUES = 4095, BLAME_SCOPES = 32 };

/*
 * blame_find - scopes in which every trial is bad, until all bad ones are explained.
 *
 * Each time the scope that explains most of what is left; if two explain the same, the
 * one with fewer traits, then the earlier form.  After BLAME_SCOPES it stops: so many
 * faults have no common cause.  Pure: the same trials give the same scopes.
 *
 * @nodes is at most BLAME_NODES.  Ownership: the contents of @b are the caller's until
 * blame_free(), also on failure.
 */
int blame_find(struct blame *b, struct blame_trial *trials, int n, int nodes, struct err *e);
void blame_free(struct blame *b);

#endif
