/* stream.c - what plain sockets carry: each pair of processes sends and receives at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * stream listen|connect ADDRESS PORT BYTES ROUNDS AT [ranks=N] [zerocopy] [meet=FILE:N] - one
 * process; the same on the other host with the other word.  It connects, and starts AT so many
 * seconds of the monotonic clock, so that all pairs run together: who connects while others
 * send may be a second late, if what asks for it is lost in a full queue.  A round sends BYTES
 * and receives as many, both ways at once and nothing else done with them; it prints in us, as
 * JSON, what a round takes in the mean: pairs that share processors go in turn, and most rounds
 * of each have them for themselves.
 *
 * With ranks=N, so many such processes are a host that combines vectors of N * BYTES, and
 * this one does its part of what that takes at least: copy the shares that others send to
 * where they can read them, add up the N vectors of what it sends itself, add to half of
 * it what comes in, and copy the other half, and what the others have received, to the
 * result.  Nobody waits for anybody, and nothing is agreed, so the sums are none.
 *
 * With meet=FILE:N, N processes that share FILE, at first a page of zeros, begin each round
 * together, as calls of a collective do, after each has written its vector anew; it prints
 * what each round took.  A collective is as slow as its slowest rank: whoever reads the lines
 * of all takes, round by round, the longest.
 *
 * With zerocopy the kernel is asked to send from where the bytes lie, and tells afterwards
 * of how many sends it could: "copied" is the share of those of which it had to make a copy
 * after all, as it does of whatever stays on this machine.
 */
enum { PIECE = 256 << 10, FLOATS = PIECE / sizeof(float) };

/* What all processes of a measurement share; atomic. */
struct meeting {
	uint32_t came, round;
};

static int ranks;             /* of a host; 0: do nothing with the bytes */
static float *vector, *total; /* a rank's own, and the result            */
static float *slot[2], *sum;
static int zerocopy;
static struct meeting *meeting;
static uint32_t parties;
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

/* @words: FILE:N. */
static void share_meeting(char *words)
{
	char *colon = strrchr(words, ':');
	int fd;

	if (!colon)
		die("meet=FILE:N");
	*colon = '\0';
	parties = (uint32_t)atoi(colon + 1);
	fd = open(words, O_RDWR);
	if (fd < 0)
		die(words);
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (meeting == MAP_FAILED)
		die(words);
	close(fd);
}

static void wait_for_all(void)
{
	uint32_t round = __atomic_load_n(&meeting->round, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&meeting->came, 1, __ATOMIC_ACQ_REL) == parties) {
		__atomic_store_n(&meeting->came, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&meeting->round, round + 1, __ATOMIC_RELEASE);
		return;
	}
	while (__atomic_load_n(&meeting->round, __ATOMIC_ACQUIRE) == round)
		sched_yield();
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

/* All rounds after one another; what they take in the mean. */
static void run(int fd, char *out, char *in, size_t bytes, int rounds)
{
	double begun = now_us();
	int i;

	for (i = 0; i < rounds; i++)
		swap(fd, out, in, bytes);
	printf("{\"bytes\":%zu,\"us\":%.1f,\"copied\":%.3f}\n", bytes,
	       (now_us() - begun) / rounds, told ? (double)copied / (double)told : 1);
}

/* Each round begins together, with fresh input; what each takes. */
static void run_together(int fd, char *out, char *in, size_t bytes, int rounds)
{
	size_t all = bytes * (size_t)ranks;
	float *fresh = ranks ? touched(all) : NULL;
	double begun;
	int i;

	printf("{\"bytes\":%zu,\"each\":[", bytes);
	for (i = 0; i < rounds; i++) {
		if (fresh)
			memcpy(vector, fresh, all);
		wait_for_all();
		begun = now_us();
		swap(fd, out, in, bytes);
		printf("%s%.1f", i ? "," : "", now_us() - begun);
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	char *out = touched(PIECE), *in = touched(PIECE);
	size_t bytes;
	int fd, rounds, i;

	if (argc < 7)
		return 2;
	bytes = strtoull(argv[4], NULL, 10);
	rounds = atoi(argv[5]);
	for (i = 7; i < argc; i++) {
		if (!strncmp(argv[i], "ranks=", 6))
			ranks = atoi(argv[i] + 6);
		else if (!strncmp(argv[i], "meet=", 5))
			share_meeting(argv[i] + 5);
		else if (!strcmp(argv[i], "zerocopy"))
			zerocopy = 1;
		else
			return 2;
	}
	if (ranks) {
		bytes = (bytes + PIECE - 1) / PIECE * PIECE;
		vector = touched(bytes * (size_t)ranks);
		total = touched(bytes * (size_t)ranks);
		sum = (float *)(void *)out;
		slot[0] = touched(PIECE);
		slot[1] = touched(PIECE);
	}
	fd = meet(argv[1], argv[2], argv[3]);
	if (zerocopy && setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &zerocopy, sizeof(zerocopy)))
		die("SO_ZEROCOPY");
	sleep_until(atof(argv[6]));
	if (meeting)
		run_together(fd, out, in, bytes, rounds);
	else
		run(fd, out, in, bytes, rounds);
	close(fd);
	return 0;
}
