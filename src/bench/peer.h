/* peer.h - peers: other libraries whose speed is measured beside ours, and their start. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>

#include "base/argv.h"

struct err;

/* Inputs for the start of peers. */
struct peer_setup {
	int ranks;
	const char *self;   /* this program                                    */
	const char *door;   /* socket that ranks connect to                    */
	const char *dir;    /* for build results; removed at the end           */
	const char *data;   /* folder with the programs of the peers           */
	const char *python; /* a Python with the peer's packages               */
	const char *under;  /* program that starts each rank, or ""            */
};

/* peer_has - can @s's Python import @module? */
bool peer_has(const struct peer_setup *s, const char *module);

struct peer {
	const char *name;
	const char *summary;

	/* Finds all programs, builds what is needed, and writes the command that starts the
	 * ranks to @a.  Fails with a sentence if the peer is not on this machine. */
	int (*command)(const struct peer_setup *s, struct argv *a, struct err *e);
};

extern const struct peer peers[]; /* ends with an entry without a name */

/* peer_find - by name, or NULL. */
const struct peer *peer_find(const char *name);

#endif
