/* stream.c - what plain sockets carry: each pair of processes sends and receives at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * stream listen|connect ADDRESS PORT BYTES ROUNDS AT [RANKS [zerocopy]] - one process; the same
 * on the other host with the other word.  It connects, and starts AT so many seconds of the
 * monotonic clock, so that all pairs run together: who connects while others send may be a
 * second late, if what asks for it is lost in a full queue.  A round sends BYTES and receives
 * as many, both ways at once and nothing else done with them; it prints in us, as JSON, what a
 * round takes in the mean: pairs that share processors go in turn, and most rounds of each have
 * them for themselves.
 *
 * With RANKS, so many such processes are a host that combines vectors of RANKS * BYTES, and
 * this one does its part of what that takes at least: copy the shares that others send to
 * where they can read them, add up the RANKS vectors of what it sends itself, add to half of
 * it what comes in, and copy the other half, and what the others have received, to the
 * result.  Nobody waits for anybody, and nothing is agreed, so the sums are none.
 *
 * With zerocopy the kernel is asked to send from where the bytes lie, and tells afterwards
 * of how many sends it could: "copied" is the share of those of which it had to make a copy
 * after all, as it does of whatever stays on this machine.
 */
enum { PIECE = 256 << 10, FLOATS = PIECE / sizeof(float) };

static int ranks;             /* of a host; 0: do nothing with the bytes */
static float *vector, *total; /* a rank's own, and the result            */
static float *slot[2], *sum;
static int zerocopy;
static long told, copied; /* sends: that the kernel is through with; that it copied */

static void die(const char *what)
{
	fprintf(stderr, "stream: %s: %s\n", what, strerror(errno));
	exit(3);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Status 3 if it has passed: then not all have started together. */
static void sleep_until(double at)
{
	double left = at - now_us() / 1e6;

	if (left <= 0) {
		fprintf(stderr, "stream: connected too late\n");
		exit(3);
	}
	usleep((useconds_t)(left * 1e6));
}

static int meet(const char *role, const char *address, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, other, tries;

	if (fd < 0 || inet_pton(AF_INET, address, &a.sin_addr) != 1)
		die(address);
	if (!strcmp(role, "listen")) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1))
			die("listen");
		other = accept(fd, NULL, NULL);
		close(fd);
		fd = other;
	} else {
		for (tries = 0; connect(fd, (struct sockaddr *)&a, sizeof(a)); tries++) {
			if (tries == 100)
				die("connect");
			usleep(50000);
			close(fd);
			fd = socket(AF_INET, SOCK_STREAM, 0);
		}
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void add(float *restrict to, const float *restrict a, const float *restrict b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] = a[i] + b[i];
}

/* Before piece @k of @pieces is sent. */
static void prepare(size_t k, size_t pieces)
{
	int r;

	for (r = 1; r < ranks; r++)
		memcpy(slot[0], vector + ((size_t)r * pieces + k) * FLOATS, PIECE);
	for (r = 1; r < ranks; r++)
		add(sum, slot[r % 2], vector + k * FLOATS, FLOATS);
}

/* When it has come. */
static void finish(size_t k, size_t pieces, const float *in)
{
	int r;

	add(total + k * FLOATS, sum, in, FLOATS / 2);
	memcpy(total + k * FLOATS + FLOATS / 2, in + FLOATS / 2, PIECE / 2);
	for (r = 1; r < ranks; r++)
		memcpy(total + ((size_t)r * pieces + k) * FLOATS, slot[1], PIECE);
}

/* What the kernel says of sends without copies; until it has, their bytes are not ours. */
static void hear(int fd)
{
	char room[128];
	struct msghdr m = { .msg_control = room, .msg_controllen = sizeof(room) };
	struct sock_extended_err e;
	struct cmsghdr *c;

	while (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
		c = CMSG_FIRSTHDR(&m);
		if (!c)
			break;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		told += (long)(e.ee_data - e.ee_info) + 1;
		if (e.ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
			copied += (long)(e.ee_data - e.ee_info) + 1;
		m.msg_controllen = sizeof(room);
	}
}

static void swap(int fd, char *out, char *in, size_t bytes)
{
	size_t sent = 0, got = 0, n, ready = 0, over = 0;
	ssize_t r;

	while (sent < bytes || got < bytes) {
		for (; ranks && ready < bytes && sent >= ready; ready += PIECE)
			prepare(ready / PIECE, bytes / PIECE);
		for (; ranks && over + PIECE <= got; over += PIECE)
			finish(over / PIECE, bytes / PIECE, (float *)(void *)in);
		struct pollfd p = {
			fd, (short)((got < bytes ? POLLIN : 0) | (sent < bytes ? POLLOUT : 0)),
			0
		};
		int idle = 1;

		n = bytes - sent < PIECE ? bytes - sent : PIECE;
		if (zerocopy)
			hear(fd);
		r = n ? send(fd, out, n,
			     MSG_DONTWAIT | MSG_NOSIGNAL | (zerocopy ? MSG_ZEROCOPY : 0))
		      : -1;
		if (n && r < 0 && errno != EAGAIN && errno != ENOBUFS)
			die("send");
		if (r > 0) {
			sent += (size_t)r;
			idle = 0;
		}
		n = bytes - got < PIECE ? bytes - got : PIECE;
		r = n ? recv(fd, in, n, MSG_DONTWAIT) : -1;
		if (!r || (n && r < 0 && errno != EAGAIN))
			die("recv");
		if (r > 0) {
			got += (size_t)r;
			idle = 0;
		}
		if (idle)
			poll(&p, 1, -1);
	}
	for (; ranks && over + PIECE <= got; over += PIECE)
		finish(over / PIECE, bytes / PIECE, (float *)(void *)in);
}

/* Memory that has been written to: what has not is all one page. */
static void *touched(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		die("memory");
	return memset(p, 1, bytes);
}

int main(int argc, char **argv)
{
	char *out = touched(PIECE), *in = touched(PIECE);
	double begun;
	size_t bytes;
	int fd, rounds, i;

	if (argc < 7 || argc > 9)
		return 2;
	bytes = strtoull(argv[4], NULL, 10);
	rounds = atoi(argv[5]);
	if (argc > 7)
		ranks = atoi(argv[7]);
	if (ranks) {
		bytes = (bytes + PIECE - 1) / PIECE * PIECE;
		vector = touched(bytes * (size_t)ranks);
		total = touched(bytes * (size_t)ranks);
		sum = (float *)(void *)out;
		slot[0] = touched(PIECE);
		slot[1] = touched(PIECE);
	}
	fd = meet(argv[1], argv[2], argv[3]);
	zerocopy = argc == 9 && !strcmp(argv[8], "zerocopy");
	if (zerocopy && setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &zerocopy, sizeof(zerocopy)))
		die("SO_ZEROCOPY");
	sleep_until(atof(argv[6]));
	begun = now_us();
	for (i = 0; i < rounds; i++)
		swap(fd, out, in, bytes);
	printf("{\"bytes\":%zu,\"us\":%.1f,\"copied\":%.3f}\n", bytes,
	       (now_us() - begun) / rounds, told ? (double)copied / (double)told : 1);
	close(fd);
	return 0;
}
