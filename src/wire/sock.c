/* sock.c - TCP sockets: addresses, listening, connecting, options. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "host/nearend.h"
#include "ringup.h"

enum {
	BACKLOG = 1024,
	RETRY_MS = 1000,
	KERNEL_RETRY_MS = 120000, /* the kernel's default and maximum */
	TRIES = 12,               /* of full pauses, before it gives up */
	DAY_MS = 24 * 3600 * 1000,
	KEEP_S = 60,
};

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15 */
#endif

/* "eth0" or "2" behind the % of an IPv6 address. */
static uint32_t scope_id(const char *text)
{
	unsigned long n;
	char *end;

	if (*text >= '0' && *text <= '9') {
		n = strtoul(text, &end, 10);
		return *end || n > UINT32_MAX ? 0 : (uint32_t)n;
	}
	return if_nametoindex(text);
}

int sock_parse_address(const char *address, struct sock_addr *a, struct err *e)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a->sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a->sa;
	char text[INET6_ADDRSTRLEN];
	const char *scope;
	size_t n;

	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		a->len = sizeof(*v4);
		return 0;
	}
	scope = strchr(address, '%');
	n = scope ? (size_t)(scope - address) : strlen(address);
	if (n >= sizeof(text))
		return fail(e, RINGUP_EINVAL, "%.40s...: not a numeric address", address);
	memcpy(text, address, n);
	text[n] = 0;
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		return fail(e, RINGUP_EINVAL, "%.60s: not a numeric address", address);
	if (scope) {
		v6->sin6_scope_id = scope_id(scope + 1);
		if (!v6->sin6_scope_id)
			return fail(e, RINGUP_EINVAL, "%.60s: no such interface", address);
	}
	v6->sin6_family = AF_INET6;
	a->len = sizeof(*v6);
	return 0;
}

void sock_set_port(struct sock_addr *a, int number)
{
	in_port_t port = htons((uint16_t)number);

	if (a->sa.ss_family == AF_INET)
		((struct sockaddr_in *)&a->sa)->sin_port = port;
	else
		((struct sockaddr_in6 *)&a->sa)->sin6_port = port;
}

static int parse_port(const char *text)
{
	long n;
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	n = strtol(text, &end, 10);
	return *end || n < 1 || n > UINT16_MAX ? -1 : (int)n;
}

int sock_parse(const char *where, struct sock_addr *a, struct err *e)
{
	const char *colon = strrchr(where, ':');
	char address[SOCK_TEXT];
	int port = colon ? parse_port(colon + 1) : -1;
	size_t n = colon ? (size_t)(colon - where) : 0;
	bool v6 = n > 2 && where[0] == '[' && where[n - 1] == ']';
	int rc;

	if (port < 0 || n == 0 || n >= sizeof(address) || (!v6 && memchr(where, ':', n)))
		return fail(e, RINGUP_EINVAL, "%.80s: not ADDRESS:PORT or [ADDRESS]:PORT",
			    where);
	memcpy(address, where + v6, n - 2 * v6);
	address[n - 2 * v6] = 0;
	rc = sock_parse_address(address, a, e);
	if (rc)
		return rc;
	if (v6 != (a->sa.ss_family == AF_INET6))
		return fail(e, RINGUP_EINVAL, "%.80s: not ADDRESS:PORT or [ADDRESS]:PORT",
			    where);
	sock_set_port(a, port);
	return 0;
}

const char *sock_text(const struct sock_addr *a, char *out)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->sa;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->sa;
	char text[INET6_ADDRSTRLEN] = "?", name[IF_NAMESIZE];

	if (a->sa.ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
		snprintf(out, SOCK_TEXT, "%s:%u", text, ntohs(v4->sin_port));
	} else if (a->sa.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
		if (v6->sin6_scope_id && if_indextoname(v6->sin6_scope_id, name))
			snprintf(out, SOCK_TEXT, "[%s%%%s]:%u", text, name,
				 ntohs(v6->sin6_port));
		else
			snprintf(out, SOCK_TEXT, "[%s]:%u", text, ntohs(v6->sin6_port));
	} else {
		snprintf(out, SOCK_TEXT, "?");
	}
	return out;
}

bool sock_same_host(const struct sock_addr *a, const struct sock_addr *b)
{
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)&a->sa;
	const struct sockaddr_in *b4 = (const struct sockaddr_in *)&b->sa;
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)&a->sa;
	const struct sockaddr_in6 *b6 = (const struct sockaddr_in6 *)&b->sa;

	if (a->sa.ss_family != b->sa.ss_family)
		return false;
	if (a->sa.ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

/* Is @a the address of one interface on one host? */
static bool is_single(const struct sock_addr *a)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->sa;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&a->sa)->sin6_addr;
	uint32_t ip;

	if (a->sa.ss_family == AF_INET) {
		ip = ntohl(v4->sin_addr.s_addr);
		return ip != INADDR_ANY && ip != INADDR_BROADCAST && !IN_MULTICAST(ip);
	}
	return !IN6_IS_ADDR_UNSPECIFIED(v6) && !IN6_IS_ADDR_MULTICAST(v6) &&
	       !IN6_IS_ADDR_V4MAPPED(v6);
}

static bool set(int fd, int level, int name, int value)
{
	/* The caller may ignore a failure: no option is needed to be correct, and
	 * tests pass sockets that are not TCP. */
	return !setsockopt(fd, level, name, &value, sizeof(value));
}

/*
 * Small messages leave at once, and lost ones are sent again each second: the kernel would
 * double the pause each time, so that a network that was away for four seconds is found out
 * to be back after six, and one of ten after twelve.  It also gives up after fifteen tries,
 * which are soon over; but sock_watch() decides when to give a host up.  Where that may take
 * longer, sock_patience() has to be called: the kernel counts tries, not time, for new data.
 *
 * Firewalls forget idle connections, some after 350 s; keep-alive probes come each KEEP_S.
 */
static void sock_prepare(int fd)
{
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_S);
	if (set(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, RETRY_MS))
		set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, DAY_MS);
}

/* If no interface has the address, a loopback that is not set up may be the reason. */
static int fail_listen(const char *address, const struct sock_addr *a, struct err *e)
{
	bool missing = errno == EADDRNOTAVAIL;
	char lo[160] = "";
	int rc = fail_os(e, "listen on %s", address);

	if (missing && nearend_look_self(&a->sa, lo, sizeof(lo)) && *lo)
		rc = fail(e, rc, "listen on %s: %s", address, lo);
	return rc;
}

int sock_listen(const char *address, char *where, struct err *e)
{
	struct sock_addr a;
	int fd, rc, one = 1;

	rc = sock_parse_address(address, &a, e);
	if (rc)
		return rc;
	if (!is_single(&a))
		return fail(e, RINGUP_EINVAL,
			    "%s: cannot listen there; give one address of one interface",
			    address);
	fd = file_lift(socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fail_os(e, "listen on %s", address);
	set(fd, SOL_SOCKET, SO_REUSEADDR, one);
	if (a.sa.ss_family == AF_INET6)
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, one);
	if (bind(fd, (struct sockaddr *)&a.sa, a.len) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&a.sa, &a.len)) {
		rc = fail_listen(address, &a, e);
		close(fd);
		return rc;
	}
	sock_text(&a, where);
	return fd;
}

/* RINGUP_EPEER for errors that may pass, so that another attempt makes sense. */
static int fail_connect(struct err *e)
{
	int passing = errno == ECONNREFUSED || errno == ECONNRESET || errno == ETIMEDOUT ||
		      errno == EHOSTUNREACH || errno == ENETUNREACH || errno == ENETDOWN;

	return passing ? fail(e, RINGUP_EPEER, "connect: %s", strerror(errno))
		       : fail_os(e, "connect");
}

int sock_connect(const struct sock_addr *to, struct err *e)
{
	int fd, rc;

	fd = file_lift(socket(to->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fail_os(e, "connect");
	sock_prepare(fd);
	if (connect(fd, (const struct sockaddr *)&to->sa, to->len) && errno != EINPROGRESS) {
		rc = fail_connect(e);
		close(fd);
		return rc;
	}
	return fd;
}

int sock_connected(int fd, struct err *e)
{
	struct sock_addr here = { .len = sizeof(here.sa) }, there = { .len = sizeof(there.sa) };
	char a[SOCK_TEXT], b[SOCK_TEXT];
	socklen_t len = sizeof(int);
	int why = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len))
		return fail_os(e, "connect");
	errno = why;
	if (why || getsockname(fd, (struct sockaddr *)&here.sa, &here.len) ||
	    getpeername(fd, (struct sockaddr *)&there.sa, &there.len))
		return fail_connect(e);
	errno = ECONNREFUSED;
	if (!strcmp(sock_text(&here, a), sock_text(&there, b)))
		return fail_connect(e);
	return 0;
}

int sock_accept(int fd, struct sock_addr *from)
{
	int made;

	memset(from, 0, sizeof(*from));
	from->len = sizeof(from->sa);
	made = file_lift(accept4(fd, (struct sockaddr *)&from->sa, &from->len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK));
	if (made >= 0) {
		sock_prepare(made);
		return made;
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		return -2;
	/* Other errors concern a connection that is gone by now. */
	return -1;
}

int sock_gather(int fd, void *into, size_t want, size_t *have)
{
	ssize_t n = recv(fd, (char *)into + *have, want - *have, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	errno = 0;
	*have += (size_t)n;
	return n ? *have == want : -1;
}

int sock_patience(int fd, int silence_ms)
{
	int pause = silence_ms / TRIES > RETRY_MS ? silence_ms / TRIES : RETRY_MS;

	if (!silence_ms || pause > KERNEL_RETRY_MS)
		pause = KERNEL_RETRY_MS;
	return set(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, pause) ? pause : KERNEL_RETRY_MS;
}

bool sock_unheard(int fd, uint32_t ms)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) && i.tcpi_unacked &&
	       i.tcpi_last_ack_recv >= ms;
}

void sock_watch(int fd, int silence_ms)
{
	set(fd, SOL_SOCKET, SO_KEEPALIVE, silence_ms > 0);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms ? silence_ms : DAY_MS);
}
