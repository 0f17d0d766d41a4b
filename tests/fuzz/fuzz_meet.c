/* fuzz_meet.c - what ranks might say to the meeting point, once they are let in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>

#include "fuzz/fuzz.h"
#include "wire/shake.h"

/* The server's own functions, without its thread. */
#include "wire/meet.c"

enum { RANKS = 3 };

static struct guest guests[RANKS];
static bool came[RANKS];
static int far[RANKS];

static void enter_guest(struct meet_server *s, int rank)
{
	static const struct shake_keys keys;
	int fd[2];

	if (s->guest[rank].chan)
		return;
	if (far[rank] >= 0)
		close(far[rank]);
	fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	fuzz_require(!chan_open(fd[0], &keys, &s->guest[rank].chan, NULL));
	far[rank] = fd[1];
}

/* What is sent to a rank is read now and then, and else piles up. */
static void read_answers(int rank)
{
	static unsigned char sink[65536];

	while (recv(far[rank], sink, sizeof(sink), 0) > 0)
		;
}

/*
 * Again and again: a byte (bits 0 and 1: the rank; bit 2: it leaves and comes again;
 * bit 3: it reads what it was sent), the length of a frame in two bytes, the frame.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct meet_server s = { .size = RANKS, .guest = guests, .came = came, .gone = -1 };
	size_t at = 0;
	int i;

	memset(guests, 0, sizeof(guests));
	memset(came, 0, sizeof(came));
	for (i = 0; i < RANKS; i++) {
		far[i] = -1;
		enter_guest(&s, i);
	}
	while (len - at >= 3) {
		uint8_t what = data[at];
		int rank = what & 3;
		size_t n = data[at + 1] | (size_t)data[at + 2] << 8;

		at += 3;
		n = n < len - at ? n : len - at;
		if (rank == RANKS) {
			serve_clock(&s);
			continue;
		}
		if (what & 4) {
			depart(&s, &guests[rank]);
			enter_guest(&s, rank);
		}
		if (what & 8)
			read_answers(rank);
		/* Frames have a byte at least: chan.c sees to that. */
		if (n && !take_frame(&s, &guests[rank], data + at, n))
			meet_server_drop(&s, &guests[rank]);
		enter_guest(&s, rank);
		at += n;
	}
	for (i = 0; i < RANKS; i++) {
		meet_server_drop(&s, &guests[i]);
		close(far[i]);
	}
	/* Nothing is held for ranks that are gone. */
	fuzz_require(!s.round);
	return 0;
}
