/* mesh.h - the TCP connections of one job: a ring for data, a star for control. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_MESH_H
#define WIRE_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "wire/secret.h"

struct err;

/*
 * Each rank listens on one address during mesh_open() and never afterwards.
 * Every connection starts with a mutual challenge and response; control frames
 * carry a sequence number and a MAC, bulk data does not.  The keys depend on all
 * that was exchanged, so ranks that were told different things do not connect.
 *
 * data_prev and data_next are plain non-blocking stream sockets to the
 * neighbours in rank order (a ring; with 2 ranks they are two sockets); send on
 * them with MSG_NOSIGNAL.
 * control: on rank 0 one channel per other rank, elsewhere one to rank 0.
 */
struct chan;
struct mesh {
	int rank, size;
	int data_prev, data_next; /* -1 with one rank                              */
	struct chan **control;    /* size entries; NULL where there is no channel  */
};

/*
 * mesh_open - connect to the others.
 *
 * @address is this rank's numeric address on the chosen interface.  @exchange
 * is called once, with at most MEET_BYTES bytes; see struct ringup_init.  If it
 * fails with a code and a sentence in @e, they are kept.  With one rank nothing
 * is called and nothing connected.
 *
 * All or none: it succeeds on a rank only if all have connected to all that
 * they should.  Otherwise each rank that could be told hears whose fault it was.
 * Blocks until the deadline at most.  mesh_close() is safe after a failure.
 *
 * Returns 0, or RINGUP_EAUTH, RINGUP_EMISMATCH (another version; the rank and both
 * versions are named), RINGUP_EPEER (a rank has left), RINGUP_ETIMEDOUT (names the
 * ranks that did not connect), RINGUP_EINVAL, RINGUP_ESYSTEM or RINGUP_ENOMEM.
 */
int mesh_open(struct mesh *m, int rank, int size, const char *address, const struct secret *s,
	      int (*exchange)(void *ctx, const void *mine, size_t len, void *all), void *ctx,
	      int64_t deadline_ns, struct err *e);

/* mesh_close - close all connections; @m may be zeroed, or closed already. */
void mesh_close(struct mesh *m);

#endif
