/* test_sock.c - addresses are numeric and single; sockets have the right options. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/sock.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

static void test_parse(void)
{
	static const char *const good[] = { "127.0.0.1:1", "10.0.0.5:65535", "[::1]:41217",
					    "[fe80::1%lo]:80" };
	static const char *const bad[] = {
		"",
		":1",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:0",
		"1.2.3:4",
		"127.0.0.1:65536",
		"127.0.0.1:+1",
		"127.0.0.1:1x",
		"localhost:1",
		"::1:1",
		"[::1]",
		"[::1:1",
		"[]:1",
		"[1.2.3.4]:1",
		"[::1%nosuchif]:1",
		"0x7f000001:80",
		" 1.2.3.4:1",
		"[::1] :1",
		"1.2.3.4: 1",
	};
	char text[SOCK_TEXT], longer[300];
	struct err e = { 0 };
	struct sock_addr a;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(*good); i++)
		ok(sock_parse(good[i], &a, &e) == 0 && !strcmp(sock_text(&a, text), good[i]),
		   "%s", good[i]);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ok(sock_parse(bad[i], &a, &e) == RINGUP_EINVAL && *e.text, "refused: \"%s\"",
		   bad[i]);
	memset(longer, '1', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	ok(sock_parse(longer, &a, &e) == RINGUP_EINVAL, "refused: 299 digits");
	memcpy(longer + 200, ":1", 3);
	ok(sock_parse(longer, &a, &e) == RINGUP_EINVAL, "refused: 200 digits and a port");
	ok(sock_parse_address(longer, &a, &e) == RINGUP_EINVAL, "refused: a long address");
}

static void test_wildcards(void)
{
	static const char *const bad[] = {
		"0.0.0.0",         "::",      "::ffff:0.0.0.0",  "224.0.0.1",
		"255.255.255.255", "ff02::1", "::ffff:127.0.0.1"
	};
	char where[SOCK_TEXT];
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ok(sock_listen(bad[i], where, &e) == RINGUP_EINVAL, "no listening on %s: %s",
		   bad[i], e.text);
	ok(sock_listen("192.0.2.1", where, &e) == RINGUP_ESYSTEM,
	   "nor on somebody else's address: %s", e.text);
}

static int option(int fd, int level, int name)
{
	int v = -1;
	socklen_t n = sizeof(v);

	return getsockopt(fd, level, name, &v, &n) ? -1 : v;
}

static int wait_for(int fd, short events)
{
	struct pollfd p = { fd, events, 0 };

	return poll(&p, 1, 60000) == 1;
}

/* As much as the kernels of both sides take. */
static void fill(int fd)
{
	static const char block[65536];

	int i;

	for (i = 0; i < 10; i++) {
		while (send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0)
			;
		clock_sleep_ms(10);
	}
}

static void test_pair(const char *address)
{
	struct err e = { 0 };
	struct sock_addr to, from, again;
	char where[SOCK_TEXT];
	int l, a, b, rc;

	l = sock_listen(address, where, &e);
	if (l == RINGUP_ESYSTEM) {
		ok(1, "# SKIP %s", e.text);
		return;
	}
	ok(l >= 0, "%s: listening on %s", address, where);
	ok(option(l, SOL_SOCKET, SO_REUSEADDR) == 1 && option(l, SOL_SOCKET, SO_REUSEPORT) == 0,
	   "%s: the port can be used again, but not shared", address);
	ok(sock_accept(l, &from) == -1, "%s: nobody there yet", address);
	ok(sock_parse(where, &to, &e) == 0, "%s: parses", where);
	a = sock_connect(&to, &e);
	ok(a >= 0 && wait_for(a, POLLOUT) && sock_connected(a, &e) == 0, "%s: connected",
	   address);
	b = wait_for(l, POLLIN) ? sock_accept(l, &from) : -1;
	ok(b >= 0 && sock_same_host(&from, &to), "%s: accepted, from the same host", address);
	ok(sock_parse("10.9.8.7:1", &again, &e) == 0 && !sock_same_host(&from, &again),
	   "%s: another host is another host", address);
	ok(option(a, IPPROTO_TCP, TCP_NODELAY) == 1 && option(b, IPPROTO_TCP, TCP_NODELAY) == 1,
	   "%s: no delay", address);
	ok(fcntl(l, F_GETFD) & fcntl(a, F_GETFD) & fcntl(b, F_GETFD) & FD_CLOEXEC,
	   "%s: closed on exec", address);
	ok(fcntl(l, F_GETFL) & fcntl(a, F_GETFL) & fcntl(b, F_GETFL) & O_NONBLOCK,
	   "%s: non-blocking", address);
	/* Kernels before 6.15 do not know the option and go on as ever. */
	if (option(a, IPPROTO_TCP, TCP_RTO_MAX_MS) < 0)
		ok(1, "%s: # SKIP the kernel alone says when to send again", address);
	else
		ok(option(a, IPPROTO_TCP, TCP_RTO_MAX_MS) == 1000 &&
			   option(b, IPPROTO_TCP, TCP_RTO_MAX_MS) == 1000 &&
			   option(a, IPPROTO_TCP, TCP_USER_TIMEOUT) > 3600 * 1000 &&
			   option(b, IPPROTO_TCP, TCP_USER_TIMEOUT) > 3600 * 1000,
		   "%s: what is lost is sent again each second, for long", address);
	ok(option(a, SOL_SOCKET, SO_KEEPALIVE) == 1 &&
		   option(b, IPPROTO_TCP, TCP_KEEPIDLE) == 60,
	   "%s: never idle for long", address);
	ok(!sock_unheard(a, 0), "%s: nothing is under way", address);
	fill(a);
	clock_sleep_ms(300);
	ok(!sock_unheard(a, 250), "%s: what a slow reader does not take is confirmed", address);
	ok(!sock_unheard(-1, 0), "no socket, no silence");
	sock_watch(a, 15000);
	ok(option(a, SOL_SOCKET, SO_KEEPALIVE) == 1 &&
		   option(a, IPPROTO_TCP, TCP_USER_TIMEOUT) == 15000,
	   "%s: watched", address);
	close(a);
	close(b);
	close(l);

	/* Refused at once or a little later, by the kernel's choice. */
	a = rc = sock_connect(&to, &e);
	if (a >= 0) {
		rc = wait_for(a, POLLOUT) ? sock_connected(a, &e) : 0;
		close(a);
	}
	ok(rc == RINGUP_EPEER, "%s: nobody listens any more: %s", address, e.text);
}

/* Whoever connects from the port he connects to reaches himself. */
static void test_self(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct err e = { 0 };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ok(fd >= 0 && !bind(fd, (struct sockaddr *)&in, sizeof(in)) &&
		   !getsockname(fd, (struct sockaddr *)&in, &len) &&
		   !connect(fd, (struct sockaddr *)&in, sizeof(in)),
	   "a socket connects to itself");
	ok(sock_connected(fd, &e) == RINGUP_EPEER, "which does not count: %s", e.text);
	close(fd);
}

static void test_exhausted(void)
{
	struct rlimit old, few;
	struct sock_addr to, from;
	struct err e = { 0 };
	char where[SOCK_TEXT];
	int l = sock_listen("127.0.0.1", where, &e), a;

	sock_parse(where, &to, &e);
	a = sock_connect(&to, &e);
	ok(l >= 0 && a >= 0 && wait_for(l, POLLIN), "somebody waits to be accepted");
	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &few);
	ok(sock_accept(l, &from) == -2, "no descriptors left: told apart");
	setrlimit(RLIMIT_NOFILE, &old);
	l = sock_accept(l, &from);
	ok(l >= 0, "and accepted when there are some again");
	close(l);
	close(a);
}

/* In a process without stdin and stderr no socket gets their numbers. */
static void test_closed(void)
{
	int in = dup(0), out = dup(2), l, fd, to;
	struct sock_addr at, from;
	char where[SOCK_TEXT];
	struct err e = { 0 };
	struct pollfd p;

	close(0);
	close(2);
	l = sock_listen("127.0.0.1", where, &e);
	fd = sock_parse(where, &at, &e) ? -1 : sock_connect(&at, &e);
	p = (struct pollfd){ l, POLLIN, 0 };
	poll(&p, 1, 10000);
	to = sock_accept(l, &from);
	ok(l > 2 && fd > 2 && to > 2, "numbers that are nobody's: %d %d %d", l, fd, to);
	ok(fcntl(0, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0, "and these are still closed");
	close(l);
	close(fd);
	close(to);
	dup2(in, 0);
	dup2(out, 2);
	close(in);
	close(out);
}

int main(void)
{
	test_parse();
	test_wildcards();
	test_pair("127.0.0.1");
	test_pair("::1");
	test_self();
	test_closed();
	test_exhausted();
	return tap_done();
}
