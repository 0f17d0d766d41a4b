/* speed.c - measure round-trip time and bandwidth to one agent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/speed.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/stats.h"
#include "probe/echo.h"
#include "probe/facts.h"
#include "probe/seal.h"
#include "ringup.h"
#include "wire/pack.h"
#include "wire/sock.h"

enum { CHUNK = 65536 };

static int await(int fd, short events, int64_t deadline_ns)
{
	struct pollfd p = { fd, events, 0 };

	return poll(&p, 1, clock_left_ms(deadline_ns)) > 0;
}

/* Sends (@out) or receives all @len bytes; 0, or -1. */
static int move(int fd, void *data, size_t len, bool out, int64_t deadline_ns)
{
	char *at = data;
	ssize_t n;

	while (len) {
		n = out ? send(fd, at, len, MSG_NOSIGNAL) : recv(fd, at, len, 0);
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR) ||
			   !await(fd, out ? POLLOUT : POLLIN, deadline_ns)) {
			return -1;
		}
	}
	return 0;
}

static int connect_to(const struct probe_path *p, int64_t deadline_ns, struct err *e)
{
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	struct sock_addr to;
	int yes = 1, fd;

	if (sock_parse_address(p->address, &to, e))
		return RINGUP_EINVAL;
	sock_set_port(&to, p->port.number);
	fd = sock_connect(&to, e);
	if (fd < 0)
		return fd;
	if (!await(fd, POLLOUT, deadline_ns) || sock_connected(fd, e)) {
		close(fd);
		return fail(e, RINGUP_EPEER, "%s: no connection", p->address);
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	/* Data still queued at the end must not disturb the next pair. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	return fd;
}

static int greet(int fd, const struct probe_path *p, const struct seal_key *key,
		 int64_t deadline_ns, struct err *e)
{
	unsigned char buf[SEAL_BYTES];
	struct seal q, a;

	seal_ask(&q, p->from, p->to);
	seal_write(buf, &q, key);
	if (move(fd, buf, sizeof(buf), true, deadline_ns) ||
	    move(fd, buf, sizeof(buf), false, deadline_ns))
		return fail(e, RINGUP_EPEER, "%s does not answer", p->address);
	if (!seal_read(&a, SEAL_ANSWER, buf, key) || !seal_answers(&a, &q) || a.from != p->to)
		return fail(e, RINGUP_EAUTH, "another node answers at %s", p->address);
	return 0;
}

static void latency(int fd, struct probe_path *p, int ms)
{
	unsigned char order[ECHO_ORDER] = { 0 };
	double us[SPEED_ROUNDS];
	int64_t start = clock_ns(), stop = start + ms * 1000000ll, then, now = start;
	int n;

	for (n = 0; n < SPEED_ROUNDS && (now < stop || n < 3); n++) {
		then = now;
		if (move(fd, order, sizeof(order), true, then + 1000000000) ||
		    move(fd, order, sizeof(order), false, then + 1000000000))
			break;
		now = clock_ns();
		us[n] = (double)(now - then) / 1e3;
	}
	if (!n)
		return;
	p->latency_median_us = stats_median(us, n);
	p->latency_min_us = us[0];
}

/* Sends chunks as fast as the socket takes them; only answered chunks count. */
static void bandwidth(int fd, struct probe_path *p, int ms)
{
	static unsigned char data[CHUNK];
	unsigned char in[4096];
	size_t sent = 0, answered = 0;
	int64_t start = clock_ns(), stop = start + ms * 1000000ll, last = start;
	int64_t late = stop + SPEED_PATIENCE_MS * 1000000ll, until;
	ssize_t n;

	pack_put32(data, CHUNK - ECHO_ORDER);
	for (;;) {
		until = answered < ECHO_ORDER ? late : stop;
		if (clock_ns() >= until || !await(fd, POLLIN | POLLOUT, until))
			break;
		n = send(fd, data + sent, sizeof(data) - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return;
		sent = n > 0 ? (sent + (size_t)n) % CHUNK : sent;
		n = recv(fd, in, sizeof(in), 0);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
		if (n > 0) {
			answered += (size_t)n;
			last = clock_ns();
		}
	}
	if (answered >= ECHO_ORDER)
		p->bandwidth_mbs =
			(double)(answered / ECHO_ORDER) * CHUNK * 1e3 / (double)(last - start);
}

int speed_measure(struct probe_path *p, const struct seal_key *key, int latency_ms,
		  int bandwidth_ms, struct err *e)
{
	int64_t deadline = clock_deadline(SPEED_CONNECT_MS);
	int fd = connect_to(p, deadline, e), rc;

	if (fd < 0)
		return fd;
	rc = greet(fd, p, key, deadline, e);
	if (!rc) {
		latency(fd, p, latency_ms);
		if (bandwidth_ms && p->latency_min_us >= 0)
			bandwidth(fd, p, bandwidth_ms);
	}
	close(fd);
	return rc;
}
