/* chan.h - an authenticated connection that carries frames. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_CHAN_H
#define WIRE_CHAN_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* Largest frame, payload only; a longer announcement ends the connection. */
enum { CHAN_BYTES = 65536, CHAN_QUEUE = 8 << 20, CHAN_SILENCE_MS = 15000 };

/*
 * A frame is: length of the payload (4), zero (4), sequence number (8), MAC (16),
 * payload.  The MAC is SipHash-2-4, 128 bits long, of the frame with zeros in the MAC's
 * place, under half of the direction's key; the number starts at 0 in each
 * direction, so a frame that is repeated, dropped, reflected or moved is noticed.
 *
 * A sealed channel also encrypts the payload: ChaCha20 and Poly1305 (RFC 8439) under the
 * direction's key, with the number as the nonce, over the first 16 bytes and the payload.
 */
struct chan;
struct shake_keys;

/*
 * chan_open - speak frames on @fd, connected and non-blocking, with the keys of
 * its handshake.  Takes @fd over, unless it fails; the kernel gives the connection up
 * when the other side has been unreachable for CHAN_SILENCE_MS.
 */
int chan_open(int fd, const struct shake_keys *keys, struct chan **cp, struct err *e);

/* chan_seal - encrypt, too.  Both sides call it before the first frame, or neither does. */
void chan_seal(struct chan *c);

/* chan_fd - for poll(2). */
int chan_fd(const struct chan *c);

/* chan_watch - the kernel gives the connection up after @silence_ms instead; 0: never. */
void chan_watch(struct chan *c, int silence_ms);

/*
 * chan_send - queue a frame and send as much as the socket takes; never blocks.
 *
 * Returns 0, or 1 if something is left (poll for POLLOUT, then chan_flush()),
 * or a negative code: RINGUP_EPEER if the connection is broken or the other side
 * has let CHAN_QUEUE bytes pile up, RINGUP_EINVAL if @len is 0 or too large.
 * Threads: one at a time per channel; chan_send() beside chan_recv() is fine.
 */
int chan_send(struct chan *c, const void *data, size_t len, struct err *e);
int chan_flush(struct chan *c, struct err *e);

/*
 * chan_recv - the next whole frame, if there is one; never blocks.
 *
 * Returns its length (> 0) and points *@datap into the channel's own memory,
 * aligned for any type and valid until the next call; 0 if there is none yet; RINGUP_EPEER when
 * the other side has closed, after its last frame; RINGUP_EAUTH if a length, MAC or sequence
 * number is wrong.  Failures last: each further call fails likewise.  It never
 * reads ahead: while there is another frame, poll(2) reports it.
 */
int chan_recv(struct chan *c, const void **datap, struct err *e);

/* chan_close - also wipes the keys; @c may be NULL. */
void chan_close(struct chan *c);

/* chan_release - the same, but the connection stays open: it is the caller's again. */
void chan_release(struct chan *c);

#endif
