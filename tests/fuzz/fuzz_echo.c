/* fuzz_echo.c - what strangers send to the agent that answers probes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "fuzz/fuzz.h"

/* Guests take their places without a listener. */
#include "probe/echo.c"

enum { STREAMS = 2, GUESTS = STREAMS + 1 };

static const struct seal_key key = { { 7 } };

/* The far end of one guest's socket, and what has gone through it. */
static struct far {
	int fd;
	unsigned char first[SEAL_BYTES];
	size_t sent, got;
} far[GUESTS];

static void guest_enter(struct echo *x, int i)
{
	int type = i < STREAMS ? SOCK_STREAM : SOCK_DGRAM, fd[2];

	fuzz_require(!socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	fuzz_require(seat(x, fd[0], i < STREAMS ? STRANGER : DATAGRAMS));
	far[i] = (struct far){ .fd = fd[1] };
}

static void far_send(struct far *f, const uint8_t *data, size_t len)
{
	ssize_t n = send(f->fd, data, len, MSG_NOSIGNAL);
	size_t i;

	for (i = 0; n > 0 && i < (size_t)n && f->sent < SEAL_BYTES; i++)
		f->first[f->sent++] = data[i];
	f->sent += n > 0 ? (size_t)n - i : 0;
}

/* An answer is no longer than its question, and none but a sealed question has one. */
static void far_read(struct far *f, bool is_stream)
{
	unsigned char in[65536];
	struct seal s;
	ssize_t n;

	while ((n = recv(f->fd, in, sizeof(in), 0)) > 0) {
		if (!is_stream || !f->got)
			fuzz_require(n >= SEAL_BYTES && seal_read(&s, SEAL_ANSWER, in, &key) &&
				     s.from == 3);
		f->got += (size_t)n;
		fuzz_require(f->got <= f->sent);
		fuzz_require(!is_stream || seal_read(&s, SEAL_QUESTION, f->first, &key));
	}
}

/*
 * Again and again: a byte, which says to whom (bits 0-1; 3: the strangers' time is over),
 * whether a sealed question stands in front (bit 2) and whether answers are read (bit 3); a
 * length in two bytes; so many bytes.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static unsigned char out[SEAL_BYTES + 65536];
	struct seal question = { .what = SEAL_QUESTION, .from = 1, .to = 3 };
	struct echo x;
	struct err e;
	size_t n, head;
	int i;

	fuzz_require(!echo_open(&x, 3, &key, &e));
	for (i = 0; i < GUESTS; i++)
		guest_enter(&x, i);
	while (len >= 3) {
		int what = data[0];

		n = data[1] | (size_t)data[2] << 8;
		data += 3, len -= 3;
		n = n < len ? n : len;
		i = what & 3;
		if (i == GUESTS) {
			for (i = 0; i < x.guests; i++)
				x.guest[i].since_ns = 0;
			x.swept_ns = 0;
		} else {
			head = what & 4 ? SEAL_BYTES : 0;
			seal_write(out, &question, &key);
			memcpy(out + head, data, n);
			far_send(&far[i], out, head + n);
			data += n, len -= n;
		}
		echo_serve(&x);
		for (i = 0; i < GUESTS && what & 8; i++)
			far_read(&far[i], i < STREAMS);
	}
	for (i = 0; i < GUESTS; i++) {
		far_read(&far[i], i < STREAMS);
		close(far[i].fd);
	}
	echo_close(&x);
	return 0;
}
