/* peer.h - others whose speed is measured beside ours, and how to start them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>

#include "base/argv.h"

struct err;

/* What is known when peers are started. */
struct peer_setup {
	int ranks;
	const char *self;   /* this program                                    */
	const char *door;   /* socket that ranks connect to                    */
	const char *dir;    /* for what has to be built; goes away in the end  */
	const char *data;   /* folder with the programs that the peers run     */
	const char *python; /* one that has what the peer needs                */
	const char *under;  /* program that starts each rank, or ""            */
};

/* peer_has - can @s's Python import @module? */
bool peer_has(const struct peer_setup *s, const char *module);

struct peer {
	const char *name;
	const char *summary;

	/* Find everything, build what has to be built, write the command that starts
	 * the ranks to @a.  Fails with a sentence if the peer is not on this machine. */
	int (*command)(const struct peer_setup *s, struct argv *a, struct err *e);
};

extern const struct peer peers[]; /* ends with one that has no name */

/* peer_find - by name, or NULL. */
const struct peer *peer_find(const char *name);

#endif
