/* fuzz_hear.c - what the meeting point might say to a rank that has joined. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz/fuzz.h"
#include "wire/shake.h"

/* The rank's own functions, without a server. */
#include "wire/meet.c"

enum { ROUNDS = 3, GUARD = 64 };

/* All that will ever be said, in frames; then the other side says no more, but listens. */
static struct chan *say_all(int fd, const uint8_t *data, size_t len)
{
	static const struct shake_keys keys;
	struct chan *far = NULL;
	size_t n;

	fuzz_require(!chan_open(fd, &keys, &far, NULL));
	while (len >= 2) {
		n = data[0] | (size_t)data[1] << 8;
		data += 2, len -= 2;
		n = n < len ? n : len;
		if (n)
			fuzz_require(chan_send(far, data, n, NULL) >= 0);
		data += n, len -= n;
	}
	shutdown(fd, SHUT_WR);
	return far;
}

static void check_failure(int rc, const struct err *e)
{
	fuzz_require(rc < 0 && e->code == rc && memchr(e->text, 0, sizeof(e->text)));
}

/* One round: nothing is written beyond what there is room for. */
static int exchange(struct meet *m, size_t len)
{
	static const unsigned char mine[MEET_BYTES];
	size_t total = len * (size_t)m->size, i;
	unsigned char *all = malloc(total + GUARD);
	struct err e = { 0 };
	int rc;

	fuzz_require(all != NULL);
	memset(all, 0x5a, total + GUARD);
	rc = meet_exchange(m, mine, len, all, INT64_MAX, &e);
	for (i = 0; i < GUARD; i++)
		fuzz_require(all[total + i] == 0x5a);
	free(all);
	if (rc)
		check_failure(rc, &e);
	/* What has come to an end stays there. */
	if (m->broken.code)
		fuzz_require(meet_exchange(m, mine, len, NULL, INT64_MAX, &e) ==
			     m->broken.code);
	return rc;
}

/*
 * A byte says how many ranks there are, one for each round how much a rank gives, in eights;
 * then again and again: the length of a frame in two bytes, the frame.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct shake_keys keys;
	struct meet *m = calloc(1, sizeof(*m));
	struct err e = { 0 };
	struct chan *far;
	int fd[2], rc, round;

	if (len <= ROUNDS || !m) {
		free(m);
		return 0;
	}
	m->size = 1 + data[0] % 16;
	fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	far = say_all(fd[1], data + 1 + ROUNDS, len - 1 - ROUNDS);
	fuzz_require(!chan_open(fd[0], &keys, &m->chan, NULL));
	rc = meet_hello(m, INT64_MAX, &e);
	if (rc)
		check_failure(rc, &e);
	for (round = 0; round < ROUNDS && !rc; round++)
		exchange(m, (size_t)data[1 + round] * 8);
	meet_leave(m);
	chan_close(far);
	return 0;
}
