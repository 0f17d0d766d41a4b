/* frame.h - the frames of the control protocol between the leaders of hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_FRAME_H
#define ENGINE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/chan.h"

/*
 * Frames; numbers are little-endian, ids are the child's, and the rows of a subtree's ranks
 * begin with the lowest rank:
 *
 *	DEFINE  id:2 count:1 (rank:4 signature:112)*count rows:8*  name...     up
 *	READY   (id:2 rows:8* or data*)*                                  up
 *	RUN     more:1 (id:2 then nothing, rows:8*, data* or length:2 sentence)*  down
 *	LEAVE   rank:4                                                    both
 *	ALARM   code:4 culprit:4 sentence...                              both
 *	PING                                                              both
 *	JOINED  any:1                                                     up
 *	CALL    signature:112 name...                                          down
 *	REPORT  anything...                                               up
 *	OFFER   id:2 data*                                                down
 *	DECLINE                                                           up
 *	INVITE  from:4 to:4 address...                                    both
 *
 * DEFINE: ready, with this definition; with two signatures the ranks disagree.  READY: ready,
 * as defined before.  Rows follow where the operation has rows: upwards of the subtree's ranks,
 * downwards of all.  RUN: the next batch, or with more a part of it.  Data follow if a mark at
 * the id says so: upwards a host's sum, downwards the result; see inline.h.  OFFER: ready on
 * the root's host, with its sum; DECLINE: see coordinator_offer.c.  INVITE: see p2p_far.c.
 */
enum frame {
	FRAME_DEFINE = 1,
	FRAME_READY,
	FRAME_RUN,
	FRAME_LEAVE,
	FRAME_ALARM,
	FRAME_PING,
	FRAME_JOINED,
	FRAME_CALL,
	FRAME_REPORT,
	FRAME_OFFER,
	FRAME_DECLINE,
	FRAME_INVITE,
};

/* A frame to be sent. */
struct frame_out {
	size_t len;
	unsigned char data[CHAN_BYTES];
};

/* frame_begin - an empty frame of that kind; frame_put - append the lowest @bytes of @v;
 * frame_add - append bytes.  The caller ensures that they fit. */
void frame_begin(struct frame_out *o, enum frame kind);
void frame_put(struct frame_out *o, uint64_t v, int bytes);
void frame_add(struct frame_out *o, const void *data, size_t len);

/* A received frame, not trusted.  A number beyond its end reads as zero, and sets bad: the
 * reader checks that at the end. */
struct frame_in {
	const unsigned char *at;
	size_t left;
	bool bad;
};

/* frame_bytes - the next @len bytes, or NULL; frame_get - the next number of @bytes. */
const unsigned char *frame_bytes(struct frame_in *f, size_t len);
uint64_t frame_get(struct frame_in *f, int bytes);

#endif
