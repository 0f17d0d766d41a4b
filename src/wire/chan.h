/* chan.h - an authenticated connection that carries frames. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_CHAN_H
#define WIRE_CHAN_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* Largest frame, payload only; a longer announcement ends the connection. */
enum { CHAN_BYTES = 65536 };

struct chan;

/* chan_fd - for poll(2). */
int chan_fd(const struct chan *c);

/*
 * chan_send - queue a frame and send what the socket takes now; never blocks.
 *
 * Returns 0, or 1 if something is left (poll for POLLOUT, then chan_flush()),
 * or a negative code if the connection is broken.
 * Threads: one at a time per channel; chan_send() beside chan_recv() is fine.
 */
int chan_send(struct chan *c, const void *data, size_t len, struct err *e);
int chan_flush(struct chan *c, struct err *e);

/*
 * chan_recv - the next whole frame, if there is one; never blocks.
 *
 * Returns its length (> 0) and points *@datap into the channel's own memory,
 * valid until the next call; 0 if there is none yet; RINGUP_EPEER when the other
 * side has closed; RINGUP_EAUTH if a MAC or sequence number is wrong.
 */
int chan_recv(struct chan *c, const void **datap, struct err *e);

void chan_close(struct chan *c);

#endif
