/* mesh.h - the TCP connections of one group of ranks: rails for data, a tree for control. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_MESH_H
#define WIRE_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/grid.h"
#include "wire/secret.h"

struct err;
struct chan;

enum { MESH_FAN = 8, MESH_SOCKETS = 8 };

/* The ranks and their hosts.  All connections follow from this alone; all ranks know it. */
struct mesh_shape {
	int rank, size;
	const int *host_of;  /* of every rank; hosts are numbered by their lowest rank */
	const int *local_of; /* local rank of every rank                               */
	int sockets;         /* of one link, 1 .. MESH_SOCKETS */
};

/* All sockets between this rank and another; any message may take any of them. */
struct mesh_link {
	int host, rank; /* the other one's */
	int fds;
	int fd[MESH_SOCKETS];
};

/*
 * Each rank listens on one address during mesh_open() and never afterwards.
 * Every connection starts with a mutual challenge and response; control frames
 * carry a sequence number and a MAC, bulk data does not.  The keys depend on all
 * exchanged bytes, so ranks that were told different things do not connect.
 *
 * Data: every host has as many rails as the smallest host has ranks.  Local rank
 * j of each host has links to local rank j of the hosts that grid_linked() says,
 * plain non-blocking stream sockets; send on them with MSG_NOSIGNAL.  Further
 * ranks of a host have no links.
 * Control: the first ranks of hosts are a tree, MESH_FAN children each; control[r] is
 * a channel to rank r, or NULL.
 */
struct mesh {
	int rank, size;
	int rails;
	int links; /* sorted by host */
	struct mesh_link *link;
	struct chan **control; /* size entries */
	int pause_ms;          /* between two tries to reach a host, at most */
};

/* mesh_parent - in the tree of hosts; -1 for host 0.  The children of host h are
 * h * MESH_FAN + 1 .. h * MESH_FAN + MESH_FAN, as far as there are. */
static inline int mesh_parent(int host)
{
	return host ? (host - 1) / MESH_FAN : -1;
}

/* mesh_rails - the number of rails; 0 without memory. */
int mesh_rails(const struct mesh_shape *s);

/* mesh_has_control, mesh_has_data - is there such a connection between ranks @a and @b? */
bool mesh_has_control(const struct mesh_shape *s, int a, int b);
bool mesh_has_data(const struct mesh_shape *s, int a, int b);

/*
 * mesh_open - connect to the others.
 *
 * @s is not needed afterwards.  @address is this rank's numeric address on the
 * chosen interface.  @exchange is called twice, for addresses and for results,
 * with at most MEET_BYTES bytes; see struct ringup_init.  If it fails with a code
 * and a sentence in @e, they are kept.  With one rank nothing is called and
 * nothing connected.
 *
 * All or none: it succeeds on a rank only if all ranks have all their connections.
 * A rank that fails says so in the second exchange, and its neighbours
 * notice at once and do likewise; all ranks learn which rank is at fault.
 * Blocks until the deadline at most, if exchange() does.  mesh_close() is safe
 * after a failure.
 *
 * Returns 0, or RINGUP_EAUTH, RINGUP_EMISMATCH (another version; the rank and both
 * versions are named), RINGUP_EPEER (a rank has left), RINGUP_ETIMEDOUT (names the
 * ranks that did not connect), RINGUP_EINVAL, RINGUP_ESYSTEM or RINGUP_ENOMEM.
 */
int mesh_open(struct mesh *m, const struct mesh_shape *s, const char *address,
	      const struct secret *secret,
	      int (*exchange)(void *ctx, const void *mine, size_t len, void *all), void *ctx,
	      int64_t deadline_ns, struct err *e);

/* mesh_patience - sock_patience() of all connections; sets @pause_ms. */
void mesh_patience(struct mesh *m, int silence_ms);

/* mesh_unheard - sock_unheard() of any of the data connections of link @i. */
bool mesh_unheard(const struct mesh *m, int i, uint32_t ms);

/* mesh_close - close all connections; @m may be zeroed, or closed already. */
void mesh_close(struct mesh *m);

/* mesh_forget - in a child of fork(): close the descriptors, and no more, so that
 * other ranks notice when the parent ends. */
void mesh_forget(struct mesh *m);

#endif
