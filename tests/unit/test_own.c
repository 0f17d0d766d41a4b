/* test_own.c - ringup's own choice, machine by machine. */
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "nicpick/own.h"
#include "nics.h"
#include "ringup.h"
#include "tap.h"

static const struct test {
	const char *what;
	struct nic nics[NICS];
	struct own_hint hint;
	const char *interface, *address; /* expected; NULL: a refusal ... */
	const char *says;                /* ... or a note with this in it */
} tests[] = {
	{ "a plain node",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 100, 0 } },
	  { 0 },
	  "eth0",
	  "10.0.0.5",
	  "default route" },
	{ "docker0 comes first and runs",
	  { { "docker0", IFACE_BRIDGE, 'r', "172.17.0.1", 16, -1, 0 },
	    { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 100, 0 } },
	  { 0 },
	  "eth0",
	  "10.0.0.5",
	  "default route" },
	{ "in a container eth0 is a veth",
	  { { "eth0", IFACE_VETH, 'r', "172.17.0.2", 16, 0, 0 } },
	  { 0 },
	  "eth0",
	  "172.17.0.2",
	  "default route" },
	{ "a veth without any route is all there is",
	  { { "va1", IFACE_VETH, 'r', "10.9.0.1", 24, -1, 0 } },
	  { 0 },
	  "va1",
	  "10.9.0.1",
	  "virtual link" },
	{ "a bridge may hold the default route",
	  { { "br0", IFACE_BRIDGE, 'r', "10.0.0.5", 24, 0, 0 },
	    { "eth1", IFACE_PHYSICAL, 'r', "10.1.0.5", 24, -1, 0 } },
	  { 0 },
	  "br0",
	  "10.0.0.5",
	  "default route" },
	{ "a VPN with the default route does not beat hardware",
	  { { "tun0", IFACE_TUN, 'r', "10.8.0.2", 24, 0, 0 },
	    { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, -1, 0 } },
	  { 0 },
	  "eth0",
	  "10.0.0.5",
	  "network device" },
	{ "a VPN is taken when nothing else is there",
	  { { "tun0", IFACE_TUN, 'r', "10.8.0.2", 24, 0, 0 } },
	  { 0 },
	  "tun0",
	  "10.8.0.2",
	  "tunnel" },
	{ "the lower metric wins",
	  { { "wlan0", IFACE_PHYSICAL, 'r', "10.1.0.5", 24, 600, 0 },
	    { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 100, 0 } },
	  { 0 },
	  "eth0",
	  "10.0.0.5",
	  "default route" },
	{ "two networks tie",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, -1, 0 },
	    { "eth1", IFACE_PHYSICAL, 'r', "10.0.1.5", 24, -1, 0 } },
	  { 0 },
	  NULL,
	  NULL,
	  "RINGUP_INTERFACE=eth1" },
	{ "two in one network do not, but say so",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, -1, 0 },
	    { "eth1", IFACE_PHYSICAL, 'r', "10.0.0.6", 24, -1, 0 } },
	  { 0 },
	  "eth0",
	  "10.0.0.5",
	  "same subnet" },
	{ "two addresses are remarked on",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 },
	    { "eth0", IFACE_PHYSICAL, 'r', "10.0.7.5", 24, -1, 0 } },
	  { 0 },
	  "eth0",
	  "10.0.0.5",
	  "Open MPI 4.1 hangs" },
	{ "the user decides a tie",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, -1, 0 },
	    { "eth1", IFACE_PHYSICAL, 'r', "10.0.1.5", 24, -1, 0 } },
	  { .interface = "eth1" },
	  "eth1",
	  "10.0.1.5",
	  "RINGUP_INTERFACE" },
	{ "also by address",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 },
	    { "docker0", IFACE_BRIDGE, 'u', "172.17.0.1", 16, -1, 0 } },
	  { .interface = "172.17.0.1" },
	  "docker0",
	  "172.17.0.1",
	  "RINGUP_INTERFACE" },
	{ "a name that does not exist",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 } },
	  { .interface = "ens5" },
	  NULL,
	  NULL,
	  "this host has eth0" },
	{ "a name without an address",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 },
	    { "eth1", IFACE_PHYSICAL, 'r', NULL, 0, -1, 0 } },
	  { .interface = "eth1" },
	  NULL,
	  NULL,
	  "no usable address" },
	{ "a name that is down",
	  { { "eth0", IFACE_PHYSICAL, '-', "10.0.0.5", 24, -1, 0 } },
	  { .interface = "eth0" },
	  NULL,
	  NULL,
	  "down" },
	{ "the platform knows",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 },
	    { "eth1", IFACE_VETH, 'r', "10.0.1.5", 24, -1, 0 } },
	  { .container_ip = "10.0.1.5" },
	  "eth1",
	  "10.0.1.5",
	  "DB_CONTAINER_IP" },
	{ "or is wrong",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 } },
	  { .container_ip = "10.9.9.9" },
	  "eth0",
	  "10.0.0.5",
	  "not an address of this host" },
	{ "the way to the peer beats the default route",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 },
	    { "eth1", IFACE_PHYSICAL, 'r', "10.0.1.5", 24, -1, 0 } },
	  { .peer = "10.0.1.9" },
	  "eth1",
	  "10.0.1.5",
	  "10.0.1.9" },
	{ "the peer is this host",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 },
	    { "eth1", IFACE_PHYSICAL, 'r', "10.0.1.5", 24, -1, 0 } },
	  { .peer = "10.0.1.5" },
	  "eth1",
	  "10.0.1.5",
	  "10.0.1.5" },
	{ "one host needs no network",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 } },
	  { .one_host = true },
	  "lo",
	  "127.0.0.1",
	  "this host" },
	{ "not even a named one",
	  { { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 } },
	  { .interface = "eth0", .one_host = true },
	  "lo",
	  "127.0.0.1",
	  "this host" },
	{ "a report names the loopback when there is nothing else",
	  { { 0 } },
	  { .any = true },
	  "lo",
	  "127.0.0.1",
	  "no network" },
	{ "several hosts do", { { 0 } }, { 0 }, NULL, NULL, "RINGUP_INTERFACE" },
	{ "a bridge over the card is the card's way, though it has no default route",
	  { { "br0", IFACE_BRIDGE, 'r', "10.0.0.5", 24, -1, 0 },
	    { "eno1", IFACE_PHYSICAL, 'p', NULL, 0, -1, 0 } },
	  { 0 },
	  "br0",
	  "10.0.0.5",
	  "network device" },
	{ "a bridge of containers is not",
	  { { "br-1", IFACE_BRIDGE, 'r', "172.18.0.1", 16, -1, 0 },
	    { "veth12", IFACE_VETH, 'p', NULL, 0, -1, 0 } },
	  { 0 },
	  NULL,
	  NULL,
	  "no interface" },
	{ "a bridge is not guessed",
	  { { "docker0", IFACE_BRIDGE, 'r', "172.17.0.1", 16, -1, 0 } },
	  { 0 },
	  NULL,
	  NULL,
	  "no interface" },
	{ "nothing plugged in",
	  { { "eth0", IFACE_PHYSICAL, 'u', "10.0.0.5", 24, -1, 0 } },
	  { 0 },
	  NULL,
	  NULL,
	  "no interface" },
	{ "link-local only",
	  { { "usb0", IFACE_PHYSICAL, 'r', "169.254.95.120", 16, -1, 0 } },
	  { 0 },
	  NULL,
	  NULL,
	  "no interface" },
	{ "IPv6 only",
	  { { "eth0", IFACE_PHYSICAL, 'r', "2001:db8::5", 64, 0, 0 } },
	  { 0 },
	  "eth0",
	  "2001:db8::5",
	  "default route" },
	{ "IPv4 is preferred",
	  { { "eth0", IFACE_PHYSICAL, 'r', "2001:db8::5", 64, 0, 0 },
	    { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, -1, 0 } },
	  { 0 },
	  "eth0",
	  "10.0.0.5",
	  "default route" },
};

static void check(const struct test *t)
{
	struct iface_list l = { 0 };
	struct picked p = { 0 };
	struct pick_role *r = &p.roles[0];
	struct err e = { 0 };
	int i, told = 1;

	nics_build(&l, t->nics);
	ok(own_choose(&l, &t->hint, &p, &e) == 0, "%s: an answer", t->what);
	if (t->interface)
		ok(r->npicks == 1 && !strcmp(r->picks[0].interface, t->interface) &&
			   !strcmp(r->picks[0].address, t->address) && !*r->error,
		   "%s: %s, not %s%s", t->what, t->address,
		   r->npicks ? r->picks[0].address : "", r->error);
	else
		ok(r->npicks == 0 && *r->error, "%s: a refusal", t->what);
	ok(strstr(t->interface ? r->note : r->error, t->says), "%s: because %s", t->what,
	   t->interface ? r->note : r->error);
	for (i = 0; t->interface && i < p.nfates; i++)
		told &= *p.fates[i].rule &&
			p.fates[i].used == !strcmp(l.ifaces[i].name, t->interface);
	ok(told, "%s: every interface is told why", t->what);
	picker_free(&p);
	iface_free(&l);
}

static void test_address(void)
{
	struct conf c;
	struct err e = { 0 };
	char out[IFACE_TEXT];

	clearenv();
	ok(conf_load(&c, CONF_FORBID, &e) == 0, "defaults");
	ok(own_address(&c, true, out, sizeof(out), &e) == 0 && !strcmp(out, "127.0.0.1"),
	   "one host: %s", out);
	c.meet = "127.0.0.1:4711";
	ok(own_address(&c, false, out, sizeof(out), &e) == 0 && !strcmp(out, "127.0.0.1"),
	   "a meeting point on the loopback says so too");
	c.meet = "[::1]:4711";
	ok(own_address(&c, false, out, 3, &e) != 0, "no room: %s", e.text);
	c.meet = "/tmp/a:directory";
	c.interface = "no-such-nic";
	ok(own_address(&c, true, out, sizeof(out), &e) == RINGUP_EINVAL &&
		   strstr(e.text, "no-such-nic"),
	   "a wrong name: %s", e.text);
}

int main(void)
{
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		check(&tests[i]);
	test_address();
	return tap_done();
}
