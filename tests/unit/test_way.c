/* test_way.c - the kernel's word about where packets would go. */
#include "probe/way.h"

#include <string.h>

#include "tap.h"

int main(void)
{
	struct iface_ip ip;
	struct way w;

	ok(iface_parse(&ip, "127.0.0.1"), "an address");
	way_find(&w, &ip);
	ok(!w.error && w.is_local && !strcmp(w.via, "lo") && w.mtu > 576,
	   "loopback leads to this machine");
	ok(iface_same(&w.source, &ip), "from itself");
	ok(iface_parse(&ip, "255.255.255.255"), "everybody");
	way_find(&w, &ip);
	ok(!w.is_local, "is not this machine");
	return tap_done();
}
