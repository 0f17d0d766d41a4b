/* fuzz_chan.c - bytes for the frame parser: garbage, or frames with changes. */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/chan.h"
#include "wire/shake.h"

enum { FRAMES = 3, HEAD = 32, MOST = 4096 };

static bool sealed; /* every input is for both kinds of channels */

/* Frame i as it was sent, in a stream of three. */
static size_t length_of(int i)
{
	return (size_t)(1 + i * 37);
}

static size_t record(unsigned char *out, size_t room, const struct shake_keys *keys)
{
	unsigned char text[256];
	struct chan *c;
	int fd[2], i;
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) ||
	    chan_open(fd[0], keys, &c, NULL))
		abort();
	if (sealed)
		chan_seal(c);
	for (i = 0; i < FRAMES; i++) {
		memset(text, 'a' + i, sizeof(text));
		fuzz_require(chan_send(c, text, length_of(i), NULL) == 0);
	}
	n = read(fd[1], out, room);
	fuzz_require(n > 0);
	chan_close(c);
	close(fd[1]);
	return (size_t)n;
}

/* How many frames come out of @bytes; each must be the one that was sent. */
static int parse(const unsigned char *bytes, size_t len, const struct shake_keys *keys)
{
	struct chan *c;
	const void *data;
	int fd[2], rc, frames = 0, again;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) ||
	    chan_open(fd[0], keys, &c, NULL))
		abort();
	if (sealed)
		chan_seal(c);
	fuzz_require(write(fd[1], bytes, len) == (ssize_t)len);
	while ((rc = chan_recv(c, &data, NULL)) > 0) {
		fuzz_require(frames < FRAMES && (size_t)rc == length_of(frames));
		fuzz_require(((const unsigned char *)data)[rc - 1] == 'a' + frames);
		frames++;
	}
	again = chan_recv(c, &data, NULL);
	fuzz_require(again == rc);
	chan_close(c);
	close(fd[1]);
	return frames;
}

static void try_bytes(const uint8_t *data, size_t len)
{
	static const struct shake_keys here = { { 1 }, { 2 } }, there = { { 2 }, { 1 } };
	unsigned char bytes[MOST];
	size_t n, i, first = MOST;
	int frames;

	if (!(data[0] & 1)) {
		parse(data + 1, len - 1, &there);
		return;
	}
	n = record(bytes, sizeof(bytes), &here);
	for (i = 0; i < n && i + 1 < len; i++) {
		bytes[i] ^= data[i + 1];
		if (data[i + 1] && first == MOST)
			first = i;
	}
	frames = parse(bytes, n, &there);
	/* All frames before the first change, and none from there on. */
	for (i = 0, n = 0; i < FRAMES; i++) {
		n += HEAD + length_of((int)i);
		if (n > first)
			break;
	}
	fuzz_require(frames == (int)i);
}

/* First byte even: the rest is what comes.  Odd: byte i of a true stream is
 * changed by data[i]. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len || len > MOST)
		return 0;
	for (int kind = 0; kind < 2; kind++) {
		sealed = kind;
		try_bytes(data, len);
	}
	return 0;
}
