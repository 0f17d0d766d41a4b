/* test_linkwatch.c - of two moments every difference is told, and nothing else. */
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "host/linkwatch.h"
#include "tap.h"

static void fill(struct iface_list *l)
{
	struct iface *f = iface_add(l);
	struct iface_addr *a = iface_add_addr(l);
	struct iface_route *r = iface_add_route(l);

	memset(l->ifaces, 0, sizeof(*f));
	f->index = 7;
	f->flags = IFF_UP | IFF_RUNNING;
	f->mtu = 1500;
	snprintf(f->name, sizeof(f->name), "eth0");
	iface_parse(&a->ip, "10.0.0.5");
	a->prefix = 24;
	iface_parse(&r->to, "0.0.0.0");
	iface_parse(&r->via, "10.0.0.1");
}

static char told[1024];

static void hear(void *data, const char *what)
{
	size_t len = strlen(told);

	(void)data;
	snprintf(told + len, sizeof(told) - len, "%s%s", len ? "; " : "", what);
}

/* Compare two moments, the second as @change left it; then back again. */
static void differs(void (*change)(struct iface_list *), const char *there, const char *back)
{
	struct iface_list before = { 0 }, after = { 0 };

	fill(&before);
	fill(&after);
	change(&after);
	*told = 0;
	linkwatch_compare(&before, &after, hear, NULL);
	ok(!strcmp(told, there), "there: %s", told);
	*told = 0;
	linkwatch_compare(&after, &before, hear, NULL);
	ok(!strcmp(told, back), "back: %s", told);
	iface_free(&before);
	iface_free(&after);
}

static void nothing(struct iface_list *l)
{
	(void)l;
}

static void unplug(struct iface_list *l)
{
	l->ifaces[0].flags = IFF_UP;
}

static void widen(struct iface_list *l)
{
	l->ifaces[0].mtu = 9000;
	snprintf(l->ifaces[0].mac, IFACE_MAC, "02:00:00:00:00:01");
}

static void rename_it(struct iface_list *l)
{
	snprintf(l->ifaces[0].name, IFACE_NAME, "ens5");
}

static void enslave(struct iface_list *l)
{
	l->ifaces[0].master = 3;
}

static void renumber(struct iface_list *l)
{
	iface_parse(&l->addrs[0].ip, "10.0.0.6");
}

static void reroute(struct iface_list *l)
{
	iface_parse(&l->routes[0].via, "10.0.0.2");
	iface_parse(&l->routes[0].to, "10.1.0.0");
	l->routes[0].prefix = 16;
}

static void add(struct iface_list *l)
{
	struct iface *f = iface_add(l);

	f->index = 8;
	snprintf(f->name, sizeof(f->name), "docker0");
}

static void test_open(void)
{
	struct err e = { 0 };
	int fd = linkwatch_open(&e);

	ok(fd >= 0, "the kernel lets us watch: %s", e.text);
	linkwatch_drain(fd);
	close(fd);
}

int main(void)
{
	differs(nothing, "", "");
	differs(unplug, "eth0 is idle, was running", "eth0 is running, was idle");
	differs(widen,
		"eth0 has mtu 9000, had 1500; eth0 has hardware address 02:00:00:00:00:01, "
		"had ",
		"eth0 has mtu 1500, had 9000; eth0 has hardware address , had "
		"02:00:00:00:00:01");
	differs(rename_it, "eth0 is now called ens5", "ens5 is now called eth0");
	differs(enslave, "eth0 joined a bridge or bond", "eth0 left a bridge or bond");
	differs(renumber, "eth0 lost 10.0.0.5/24; eth0 has 10.0.0.6/24",
		"eth0 lost 10.0.0.6/24; eth0 has 10.0.0.5/24");
	differs(reroute,
		"the default route by eth0 via 10.0.0.1 is gone; "
		"the route to 10.1.0.0/16 by eth0 via 10.0.0.2 is new",
		"the route to 10.1.0.0/16 by eth0 via 10.0.0.2 is gone; "
		"the default route by eth0 via 10.0.0.1 is new");
	differs(add, "docker0 is new, down", "docker0 is gone");
	test_open();
	return tap_done();
}
