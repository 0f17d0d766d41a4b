/* stream.h - queued bytes to and from another process: over pipes, a socket or a channel. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_STREAM_H
#define WIRE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

struct chan;
struct err;

enum { STREAM_READ = 65536, STREAM_QUEUE = 64 << 20 };

/* Caller's storage; stream_open() fills it. */
struct stream {
	int in, out;       /* equal for a socket; not closed here             */
	bool is_socket;    /* out is one                                      */
	bool chan_left;    /* the channel still has something to send         */
	struct chan *chan; /* the owner's; carries the bytes, if not NULL     */
	struct stream_box {
		unsigned char *data;
		size_t used, len, room; /* bytes from used to len wait     */
	} inbox, outbox;
};

void stream_open(struct stream *s, int in, int out);
void stream_close(struct stream *s);

/* stream_put - queue bytes; RINGUP_ENOMEM, or RINGUP_EPEER if STREAM_QUEUE bytes wait already.
 */
int stream_put(struct stream *s, const void *data, size_t len, struct err *e);

/* stream_flush - send as much as goes without blocking; 1 if something is left, for which
 * stream_events() has POLLOUT; RINGUP_EPEER: the connection is lost. */
int stream_flush(struct stream *s, struct err *e);
short stream_events(const struct stream *s);

/* stream_read - read STREAM_READ bytes at most, or a little more, behind those that are not
 * used yet; RINGUP_EPEER at the end; RINGUP_EAUTH if they are not from the other side.
 * stream_feed - the same of @data. */
int stream_read(struct stream *s, struct err *e);
int stream_feed(struct stream *s, const void *data, size_t len, struct err *e);

#endif
