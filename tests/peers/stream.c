/* stream.c - what plain sockets carry: each pair of processes sends and receives at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * stream listen|connect ADDRESS PORT BYTES ROUNDS - one process; the same on the other
 * host with the other word.  A round sends BYTES and receives as many, both ways at
 * once and nothing else done with them; it prints the median in us as JSON.
 */
enum { PIECE = 256 << 10, MOST = 1000 };

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

static void swap(int fd, char *out, char *in, size_t bytes)
{
	size_t sent = 0, got = 0, n;
	ssize_t r;

	while (sent < bytes || got < bytes) {
		struct pollfd p = {
			fd, (short)((got < bytes ? POLLIN : 0) | (sent < bytes ? POLLOUT : 0)),
			0
		};
		int idle = 1;

		n = bytes - sent < PIECE ? bytes - sent : PIECE;
		r = n ? send(fd, out, n, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
		if (n && r < 0 && errno != EAGAIN)
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
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double us[MOST];
	char *out = malloc(PIECE), *in = malloc(PIECE);
	size_t bytes;
	int fd, rounds, i;

	if (argc != 6 || !out || !in)
		return 2;
	bytes = strtoull(argv[4], NULL, 10);
	rounds = atoi(argv[5]) < MOST ? atoi(argv[5]) : MOST;
	memset(out, 1, PIECE);
	memset(in, 1, PIECE);
	fd = meet(argv[1], argv[2], argv[3]);
	for (i = -2; i < rounds; i++) {
		double begun = now_us();

		swap(fd, out, in, bytes);
		if (i >= 0)
			us[i] = now_us() - begun;
	}
	qsort(us, (size_t)rounds, sizeof(*us), by_size);
	printf("{\"bytes\":%zu,\"us\":%.1f}\n", bytes, us[rounds / 2]);
	close(fd);
	free(out);
	free(in);
	return 0;
}
