/* stream.c - queued bytes to and from another process: over pipes, a socket or a channel. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "wire/chan.h"

void stream_open(struct stream *s, int in, int out)
{
	struct stat st;

	*s = (struct stream){ .in = in, .out = out };
	s->is_socket = out >= 0 && !fstat(out, &st) && S_ISSOCK(st.st_mode);
}

void stream_close(struct stream *s)
{
	free(s->inbox.data);
	free(s->outbox.data);
	*s = (struct stream){ .in = -1, .out = -1 };
}

/* Makes room for @more bytes, where the used ones may go. */
static int box_make_room(struct stream_box *b, size_t more, struct err *e)
{
	unsigned char *data;

	if (b->used) {
		memmove(b->data, b->data + b->used, b->len - b->used);
		b->len -= b->used;
		b->used = 0;
	}
	if (b->len + more <= b->room)
		return 0;
	data = realloc(b->data, 2 * (b->len + more));
	if (!data)
		return fail(e, RINGUP_ENOMEM, "no memory for %zu bytes", b->len + more);
	b->data = data;
	b->room = 2 * (b->len + more);
	return 0;
}

static int box_append(struct stream_box *b, const void *data, size_t len, struct err *e)
{
	int rc = box_make_room(b, len, e);

	if (!rc && len)
		memcpy(b->data + b->len, data, len);
	b->len += rc ? 0 : len;
	return rc;
}

int stream_put(struct stream *s, const void *data, size_t len, struct err *e)
{
	if (s->outbox.len - s->outbox.used + len > STREAM_QUEUE)
		return fail(e, RINGUP_EPEER, "the other side reads nothing");
	return box_append(&s->outbox, data, len, e);
}

int stream_feed(struct stream *s, const void *data, size_t len, struct err *e)
{
	return box_append(&s->inbox, data, len, e);
}

static int chan_lose(int rc, struct err *e)
{
	if (rc == RINGUP_EPEER)
		fail_in(e, "connection lost");
	else if (rc == RINGUP_EAUTH)
		fail_in(e, "the peer does not know the key, or its data were changed");
	return rc;
}

/* The channel gets no more than a frame beyond what its socket takes: the rest waits here. */
static int flush_chan(struct stream *s, struct err *e)
{
	struct stream_box *b = &s->outbox;
	int rc = chan_flush(s->chan, e);
	size_t n;

	while (!rc && b->used < b->len) {
		n = b->len - b->used < CHAN_BYTES ? b->len - b->used : CHAN_BYTES;
		rc = chan_send(s->chan, b->data + b->used, n, e);
		b->used += n;
	}
	if (rc < 0)
		return chan_lose(rc, e);
	if (b->used == b->len)
		b->used = b->len = 0;
	s->chan_left = rc > 0;
	return rc;
}

int stream_flush(struct stream *s, struct err *e)
{
	struct stream_box *b = &s->outbox;
	ssize_t n;

	if (s->chan)
		return flush_chan(s, e);
	for (; b->used < b->len; b->used += (size_t)n) {
		do
			n = s->is_socket ? send(s->out, b->data + b->used, b->len - b->used,
						MSG_NOSIGNAL)
					 : write(s->out, b->data + b->used, b->len - b->used);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0)
			return fail(e, RINGUP_EPEER, "connection lost: %s", strerror(errno));
	}
	b->used = b->len = 0;
	return 0;
}

short stream_events(const struct stream *s)
{
	return s->outbox.used < s->outbox.len || s->chan_left ? POLLOUT : 0;
}

/* An end behind the frames that have arrived is found by the next call. */
static int chan_read(struct stream *s, struct err *e)
{
	size_t got = 0;
	const void *data;
	int n, rc;

	while (got < STREAM_READ) {
		n = chan_recv(s->chan, &data, e);
		if (n == RINGUP_EPEER && got)
			return 0;
		if (n <= 0)
			return n ? chan_lose(n, e) : 0;
		rc = stream_feed(s, data, (size_t)n, e);
		if (rc)
			return rc;
		got += (size_t)n;
	}
	return 0;
}

int stream_read(struct stream *s, struct err *e)
{
	struct stream_box *b = &s->inbox;
	ssize_t n;
	int rc;

	if (s->chan)
		return chan_read(s, e);
	rc = box_make_room(b, STREAM_READ, e);
	if (rc)
		return rc;
	do
		n = read(s->in, b->data + b->len, STREAM_READ);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return fail(e, RINGUP_EPEER, "connection lost%s%s", n < 0 ? ": " : "",
			    n < 0 ? strerror(errno) : "");
	b->len += (size_t)n;
	return 0;
}
