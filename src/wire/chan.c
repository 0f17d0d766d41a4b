/* chan.c - frames with a sequence number and a MAC over a stream socket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/chan.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
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

enum { NONCE_BYTES = crypto_aead_chacha20poly1305_ietf_NPUBBYTES };

_Static_assert(crypto_shorthash_siphashx24_BYTES == MAC_BYTES &&
		       crypto_shorthash_siphashx24_KEYBYTES <= 32 &&
		       crypto_aead_chacha20poly1305_ietf_ABYTES == MAC_BYTES &&
		       crypto_aead_chacha20poly1305_ietf_KEYBYTES == 32,
	       "a MAC and its key");

/* The state of one direction.  The two directions share nothing, since two threads may
 * use them at once. */
struct side {
	unsigned char key[32];
	uint64_t seq;
	struct buffer buf;
	struct err broken; /* why this direction has ended */
};

struct chan {
	int fd;
	struct side out, in;
	bool taken;  /* the frame in in.buf has been returned */
	bool sealed; /* payloads are encrypted */
};

int chan_open(int fd, const struct shake_keys *keys, struct chan **cp, struct err *e)
{
	struct chan *c = calloc(1, sizeof(*c));

	if (!c)
		return fail(e, RINGUP_ENOMEM, "channel");
	c->fd = fd;
	memcpy(c->out.key, keys->send, sizeof(c->out.key));
	memcpy(c->in.key, keys->recv, sizeof(c->in.key));
	sock_watch(fd, CHAN_SILENCE_MS);
	*cp = c;
	return 0;
}

void chan_seal(struct chan *c)
{
	c->sealed = true;
}

int chan_fd(const struct chan *c)
{
	return c->fd;
}

void chan_watch(struct chan *c, int silence_ms)
{
	sock_watch(c->fd, silence_ms);
}

void chan_release(struct chan *c)
{
	if (!c)
		return;
	free(c->out.buf.data);
	free(c->in.buf.data);
	sodium_memzero(c, sizeof(*c));
	free(c);
}

void chan_close(struct chan *c)
{
	if (!c)
		return;
	/* A child of fork() may hold the socket open, too. */
	shutdown(c->fd, SHUT_RDWR);
	close(c->fd);
	chan_release(c);
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

/* The MAC of a whole frame; the frame's own MAC field is zero. */
static void make_mac(const struct side *s, const unsigned char *frame, size_t len,
		     unsigned char out[MAC_BYTES])
{
	crypto_shorthash_siphashx24(out, frame, HEAD + len, s->key);
}

/* The number of a frame is never used twice with one key, so it is the nonce. */
static void make_nonce(const unsigned char *frame, unsigned char nonce[NONCE_BYTES])
{
	memset(nonce, 0, NONCE_BYTES);
	memcpy(nonce, frame + AT_SEQ, 8);
}

/* Encrypts the payload of a frame where it lies, and writes the MAC. */
static void seal_frame(const struct side *s, unsigned char *frame, size_t len)
{
	unsigned char nonce[NONCE_BYTES], *text = frame + HEAD;

	make_nonce(frame, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt_detached(
		text, frame + AT_MAC, NULL, text, len, frame, AT_MAC, NULL, nonce, s->key);
}

/* Decrypts it; false if the other side has not sent this frame. */
static bool open_frame(const struct side *s, unsigned char *frame, size_t len)
{
	unsigned char nonce[NONCE_BYTES], *text = frame + HEAD;

	make_nonce(frame, nonce);
	return !crypto_aead_chacha20poly1305_ietf_decrypt_detached(
		text, NULL, text, len, frame + AT_MAC, frame, AT_MAC, nonce, s->key);
}

int chan_send(struct chan *c, const void *data, size_t len, struct err *e)
{
	struct side *s = &c->out;
	unsigned char mac[MAC_BYTES], *head;
	int rc;

	if (s->broken.code)
		return break_side(s, e);
	if (len == 0 || len > CHAN_BYTES)
		return fail(e, RINGUP_EINVAL, "a frame must have 1 to %d bytes, not %zu",
			    CHAN_BYTES, len);
	if (s->buf.end - s->buf.first + HEAD + len > CHAN_QUEUE) {
		fail(&s->broken, RINGUP_EPEER, "the peer does not read its messages");
		return break_side(s, e);
	}
	rc = buffer_reserve(&s->buf, HEAD + len, e);
	if (rc)
		return rc;
	head = s->buf.data + s->buf.end;
	memset(head, 0, HEAD);
	pack_put32(head + AT_LENGTH, (uint32_t)len);
	pack_put64(head + AT_SEQ, s->seq++);
	memcpy(head + HEAD, data, len);
	if (c->sealed) {
		seal_frame(s, head, len);
	} else {
		make_mac(s, head, len, mac);
		memcpy(head + AT_MAC, mac, MAC_BYTES);
	}
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

/* How many bytes of this frame are still to come, as far as is known yet. */
static size_t missing(const struct buffer *b)
{
	size_t whole = HEAD;

	if (b->end >= HEAD)
		whole += pack_get32(b->data + AT_LENGTH);
	return whole - b->end;
}

/*
 * Receive what is missing and no more: bytes of the next frame stay in the
 * socket, so that poll(2) knows of them.  1 if nothing is missing, 0 if the
 * rest has not arrived, or a negative code.
 */
static int chan_fill(struct chan *c, size_t want, struct err *e)
{
	struct buffer *b = &c->in.buf;
	size_t some;
	ssize_t n;
	int rc;

	while (want) {
		/* Memory grows with received bytes, not with the announced length. */
		some = b->end < FIRST_ROOM ? FIRST_ROOM : b->end;
		some = want < some ? want : some;
		rc = buffer_reserve(b, some, e);
		if (rc)
			return rc;
		n = recv(c->fd, b->data + b->end, some, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return fail(e, RINGUP_EPEER, "%s", strerror(errno));
		if (n == 0)
			return fail(e, RINGUP_EPEER, "the other side closed the connection");
		b->end += (size_t)n;
		want -= (size_t)n;
	}
	return 1;
}

static bool mac_is_right(const struct side *s, unsigned char *frame, size_t len)
{
	unsigned char mac[MAC_BYTES], theirs[MAC_BYTES];

	memcpy(theirs, frame + AT_MAC, MAC_BYTES);
	memset(frame + AT_MAC, 0, MAC_BYTES);
	make_mac(s, frame, len, mac);
	return !sodium_memcmp(mac, theirs, MAC_BYTES);
}

/* Checks MAC and sequence number of the whole frame; returns its length, or RINGUP_EAUTH. */
static int check_frame(struct side *s, bool sealed, struct err *e)
{
	unsigned char *head = s->buf.data;
	size_t len = pack_get32(head + AT_LENGTH);

	if (pack_get64(head + AT_SEQ) != s->seq ||
	    !(sealed ? open_frame(s, head, len) : mac_is_right(s, head, len)))
		return fail(e, RINGUP_EAUTH, "frame %llu did not come from the peer",
			    (unsigned long long)s->seq);
	s->seq++;
	return (int)len;
}

static int chan_receive(struct chan *c, struct err *e)
{
	struct side *s = &c->in;
	uint32_t len;
	int rc = 1;

	if (c->taken)
		s->buf.end = 0;
	c->taken = false;
	if (s->buf.end < HEAD)
		rc = chan_fill(c, missing(&s->buf), e);
	if (rc <= 0)
		return rc;
	len = pack_get32(s->buf.data + AT_LENGTH);
	if (len == 0 || len > CHAN_BYTES)
		return fail(e, RINGUP_EAUTH, "a frame of %u bytes was announced", len);
	rc = chan_fill(c, missing(&s->buf), e);
	if (rc <= 0)
		return rc;
	c->taken = true;
	return check_frame(s, c->sealed, e);
}

int chan_recv(struct chan *c, const void **datap, struct err *e)
{
	struct side *s = &c->in;
	int rc;

	if (s->broken.code)
		return break_side(s, e);
	rc = chan_receive(c, &s->broken);
	if (rc < 0)
		return break_side(s, e);
	/* Aligned for any type: HEAD is a multiple of 16, and malloc() aligns to that. */
	if (rc > 0)
		*datap = s->buf.data + HEAD;
	return rc;
}
