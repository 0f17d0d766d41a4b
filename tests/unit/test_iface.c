/* test_iface.c - what the kernel says is kept, in its order; lookups are right. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "host/iface.h"
#include "ringup.h"
#include "tap.h"

/* getifaddrs is what NCCL walks, so it is the judge of our order. */
static int same_as_getifaddrs(const struct iface_list *l)
{
	struct ifaddrs *all, *i;
	char text[IFACE_TEXT];
	int n = 0, good = 1;

	if (getifaddrs(&all))
		return 0;
	for (i = all; i; i = i->ifa_next) {
		int family = i->ifa_addr ? i->ifa_addr->sa_family : 0;
		const void *bytes;

		if (family != AF_INET && family != AF_INET6)
			continue;
		bytes = family == AF_INET
				? (void *)&((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr
				: (void *)&((struct sockaddr_in6 *)(void *)i->ifa_addr)
					  ->sin6_addr;
		inet_ntop(family, bytes, text, sizeof(text));
		good &= n < l->naddrs && l->addrs[n].ip.family == family &&
			!strcmp(l->addrs[n].label, i->ifa_name) &&
			!memcmp(l->addrs[n].ip.bytes, bytes, family == AF_INET ? 4 : 16) &&
			(l->ifaces[l->addrs[n].iface].flags & 0xffff) ==
				(i->ifa_flags & 0xffff);
		n++;
	}
	freeifaddrs(all);
	return good && n == l->naddrs;
}

static void test_live(void)
{
	struct iface_list l = { 0 };
	struct err e = { 0 };
	const struct iface *lo;

	ok(iface_read(&l, NULL, "127.0.0.1", &e) == 0, "the kernel answers: %s", e.text);
	ok(l.nifaces >= 1, "there is an interface");
	ok(same_as_getifaddrs(&l), "%d addresses are in getifaddrs' order", l.naddrs);
	lo = iface_find(&l, "lo");
	ok(lo && lo->kind == IFACE_LOOPBACK && lo->flags & IFF_LOOPBACK && lo->index == 1 &&
		   lo->mtu > 0,
	   "lo is the loopback");
	ok(!iface_find(&l, "no-such-thing") && iface_position(&l, -5) < 0,
	   "what is not there is not found");
	iface_free(&l);
	ok(l.nifaces == 0 && !l.ifaces, "free leaves nothing");
	iface_free(&l);
	ok(iface_read(&l, NULL, "host.example", &e) == RINGUP_EINVAL, "a name is refused: %s",
	   e.text);
	iface_free(&l);
}

static void put(const char *root, const char *path, const char *text)
{
	struct err e = { 0 };

	if (file_write(root, path, 0644, text, strlen(text), &e))
		ok(0, "write %s: %s", path, e.text);
}

static void test_sysfs(void)
{
	char root[] = "/tmp/test_iface.XXXXXX", rm[64];
	struct iface ib = { .index = 7, .name = "ibp1", .speed_mbps = -1 };
	struct iface br = { .index = 8, .name = "br-9", .speed_mbps = -1 };
	struct iface other = { .index = 99, .name = "br-9", .speed_mbps = -1 };
	struct iface bad = { .index = 7, .name = "../ibp1", .speed_mbps = -1 };

	if (!mkdtemp(root)) {
		ok(0, "mkdtemp");
		return;
	}
	put(root, "/sys/class/net/ibp1/ifindex", "7\n");
	put(root, "/sys/class/net/ibp1/type", "32\n");
	put(root, "/sys/class/net/ibp1/speed", "200000\n");
	put(root, "/sys/class/net/br-9/ifindex", "8\n");
	put(root, "/sys/class/net/br-9/type", "1\n");
	put(root, "/sys/class/net/br-9/speed", "-1\n");
	put(root, "/sys/class/net/br-9/bridge/bridge_id", "8000.024200000001\n");
	iface_sysfs(&ib, root);
	ok(ib.kind == IFACE_INFINIBAND && ib.speed_mbps == 200000, "InfiniBand by its type");
	iface_sysfs(&br, root);
	ok(br.kind == IFACE_BRIDGE && br.speed_mbps == -1, "a bridge has a bridge folder");
	iface_sysfs(&other, root);
	ok(other.kind == IFACE_OTHER, "another namespace's interface is not believed");
	iface_sysfs(&bad, root);
	ok(bad.kind == IFACE_OTHER, "a name with a slash leads nowhere");
	snprintf(rm, sizeof(rm), "rm -rf %s", root);
	ok(system(rm) == 0, "clean up");
}

static void test_addresses(void)
{
	struct iface_ip a, b;
	char text[IFACE_TEXT];

	ok(iface_parse(&a, "10.1.2.3") && a.family == AF_INET, "IPv4 parses");
	ok(!strcmp(iface_text(&a, text), "10.1.2.3"), "and prints");
	ok(iface_parse(&b, "10.1.0.0") && iface_within(&a, &b, 16), "10.1.2.3 is in 10.1/16");
	ok(!iface_within(&a, &b, 24) && iface_within(&a, &b, 22) && !iface_within(&a, &b, 23),
	   "prefixes need not end at a byte");
	ok(iface_within(&a, &b, 0) && !iface_within(&a, &b, 33), "0 holds all, 33 nothing");
	ok(iface_parse(&a, "fe80::1%lo") && a.scope_id == 1, "a scope by name");
	ok(iface_parse(&a, "fe80::1%7") && !strcmp(iface_text(&a, text), "fe80::1%7"),
	   "a scope by number");
	ok(!iface_parse(&a, "fe80::1%") && !iface_parse(&a, "fe80::1%nothing-like-it"),
	   "a scope that does not exist is refused");
	ok(!iface_parse(&a, "") && !iface_parse(&a, "10.0.0") && !iface_parse(&a, "eth0") &&
		   !iface_parse(&a, "10.0.0.5%eth0"),
	   "what is no address is refused");
	ok(iface_parse(&a, "10.0.0.1") && iface_is_global(&a), "private is global enough");
	ok(iface_parse(&a, "169.254.3.4") && !iface_is_global(&a), "169.254 is not");
	ok(iface_parse(&a, "127.0.1.1") && !iface_is_global(&a), "127 is not");
	ok(iface_parse(&a, "fe80::1") && !iface_is_global(&a), "fe80 is not");
	ok(iface_parse(&a, "::1") && !iface_is_global(&a), "::1 is not");
	ok(iface_parse(&a, "fd00::1") && iface_is_global(&a), "unique local is");
	ok(iface_parse(&a, "127.0.1.1") && iface_is_loopback(&a) && iface_parse(&a, "::1") &&
		   iface_is_loopback(&a) && iface_parse(&a, "7f00::1") &&
		   !iface_is_loopback(&a),
	   "127 and ::1 are the loopback");
	ok(iface_parse(&a, "10.1.2.3") &&
		   !strcmp(iface_net_text(&a, 20, text), "10.1.0.0/20") &&
		   !strcmp(iface_net_text(&a, 0, text), "0.0.0.0/0"),
	   "an address and its length make a network");
	ok(iface_parse_recorded(&a, "fe80::1%7") && a.scope_id == 7 &&
		   !strcmp(iface_net_text(&a, 64, text), "fe80::/64") &&
		   !iface_parse_recorded(&a, "fe80::1%lo"),
	   "another machine's interface is a number, and no part of a network");
}

static void add_route(struct iface_list *l, const char *to, int prefix, int at, int metric)
{
	struct iface_route *r = iface_add_route(l);

	iface_parse(&r->to, to);
	r->prefix = prefix;
	r->iface = at;
	r->metric = metric;
}

static void test_routes(void)
{
	struct iface_list l = { 0 };
	struct iface_ip to;
	int i;

	for (i = 0; i < 100; i++)
		iface_add(&l)->index = i + 1;
	ok(l.nifaces == 100 && iface_position(&l, 100) == 99, "a hundred interfaces fit");
	add_route(&l, "0.0.0.0", 0, 0, 100);
	add_route(&l, "0.0.0.0", 0, 1, 50);
	add_route(&l, "10.0.0.0", 8, 2, 0);
	add_route(&l, "10.7.0.0", 16, 3, 900);
	iface_parse(&to, "10.7.1.1");
	ok(iface_route(&l, &to)->iface == 3, "the longest prefix wins");
	iface_parse(&to, "10.8.1.1");
	ok(iface_route(&l, &to)->iface == 2, "then the next");
	iface_parse(&to, "192.0.2.1");
	ok(iface_route(&l, &to)->iface == 1, "then the lowest metric");
	iface_parse(&to, "2001:db8::1");
	ok(!iface_route(&l, &to), "and no other family's");
	iface_free(&l);
}

static void test_words(void)
{
	unsigned bit;
	int n, good = 1;

	for (n = 0; n < IFACE_KIND_COUNT; n++)
		good &= (int)iface_kind_find(iface_kind_text((enum iface_kind)n)) == n;
	ok(good && iface_kind_find("nonsense") == IFACE_OTHER, "kinds have a word each");
	for (n = 0; iface_flag_at(n, &bit); n++)
		good &= iface_flag(iface_flag_at(n, &bit)) == bit;
	ok(good && n > 5 && !iface_flag("nonsense"), "so do flags");
}

int main(void)
{
	test_live();
	test_sysfs();
	test_addresses();
	test_routes();
	test_words();
	return tap_done();
}
