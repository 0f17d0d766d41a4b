/* test_echo.c - who cannot seal is not answered, who can is measured. */
#include "probe/echo.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "probe/facts.h"
#include "probe/mtu.h"
#include "probe/speed.h"
#include "tap.h"
#include "wire/pack.h"
#include "wire/sock.h"

static struct seal_key key;
static struct echo echo;
static atomic_int stop;

static void *serve(void *unused)
{
	struct pollfd p = { echo.epoll, POLLIN, 0 };

	while (!stop) {
		poll(&p, 1, 50);
		echo_serve(&echo);
	}
	return unused;
}

static struct sock_addr address(int port)
{
	struct sock_addr a;
	char where[SOCK_TEXT];

	snprintf(where, sizeof(where), "127.0.0.1:%d", port);
	sock_parse(where, &a, NULL);
	return a;
}

static int dial(int port)
{
	struct timeval bound = { 2, 0 };
	struct sock_addr a = address(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
	return connect(fd, (struct sockaddr *)&a.sa, a.len) ? -1 : fd;
}

static void test_strangers(int port)
{
	unsigned char in[SEAL_BYTES], out[SEAL_BYTES] = "GET / HTTP/1.0\r\n\r\n";
	int fd = dial(port);

	ok(send(fd, out, sizeof(out), MSG_NOSIGNAL) == sizeof(out) &&
		   recv(fd, in, sizeof(in), 0) <= 0,
	   "a stranger is sent away without a word");
	close(fd);
}

static void test_speed(int port)
{
	struct probe_path p = { .to = 1, .latency_min_us = -1, .bandwidth_mbs = -1 };
	struct err e = { 0 };

	snprintf(p.address, sizeof(p.address), "127.0.0.1");
	p.port.number = port;
	ok(!speed_measure(&p, &key, 20, 20, &e), "measured: %s", e.text);
	ok(p.latency_min_us > 0 && p.latency_median_us >= p.latency_min_us, "a round trip");
	ok(p.bandwidth_mbs > 0, "bytes get through");
	p.to = 2;
	ok(speed_measure(&p, &key, 20, 20, &e) < 0, "not with somebody else");
}

/* Who answers must wait for who reads late, and not send him away. */
static void test_reader(int port)
{
	enum { ORDERS = 1 << 16 };
	unsigned char buf[SEAL_BYTES] = { 0 }, order[ECHO_ORDER];
	struct seal q;
	struct pollfd p = { socket(AF_INET, SOCK_STREAM, 0), POLLOUT, 0 };
	struct sock_addr a = address(port);
	uint32_t sent = 0, read = 0;
	bool right = true;
	size_t have = 0;
	int room = 4096, segment = 536; /* small ones leave the other side little room, too */

	setsockopt(p.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(p.fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
	ok(!connect(p.fd, (struct sockaddr *)&a.sa, a.len), "connected");
	seal_ask(&q, 0, 1);
	seal_write(buf, &q, &key);
	ok(send(p.fd, buf, SEAL_BYTES, MSG_NOSIGNAL) == SEAL_BYTES &&
		   recv(p.fd, buf, SEAL_BYTES, MSG_WAITALL) == SEAL_BYTES,
	   "greeted");
	while (sent < ORDERS && poll(&p, 1, 200) > 0) {
		pack_put32(order, 0);
		pack_put32(order + 4, sent);
		/* Eight bytes go or do not: buffers have room for multiples of them. */
		if (send(p.fd, order, ECHO_ORDER, MSG_NOSIGNAL | MSG_DONTWAIT) != ECHO_ORDER)
			break;
		sent++;
	}
	while (right && read < sent && sock_gather(p.fd, order, ECHO_ORDER, &have) >= 0) {
		if (have < ECHO_ORDER)
			continue;
		right = pack_get32(order + 4) == read++;
		have = 0;
	}
	ok(right && read == sent, "%u of %u answers are read late, in order", read, sent);
	close(p.fd);
}

static void test_mtu(int port)
{
	struct sock_addr a = address(port);
	struct seal q;
	struct mtu m;
	bool over = false;
	int tries;

	seal_ask(&q, 0, 1);
	ok(mtu_open(&m, &a, 1500, &q, &key), "open");
	for (tries = 0; !over && tries < 12000; tries++) {
		over = mtu_step(&m, clock_ns());
		clock_sleep_ms(5);
	}
	ok(over && m.answered == 1472, "1500 bytes get through: %d", m.answered);
	mtu_close(&m);
	ok(!mtu_open(&m, &a, 100, &q, &key), "no interface is that small");
}

int main(void)
{
	struct secret s = { { 7 } };
	struct sock_addr at;
	struct err e = { 0 };
	pthread_t t;
	int port;

	seal_derive(&key, &s);
	sock_parse_address("127.0.0.1", &at, NULL);
	ok(!echo_open(&echo, 1, &key, &e), "open: %s", e.text);
	port = echo_listen(&echo, &at, 0, 0);
	ok(port > 0 && !echo_listen(&echo, &at, port, 0), "a port is had once");
	pthread_create(&t, NULL, serve, NULL);
	test_strangers(port);
	test_speed(port);
	test_reader(port);
	test_mtu(port);
	stop = 1;
	pthread_join(t, NULL);
	echo_close(&echo);
	return tap_done();
}
