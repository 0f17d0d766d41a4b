/* test_chan.c - frames arrive whole, in order and unchanged, or not at all. */
/* proves: F21 of docs/RELIABILITY.md */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/chan.h"
#include "wire/shake.h"

enum { HEAD = 32 };

static struct shake_keys here, there;
static bool sealed; /* the channels of the tests */

static struct chan *chan_of(int fd, const struct shake_keys *keys)
{
	struct err e = { 0 };
	struct chan *c = NULL;

	if (chan_open(fd, keys, &c, &e))
		exit(99);
	if (sealed)
		chan_seal(c);
	return c;
}

static unsigned char big[CHAN_BYTES];

/* Two channels that talk to each other, with @a and @b as their sockets. */
static void connect_two(struct chan **a, struct chan **b)
{
	int fd[2];

	ok(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd),
	   "two %schannels", sealed ? "sealed " : "");
	*a = chan_of(fd[0], &here);
	*b = chan_of(fd[1], &there);
}

/* A channel and the bare socket on its other side. */
static struct chan *connect_bare(int *bare)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		exit(99);
	*bare = fd[1];
	return chan_of(fd[0], &there);
}

/* What @frames frames of a fresh channel look like on the wire. */
static size_t record(unsigned char *out, size_t room, int frames)
{
	struct err e = { 0 };
	struct chan *c;
	int fd[2], i;
	char text[16];
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		exit(99);
	c = chan_of(fd[0], &here);
	for (i = 0; i < frames; i++) {
		snprintf(text, sizeof(text), "frame %d", i);
		if (chan_send(c, text, 8, &e))
			exit(99);
	}
	n = read(fd[1], out, room);
	chan_close(c);
	close(fd[1]);
	return n > 0 ? (size_t)n : 0;
}

static void test_exchange(void)
{
	struct err e = { 0 };
	struct chan *a, *b;
	const void *data;
	int i, good = 0;

	connect_two(&a, &b);
	ok(chan_recv(b, &data, &e) == 0, "nothing yet");
	ok(chan_send(a, "hello", 5, &e) == 0, "sent");
	ok(chan_recv(b, &data, &e) == 5 && !memcmp(data, "hello", 5), "received");
	ok((uintptr_t)data % _Alignof(max_align_t) == 0, "aligned");
	ok(chan_recv(b, &data, &e) == 0, "once");
	for (i = 1; i <= 100; i++)
		good += chan_send(a, big, (size_t)i * 7, &e) == 0;
	for (i = 1; i <= 100; i++)
		good += chan_recv(b, &data, &e) == i * 7 && !memcmp(data, big, (size_t)i * 7);
	ok(good == 200, "a hundred frames in order");
	ok(chan_send(b, "back", 4, &e) == 0 && chan_recv(a, &data, &e) == 4, "and back");
	ok(chan_send(a, big, 0, &e) == RINGUP_EINVAL, "an empty frame: %s", e.text);
	ok(chan_send(a, big, CHAN_BYTES + 1, &e) == RINGUP_EINVAL, "a frame too large: %s",
	   e.text);
	ok(chan_send(a, "last", 4, &e) == 0, "which harms nothing");
	chan_close(a);
	ok(chan_recv(b, &data, &e) == 4, "the last frame is read after the end");
	ok(chan_recv(b, &data, &e) == RINGUP_EPEER, "then the end: %s", e.text);
	ok(chan_recv(b, &data, &e) == RINGUP_EPEER, "again");
	/* The first may still find the socket writable. */
	chan_send(b, "x", 1, &e);
	ok(chan_send(b, "x", 1, &e) == RINGUP_EPEER, "nobody to send to, and no signal: %s",
	   e.text);
	chan_close(b);
	chan_close(NULL);
}

/* More than a socket holds: both sides take turns. */
static void test_large(void)
{
	struct err e = { 0 };
	struct chan *a, *b;
	const void *data;
	int sent = 0, got = 0, rc, wrong = 0, refused = 0;

	connect_two(&a, &b);
	for (sent = 0; sent < 40; sent++)
		refused += chan_send(a, big, sizeof(big), &e) < 0;
	ok(!refused && chan_flush(a, &e) == 1, "the socket is full, the rest is queued");
	for (rc = 0; got < sent && rc >= 0;) {
		chan_flush(a, &e);
		rc = chan_recv(b, &data, &e);
		if (rc == 0)
			continue;
		wrong += rc != CHAN_BYTES || memcmp(data, big, sizeof(big));
		got++;
	}
	ok(got == sent && !wrong, "all of it arrives");
	ok(chan_flush(a, &e) == 0, "nothing is left");
	for (rc = 0, sent = 0; rc >= 0 && sent < 1000; sent++)
		rc = chan_send(a, big, sizeof(big), &e);
	ok(rc == RINGUP_EPEER && sent < 1000, "a reader that never reads: %s", e.text);
	chan_close(a);
	chan_close(b);
}

static int takes(const unsigned char *bytes, size_t len, struct err *e)
{
	const void *data;
	int bare, rc, frames = 0;
	struct chan *c = connect_bare(&bare);

	if (write(bare, bytes, len) != (ssize_t)len)
		exit(99);
	while ((rc = chan_recv(c, &data, e)) > 0)
		frames++;
	chan_close(c);
	close(bare);
	return rc < 0 ? rc : frames;
}

static void test_forged(void)
{
	unsigned char two[2 * (HEAD + 8)], bad[4 * (HEAD + 8)];
	size_t len = record(two, sizeof(two), 2), one = HEAD + 8;
	struct err e = { 0 };
	int bit, passed = 0;

	ok(len == sizeof(two), "two frames, recorded");
	ok(takes(two, len, &e) == 2, "are accepted as they are");
	ok((memmem(two, len, "frame", 5) == NULL) == sealed, "%s",
	   sealed ? "nobody in between can read them" : "anybody can read them");
	sealed = !sealed;
	ok(takes(two, len, &e) == RINGUP_EAUTH, "a channel of the other kind refuses them");
	sealed = !sealed;
	for (bit = 0; bit < (int)one * 8; bit++) {
		memcpy(bad, two, len);
		bad[bit / 8] ^= (unsigned char)(1 << bit % 8);
		/* A changed length may be one that waits for more. */
		passed += takes(bad, len, &e) > 0;
	}
	ok(passed == 0, "one flipped bit, wherever, is noticed");
	memcpy(bad, two, one);
	memcpy(bad + one, two, one);
	ok(takes(bad, 2 * one, &e) == RINGUP_EAUTH, "a frame sent twice: %s", e.text);
	ok(takes(two + one, one, &e) == RINGUP_EAUTH, "a frame left out: %s", e.text);
	memcpy(bad, two + one, one);
	memcpy(bad + one, two, one);
	ok(takes(bad, 2 * one, &e) == RINGUP_EAUTH, "two frames swapped: %s", e.text);
	ok(takes(two, one + HEAD + 3, &e) == 1, "half a frame is no frame");
}

static void test_reflected(void)
{
	unsigned char wire[HEAD + 8];
	struct err e = { 0 };
	const void *data;
	int bare;
	struct chan *c = connect_bare(&bare);

	ok(chan_send(c, "mirror", 6, &e) == 0 && read(bare, wire, sizeof(wire)) == HEAD + 6,
	   "a frame");
	ok(write(bare, wire, HEAD + 6) == HEAD + 6 && chan_recv(c, &data, &e) == RINGUP_EAUTH,
	   "that is sent back is not taken: %s", e.text);
	chan_close(c);
	close(bare);
}

static void test_lengths(void)
{
	static const uint32_t lengths[] = { 0, CHAN_BYTES + 1, 0x7fffffff, 0x80000000,
					    0xffffffff };
	unsigned char head[HEAD] = { 0 };
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		memcpy(head, &lengths[i], 4);
		ok(takes(head, sizeof(head), &e) == RINGUP_EAUTH, "length %u: %s", lengths[i],
		   e.text);
	}
}

static void test_slow(void)
{
	unsigned char two[2 * (HEAD + 8)];
	size_t len = record(two, sizeof(two), 2), i;
	struct err e = { 0 };
	const void *data;
	int bare, frames = 0, rc = 0;
	struct chan *c = connect_bare(&bare);

	for (i = 0; i < len && rc >= 0; i++) {
		rc = write(bare, two + i, 1) == 1 ? chan_recv(c, &data, &e) : -99;
		frames += rc > 0;
	}
	ok(frames == 2, "a byte at a time");
	chan_close(c);
	close(bare);
}

static void test_release(void)
{
	struct chan *a, *b;
	char byte = 0;
	int fd;

	connect_two(&a, &b);
	fd = chan_fd(a);
	chan_release(a);
	ok(write(fd, "x", 1) == 1 && read(chan_fd(b), &byte, 1) == 1 && byte == 'x',
	   "a connection outlives its channel if that is released");
	close(fd);
	chan_close(b);
}

int main(void)
{
	size_t i;

	for (i = 0; i < sizeof(big); i++)
		big[i] = (unsigned char)(i * 31 >> 3);
	memset(here.send, 1, 32);
	memset(here.recv, 2, 32);
	memset(there.send, 2, 32);
	memset(there.recv, 1, 32);
	for (i = 0; i < 2; i++, sealed = true) {
		test_exchange();
		test_large();
		test_forged();
		test_reflected();
		test_lengths();
		test_slow();
	}
	test_release();
	return tap_done();
}
