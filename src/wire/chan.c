/* chan.c - frames with a sequence number and a MAC over a stream socket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/chan.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "wire/pack.h"
#include "wire/shake.h"
#include "wire/sock.h"

enum { AT_LENGTH = 0, AT_SEQ = 8, AT_MAC = 16, MAC_BYTES = 16, HEAD = 32, FIRST_ROOM = 1024 };

/* Bytes from first to end are waiting, in room bytes of data. */
struct buffer {
	unsigned char *data;
	size_t first, end, room;
};

/* What one direction needs.  The two share nothing, since they may be in use
 * by two threads. */
struct side {
	unsigned char key[32];
	uint64_t seq;
	struct buffer buf;
	struct err broken; /* why this direction has ended */
};

struct chan {
	int fd;
	struct side out, in;
	struct buffer frame; /* the frame that chan_recv() returned last */
};

int chan_open(int fd, const struct shake_keys *keys, struct chan **cp, struct err *e)
{
	struct chan *c = calloc(1, sizeof(*c));

	if (!c)
		return fail(e, RINGUP_ENOMEM, "channel");
	c->fd = fd;
	memcpy(c->out.key, keys->send, sizeof(c->out.key));
	memcpy(c->in.key, keys->recv, sizeof(c->in.key));
	sock_watch(fd);
	*cp = c;
	return 0;
}

int chan_fd(const struct chan *c)
{
	return c->fd;
}

void chan_close(struct chan *c)
{
	if (!c)
		return;
	/* A child that was forked meanwhile may hold the socket open, too. */
	shutdown(c->fd, SHUT_RDWR);
	close(c->fd);
	free(c->out.buf.data);
	free(c->in.buf.data);
	free(c->frame.data);
	sodium_memzero(c, sizeof(*c));
	free(c);
}

static int break_side(struct side *s, struct err *e)
{
	if (e)
		*e = s->broken;
	return s->broken.code;
}

/* Make room for @more bytes behind the waiting ones, but double at least, so
 * that growing stays cheap. */
static int buffer_reserve(struct buffer *b, size_t more, struct err *e)
{
	size_t used = b->end - b->first, room = b->room ? b->room : FIRST_ROOM;
	unsigned char *data;

	if (b->room - b->end >= more && b->data)
		return 0;
	if (b->first) {
		memmove(b->data, b->data + b->first, used);
		b->first = 0;
		b->end = used;
	}
	while (room - used < more)
		room *= 2;
	if (room == b->room)
		return 0;
	data = realloc(b->data, room);
	if (!data)
		return fail(e, RINGUP_ENOMEM, "channel: %zu bytes", room);
	b->data = data;
	b->room = room;
	return 0;
}

static void make_mac(const struct side *s, const unsigned char *head, const void *data,
		     size_t len, unsigned char out[32])
{
	secret_mac(out, s->key,
		   (struct secret_part[]){ { head, AT_MAC }, { data, len }, { NULL, 0 } });
}

int chan_send(struct chan *c, const void *data, size_t len, struct err *e)
{
	struct side *s = &c->out;
	unsigned char mac[32], *head;
	int rc;

	if (s->broken.code)
		return break_side(s, e);
	if (len == 0 || len > CHAN_BYTES)
		return fail(e, RINGUP_EINVAL, "a frame has 1 to %d bytes, not %zu", CHAN_BYTES,
			    len);
	if (s->buf.end - s->buf.first + HEAD + len > CHAN_QUEUE) {
		fail(&s->broken, RINGUP_EPEER, "the other side does not read what it is sent");
		return break_side(s, e);
	}
	rc = buffer_reserve(&s->buf, HEAD + len, e);
	if (rc)
		return rc;
	head = s->buf.data + s->buf.end;
	memset(head, 0, HEAD);
	pack_put32(head + AT_LENGTH, (uint32_t)len);
	pack_put64(head + AT_SEQ, s->seq++);
	make_mac(s, head, data, len, mac);
	memcpy(head + AT_MAC, mac, MAC_BYTES);
	memcpy(head + HEAD, data, len);
	s->buf.end += HEAD + len;
	return chan_flush(c, e);
}

int chan_flush(struct chan *c, struct err *e)
{
	struct side *s = &c->out;
	struct buffer *b = &s->buf;

	if (s->broken.code)
		return break_side(s, e);
	while (b->first < b->end) {
		ssize_t n = send(c->fd, b->data + b->first, b->end - b->first,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0) {
			fail(&s->broken, RINGUP_EPEER, "%s", strerror(errno));
			return break_side(s, e);
		}
		b->first += (size_t)n;
	}
	b->first = b->end = 0;
	return 0;
}

/* Cut the first frame out of what has been received: its length, 0 if it is not
 * there yet, or a negative code. */
static int take_frame(struct chan *c, struct err *e)
{
	struct side *s = &c->in;
	size_t have = s->buf.end - s->buf.first, len;
	unsigned char *head, mac[32];
	int rc;

	if (have < HEAD)
		return 0;
	head = s->buf.data + s->buf.first;
	len = pack_get32(head + AT_LENGTH);
	if (len == 0 || len > CHAN_BYTES)
		return fail(e, RINGUP_EAUTH, "a frame of %zu bytes was announced", len);
	if (have - HEAD < len)
		return 0;
	make_mac(s, head, head + HEAD, len, mac);
	if (sodium_memcmp(mac, head + AT_MAC, MAC_BYTES) || pack_get64(head + AT_SEQ) != s->seq)
		return fail(e, RINGUP_EAUTH, "frame %llu was not sent by the other side",
			    (unsigned long long)s->seq);
	c->frame.first = c->frame.end = 0;
	rc = buffer_reserve(&c->frame, len, e);
	if (rc)
		return rc;
	/* Copied, for alignment. */
	memcpy(c->frame.data, head + HEAD, len);
	s->buf.first += HEAD + len;
	s->seq++;
	return (int)len;
}

/* 1 if bytes came, 0 if there are none now, or a negative code. */
static int fill(struct chan *c, struct err *e)
{
	struct buffer *b = &c->in.buf;
	int rc;

	/* Never more than is there already once again: memory follows what was
	 * received, not what was announced. */
	rc = buffer_reserve(b, b->end - b->first < FIRST_ROOM ? FIRST_ROOM : 1, e);
	if (rc)
		return rc;
	for (;;) {
		ssize_t n = recv(c->fd, b->data + b->end, b->room - b->end, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return fail(e, RINGUP_EPEER, "%s", strerror(errno));
		if (n == 0)
			return fail(e, RINGUP_EPEER, "the other side closed the connection");
		b->end += (size_t)n;
		return 1;
	}
}

int chan_recv(struct chan *c, const void **datap, struct err *e)
{
	struct side *s = &c->in;
	int rc;

	if (s->broken.code)
		return break_side(s, e);
	for (;;) {
		rc = take_frame(c, &s->broken);
		if (rc)
			break;
		rc = fill(c, &s->broken);
		if (rc <= 0)
			break;
	}
	if (rc < 0)
		return break_side(s, e);
	if (rc > 0)
		*datap = c->frame.data;
	return rc;
}
