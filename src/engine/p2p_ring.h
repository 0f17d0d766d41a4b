/* p2p_ring.h - byte rings in shared memory, one from each rank of a host to every other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_P2P_RING_H
#define ENGINE_P2P_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cma.h"

/*
 * The ring from rank a to rank b is written by a and read by b, a byte stream like that of a
 * socket.  Both sides read and write without system calls; neither waits.
 *
 *	mailbox of each rank | counters of each ring | bytes of each ring
 *
 * The whole area starts as zeros.  Pages of unused rings are never touched, so they take
 * address space and no memory.
 */
struct p2p_rings {
	int ranks, me;
	size_t ring_bytes; /* a power of two */
	struct p2p_mailbox *mailbox;
	struct p2p_counters *counters;
	unsigned char *bytes;
};

/* p2p_rings_bytes - size of the area for @ranks ranks of a host. */
size_t p2p_rings_bytes(int ranks);

/* p2p_rings_open - use @area as rank @me of @ranks, and publish @self in its mailbox. */
void p2p_rings_open(struct p2p_rings *r, void *area, int ranks, int me, const struct cma *self);

/* p2p_rings_process - the process of @rank, as that rank published it. */
void p2p_rings_process(const struct p2p_rings *r, int rank, struct cma *out);

/* p2p_rings_news - a number that changes when another rank has written to this rank or has read
 * what this rank wrote. */
uint32_t p2p_rings_news(const struct p2p_rings *r);

/* p2p_rings_notify - change the number of @rank; the caller then wakes that rank. */
void p2p_rings_notify(const struct p2p_rings *r, int rank);

/* p2p_ring_is_empty - is there nothing to read in the ring of @from? */
bool p2p_ring_is_empty(const struct p2p_rings *r, int from);

/*
 * p2p_ring_write - append at most @size bytes to the ring towards @to.
 *
 * Returns the number of bytes written.  If that is less than @size, the reader notifies this
 * rank when it has made room.
 */
size_t p2p_ring_write(const struct p2p_rings *r, int to, const void *data, size_t size);

/*
 * p2p_ring_read - take at most @size bytes from the ring of @from; NULL as @data drops them.
 *
 * Returns the number of bytes read.  Sets *@wantedp, which is otherwise left alone, if the
 * writer waits for the room: the caller then owes it p2p_rings_notify() and a wake-up.
 */
size_t p2p_ring_read(const struct p2p_rings *r, int from, void *data, size_t size,
		     bool *wantedp);

#endif
