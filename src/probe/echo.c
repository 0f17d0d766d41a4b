/* echo.c - an agent's server for probes: seals answers, swallows bandwidth data. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/echo.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/pack.h"
#include "wire/sock.h"

enum kind { GONE, LISTENER, DATAGRAMS, STRANGER, KNOWN };

struct echo_guest {
	int fd;
	enum kind kind;
	int64_t since_ns;
	unsigned char in[SEAL_BYTES];
	size_t have;
	uint32_t sink; /* bytes still to be discarded */
	size_t owed;   /* bytes of @order that have not gone back yet */
	bool waits;    /* for room to send them                       */
	unsigned char order[ECHO_ORDER];
};

int echo_open(struct echo *x, int me, const struct seal_key *key, struct err *e)
{
	memset(x, 0, sizeof(*x));
	x->me = me;
	x->key = *key;
	x->epoll = epoll_create1(EPOLL_CLOEXEC);
	x->guest = calloc(ECHO_GUESTS, sizeof(*x->guest));
	if (x->epoll < 0)
		return fail_os(e, "epoll");
	return x->guest ? 0 : fail(e, RINGUP_ENOMEM, "no memory for guests");
}

static void leave(struct echo_guest *g)
{
	close(g->fd); /* this also takes it out of the epoll set */
	g->kind = GONE;
}

/* A free place, else the one of the oldest stranger, which is dropped; or NULL. */
static struct echo_guest *place(struct echo *x)
{
	struct echo_guest *oldest = NULL, *g;

	for (int i = 0; i < x->guests; i++) {
		g = &x->guest[i];
		if (g->kind == GONE)
			return g;
		if (g->kind == STRANGER && (!oldest || g->since_ns < oldest->since_ns))
			oldest = g;
	}
	if (x->guests < ECHO_GUESTS)
		return &x->guest[x->guests++];
	if (oldest)
		leave(oldest);
	return oldest;
}

/* Registers @fd, which it takes over; NULL: no place. */
static struct echo_guest *seat(struct echo *x, int fd, enum kind kind)
{
	struct echo_guest *g = place(x);
	struct epoll_event v = { .events = EPOLLIN };

	if (!g) {
		close(fd);
		return NULL;
	}
	memset(g, 0, sizeof(*g));
	g->fd = fd;
	g->kind = kind;
	g->since_ns = clock_ns();
	v.data.u32 = (uint32_t)(g - x->guest);
	if (!epoll_ctl(x->epoll, EPOLL_CTL_ADD, fd, &v))
		return g;
	leave(g);
	return NULL;
}

static int bound(const struct sock_addr *at, int port, int type)
{
	struct sock_addr a = *at;
	int yes = 1, fd = socket(a.sa.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	sock_set_port(&a, port);
	/* A connection in TIME_WAIT from an earlier agent must not keep the port busy. */
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (!bind(fd, (struct sockaddr *)&a.sa, a.len) &&
	    (type == SOCK_DGRAM || !listen(fd, 1024)))
		return fd;
	close(fd);
	return -1;
}

static int port_of(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &len))
		return 0;
	return ntohs(sa.ss_family == AF_INET ? ((struct sockaddr_in *)&sa)->sin_port
					     : ((struct sockaddr_in6 *)&sa)->sin6_port);
}

int echo_listen(struct echo *x, const struct sock_addr *at, int port, int tcp_only)
{
	int tcp = bound(at, port, SOCK_STREAM), udp;

	if (tcp < 0 || !seat(x, tcp, LISTENER))
		return 0;
	port = port_of(tcp);
	udp = tcp_only ? -1 : bound(at, port, SOCK_DGRAM);
	if (udp >= 0)
		seat(x, udp, DATAGRAMS);
	return port;
}

/* The IPv4 address of the other end of a connection, or 0. */
static uint32_t peer_of(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (getpeername(fd, (struct sockaddr *)&sa, &len) || sa.ss_family != AF_INET)
		return 0;
	return ntohl(((struct sockaddr_in *)&sa)->sin_addr.s_addr);
}

/* Writes the sealed answer to the question @in to @out; false if it is no question to us. */
static bool answer(const struct echo *x, const unsigned char *in, size_t size,
		   unsigned char out[SEAL_BYTES])
{
	struct seal s;

	if (!seal_read(&s, SEAL_QUESTION, in, &x->key))
		return false;
	s.what = SEAL_ANSWER;
	s.to = s.from;
	s.from = (uint16_t)x->me;
	s.size = (uint32_t)size;
	seal_write(out, &s, &x->key);
	return true;
}

static void serve_datagrams(struct echo *x, const struct echo_guest *g)
{
	unsigned char out[SEAL_BYTES];
	static unsigned char in[65536];
	struct sockaddr_storage from;
	socklen_t len;
	ssize_t n;

	for (int most = 64; most > 0; most--) {
		len = sizeof(from);
		n = recvfrom(g->fd, in, sizeof(in), 0, (struct sockaddr *)&from, &len);
		if (n < 0)
			break;
		if (n >= SEAL_BYTES && answer(x, in, (size_t)n, out))
			sendto(g->fd, out, sizeof(out), MSG_NOSIGNAL, (struct sockaddr *)&from,
			       len);
	}
}

static void welcome(struct echo *x, int listener)
{
	int yes = 1, fd;

	for (int most = 64; most > 0; most--) {
		fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			break;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		seat(x, fd, STRANGER);
	}
}

/* Polls for @events of a guest from now on. */
static void wait_for(const struct echo *x, const struct echo_guest *g, uint32_t events)
{
	struct epoll_event v = { .events = events, .data.u32 = (uint32_t)(g - x->guest) };

	epoll_ctl(x->epoll, EPOLL_CTL_MOD, g->fd, &v);
}

/* Sends the owed bytes, and reads nothing before all have gone: on a busy machine with late
 * acknowledgements a socket may be full of answers.  Returns as converse() does. */
static int give_back(const struct echo *x, struct echo_guest *g)
{
	ssize_t n = send(g->fd, g->order + ECHO_ORDER - g->owed, g->owed, MSG_NOSIGNAL);
	bool waited = g->waits;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return -1;
	g->owed -= n > 0 ? (size_t)n : 0;
	g->waits = g->owed;
	if (g->waits != waited)
		wait_for(x, g, g->waits ? EPOLLOUT : EPOLLIN);
	return !g->owed;
}

static int throw_away(const struct echo *x, struct echo_guest *g)
{
	static char nowhere[262144];
	size_t want = g->sink < sizeof(nowhere) ? g->sink : sizeof(nowhere);
	ssize_t n = recv(g->fd, nowhere, want, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return -1;
	g->sink -= n > 0 ? (uint32_t)n : 0;
	return g->sink ? n > 0 : give_back(x, g);
}

/* One step of a conversation: 1 if there may be more to do, 0 if not now, -1 to end it. */
static int converse(const struct echo *x, struct echo_guest *g)
{
	unsigned char out[SEAL_BYTES];
	int rc;

	if (g->sink)
		return throw_away(x, g);
	if (g->owed)
		return give_back(x, g);
	rc = sock_gather(g->fd, g->in, g->kind == STRANGER ? SEAL_BYTES : ECHO_ORDER, &g->have);
	if (rc <= 0)
		return rc;
	g->have = 0;
	if (g->kind == STRANGER) {
		g->kind = KNOWN;
		/* The first bytes that go out: the socket has room for them. */
		return answer(x, g->in, peer_of(g->fd), out) &&
				       send(g->fd, out, sizeof(out), MSG_NOSIGNAL) == SEAL_BYTES
			       ? 1
			       : -1;
	}
	memcpy(g->order, g->in, ECHO_ORDER);
	g->sink = pack_get32(g->order);
	g->owed = ECHO_ORDER;
	return g->sink ? 1 : give_back(x, g);
}

static void echo_serve_guest(struct echo *x, struct echo_guest *g)
{
	int most = 64, rc = 1;

	switch (g->kind) {
	case GONE:
		break;
	case LISTENER:
		welcome(x, g->fd);
		break;
	case DATAGRAMS:
		serve_datagrams(x, g);
		break;
	case STRANGER:
	case KNOWN:
		while (rc > 0 && most-- > 0)
			rc = converse(x, g);
		if (rc < 0)
			leave(g);
	}
}

/* Drops strangers that have not identified themselves within ECHO_SILENCE_MS. */
static void sweep(struct echo *x)
{
	int64_t now = clock_ns(), old = now - ECHO_SILENCE_MS * 1000000ll;

	if (now - x->swept_ns < 1000000000)
		return;
	x->swept_ns = now;
	for (int i = 0; i < x->guests; i++)
		if (x->guest[i].kind == STRANGER && x->guest[i].since_ns < old)
			leave(&x->guest[i]);
}

void echo_serve(struct echo *x)
{
	struct epoll_event v[64];
	int i, n = epoll_wait(x->epoll, v, 64, 0);

	for (i = 0; i < n; i++)
		echo_serve_guest(x, &x->guest[v[i].data.u32]);
	sweep(x);
}

void echo_close(struct echo *x)
{
	for (int i = 0; i < x->guests; i++)
		if (x->guest[i].kind != GONE)
			leave(&x->guest[i]);
	if (x->guest)
		close(x->epoll);
	free(x->guest);
	memset(x, 0, sizeof(*x));
}
