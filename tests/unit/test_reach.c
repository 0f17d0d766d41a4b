/* test_reach.c - attempts end as they should: open, refused, somebody else, nowhere. */
#include "probe/reach.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "probe/echo.h"
#include "ringup.h"
#include "tap.h"
#include "wire/sock.h"

static struct seal_key key;
static struct echo echo;

static struct probe_path path(int to, int port)
{
	struct probe_path p = { .to = to, .answered = -1, .mtu = { .segment = -1 } };

	p.port.number = port;
	snprintf(p.address, sizeof(p.address), "127.0.0.1");
	return p;
}

/* A port on which nobody is, and one on which somebody is who says nothing. */
static int other_port(int *fd, bool listens)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(a);

	*fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(*fd, (struct sockaddr *)&a, len) || (listens && listen(*fd, 5)) ||
	    getsockname(*fd, (struct sockaddr *)&a, &len))
		return -1;
	return ntohs(a.sin_port);
}

static void test_paths(void)
{
	struct reach r = { 0, &key, &echo, -1 };
	struct sock_addr at;
	struct probe_path p[4];
	struct err e = { 0 };
	int fd[2], port;

	sock_parse_address("127.0.0.1", &at, NULL);
	ok(!echo_open(&echo, 1, &key, &e), "open: %s", e.text);
	port = echo_listen(&echo, &at, 0, 0);
	p[0] = path(1, port);
	p[1] = path(2, port);
	p[2] = path(1, other_port(&fd[0], false));
	p[3] = path(1, other_port(&fd[1], true));
	ok(!reach_run(&r, p, 4, &e), "tried");
	ok(p[0].state == FACTS_OPEN && p[0].answered == 1 && !strcmp(p[0].via, "lo"),
	   "who was meant has answered, over lo");
	ok(p[1].state == FACTS_IMPOSTOR, "1 is not 2");
	ok(p[2].state == FACTS_IMPOSTOR && p[2].answered == 0 &&
		   !strcmp(p[2].error, "ECONNREFUSED"),
	   "an address of this machine cannot be another's");
	ok(p[3].state == FACTS_IMPOSTOR, "who says nothing is not who was meant");
	echo_close(&echo);
	close(fd[0]);
	close(fd[1]);
}

static void test_lifeline(void)
{
	struct probe_path p = path(1, 1);
	struct err e = { 0 };
	int fd[2], far[2];

	if (pipe(fd) || socketpair(AF_UNIX, SOCK_STREAM, 0, far))
		return;
	close(fd[1]);
	/* A port where nobody answers keeps it busy until the lifeline is seen to be cut. */
	p.port.number = other_port(&far[0], true);
	ok(reach_run(&(struct reach){ 0, &key, NULL, fd[0] }, &p, 1, &e) == RINGUP_EPEER,
	   "without a lifeline it ends");
	close(fd[0]);
	close(far[0]);
	close(far[1]);
}

static void test_states(void)
{
	char name[FACTS_WORD];

	ok(reach_state(ECONNREFUSED, 0, 0, 0) == FACTS_REFUSED, "a reset is a refusal");
	ok(reach_state(ECONNREFUSED, SO_EE_ORIGIN_ICMP, 3, 3) == FACTS_PROHIBITED,
	   "port unreachable comes from a firewall");
	ok(reach_state(EHOSTUNREACH, SO_EE_ORIGIN_ICMP, 3, 13) == FACTS_PROHIBITED,
	   "administratively prohibited");
	ok(reach_state(EHOSTUNREACH, SO_EE_ORIGIN_ICMP, 3, 1) == FACTS_UNREACHABLE,
	   "host unreachable");
	ok(reach_state(EACCES, SO_EE_ORIGIN_ICMP6, 1, 1) == FACTS_PROHIBITED, "in IPv6, too");
	ok(reach_state(ETIMEDOUT, 0, 0, 0) == FACTS_FILTERED, "silence");
	reach_errno(name, EHOSTUNREACH);
	ok(!strcmp(name, "EHOSTUNREACH"), "errors have their names");
}

int main(void)
{
	struct secret s = { { 7 } };

	seal_derive(&key, &s);
	test_states();
	test_paths();
	test_lifeline();
	return tap_done();
}
