/* test_nearend.c - what has become of the interface that a connection leaves by. */
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/nearend.h"
#include "tap.h"

static char said[200];

static bool says(const struct iface_list *l, const char *ip, const char *text)
{
	struct iface_ip parsed;

	if (iface_parse(&parsed, ip) &&
	    nearend_fault(l, &parsed, said, sizeof(said)) == (*text != 0) &&
	    !strcmp(said, text))
		return true;
	printf("# said \"%s\"\n", said);
	return false;
}

static void add(struct iface_list *l, const char *name, unsigned flags, const char *ip)
{
	struct iface *i = iface_add(l);
	struct iface_addr *a = iface_add_addr(l);

	snprintf(i->name, sizeof(i->name), "%s", name);
	i->flags = flags;
	a->iface = l->nifaces - 1;
	iface_parse(&a->ip, ip);
}

static void recorded(void)
{
	struct iface_list l = { 0 };

	add(&l, "lo", IFF_UP | IFF_RUNNING, "127.0.0.1");
	add(&l, "eth0", IFF_UP | IFF_RUNNING, "10.0.0.5");
	add(&l, "eth1", IFF_UP, "10.1.0.5");
	add(&l, "eth2", 0, "fd00::5");
	ok(says(&l, "10.0.0.5", ""), "nothing is wrong with an interface that runs");
	ok(says(&l, "10.1.0.5", "; eth1 (10.1.0.5) has no link on this host"), "no carrier");
	ok(says(&l, "fd00::5", "; eth2 (fd00::5) is down on this host"), "down");
	ok(says(&l, "10.2.0.5", "; no interface of this host has 10.2.0.5 any more"),
	   "no such address");
	iface_free(&l);
}

static bool self_says(const struct iface_list *l, const char *ip, bool own, const char *text)
{
	struct iface_ip parsed;

	iface_parse(&parsed, ip);
	if (nearend_self(l, &parsed, said, sizeof(said)) == own &&
	    (*text ? strstr(said, text) != NULL : !said[0]))
		return true;
	printf("# said \"%s\"\n", said);
	return false;
}

/* What a host sends to itself goes over lo, whichever of its addresses it is sent to. */
static void itself(void)
{
	const char *down = "loopback interface of this host is down: ip link set lo up";
	struct iface_list l = { 0 };

	add(&l, "lo", IFF_LOOPBACK | IFF_UP | IFF_RUNNING, "127.0.0.1");
	add(&l, "eth0", IFF_UP | IFF_RUNNING, "10.0.0.5");
	ok(self_says(&l, "10.0.0.6", false, ""), "another host");
	ok(self_says(&l, "127.0.0.2", true, ""), "127.0.0.2 is lo's, too");
	ok(self_says(&l, "10.0.0.5", true, ""), "this host, by its own address");
	ok(self_says(&l, "::1", true, "this host has no ::1: ip addr add ::1/128 dev lo"),
	   "no address in IPv6");
	l.ifaces[0].flags = IFF_LOOPBACK;
	ok(self_says(&l, "127.0.0.1", true, down) && self_says(&l, "10.0.0.5", true, down),
	   "lo is down");
	ok(self_says(&l, "10.0.0.6", false, ""), "which is nothing to another host");
	iface_parse(&l.addrs[0].ip, "10.0.0.7");
	l.ifaces[0].flags |= IFF_UP;
	ok(self_says(&l, "127.0.0.1", true, "has no 127.0.0.1: ip addr add 127.0.0.1/8 dev lo"),
	   "lo is up, without an address");
	iface_free(&l);
	ok(self_says(&l, "127.0.0.1", true, down), "there is no lo");
}

/* A socket that is bound to 127.0.0.1, one of another kind, and none. */
static void live(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), pair[2];

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)))
		ok(1, "nothing is wrong with the loopback # SKIP it is down");
	else
		ok(!nearend_look(fd, said, sizeof(said)) && !said[0],
		   "nothing is wrong with the loopback");
	close(fd);
	ok(!nearend_look(fd, said, sizeof(said)) && !said[0],
	   "nothing to say of what is closed");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	ok(!nearend_look(pair[0], said, sizeof(said)) && !said[0],
	   "nor of another kind of socket");
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	recorded();
	itself();
	live();
	return tap_done();
}
