/* kvs.h - the key-value store that a launcher keeps for the ranks of a job. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_KVS_H
#define WIRE_KVS_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
	KVS_KEY_BYTES = 32,    /* with the NUL: all launchers take as much    */
	KVS_VALUE_BYTES = 512, /* with the NUL; letters, digits and '-' alone */
};

/*
 * One protocol.  A process has one connection to its launcher, so there is no
 * object.  All functions but is_here() and close() may block for as long as the launcher or
 * another rank takes.
 *
 * Threads: one at a time.
 */
struct kvs {
	const char *name; /* the protocol's, for messages */

	/* is_here - does the environment name such a store, of this rank of this job? */
	bool (*is_here)(int rank, int size);

	/* open - called once in a process; its MPI library may have a connection already. */
	int (*open)(int rank, struct err *e);

	/* put - rank 0 alone calls it; others see the value after the next fence. */
	int (*put)(const char *key, const char *value, struct err *e);

	/* fence - every rank calls it; it returns when all have. */
	int (*fence)(struct err *e);

	/* get - rank 0's value of @key, to @value of KVS_VALUE_BYTES. */
	int (*get)(const char *key, char *value, struct err *e);

	/* close - called as the process exits.  A process that ends without close() counts as
	 * failed to the launcher; after close() it cannot open() again. */
	void (*close)(void);
};

extern const struct kvs kvs_pmi, kvs_pmix;

#endif
