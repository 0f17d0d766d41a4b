/* test_common.c - the network that nodes share: ties, doubles, clouds, names that differ. */
#include <string.h>

#include "base/err.h"
#include "nicpick/common.h"
#include "nics.h"
#include "ringup.h"
#include "tap.h"

enum { NODES = 3 };

#define PHYS IFACE_PHYSICAL

static const struct test {
	const char *what;
	struct nic nics[NODES][NICS];
	const char *address[NODES]; /* what the nodes' names mean */
	struct common_ask ask;
	const char *picks[NODES]; /* NULL: refused, and says why */
	const char *network;      /* "" for none, as it is where names are the same */
	const char *says;         /* a word of the first node's note, or of the refusal */
} tests[] = {
	{ "one network, and docker0 on both",
	  { { { "docker0", IFACE_BRIDGE, 'r', "172.17.0.1", 16, -1, 0 },
	      { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 0 } },
	    { { "docker0", IFACE_BRIDGE, 'r', "172.17.0.1", 16, -1, 0 },
	      { "eth0", PHYS, 'r', "10.0.0.2", 24, 0, 0 } } },
	  { 0 },
	  { 0 },
	  { "eth0", "eth0" },
	  "",
	  "default route" },
	{ "a double is out even with the default route",
	  { { { "eth0", PHYS, 'r', "10.0.2.15", 24, 0, 0 },
	      { "eth1", PHYS, 'r', "192.168.56.11", 24, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.2.15", 24, 0, 0 },
	      { "eth1", PHYS, 'r', "192.168.56.12", 24, -1, 0 } } },
	  { 0 },
	  { 0 },
	  { "eth1", "eth1" },
	  "",
	  "network device" },
	{ "nothing but doubles",
	  { { { "eth0", PHYS, 'r', "10.0.2.15", 24, 0, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.2.15", 24, 0, 0 } } },
	  { 0 },
	  { 0 },
	  { 0 },
	  "",
	  "no interface with a unique address reaches all other nodes" },
	{ "one that leads to a third node only is out",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.1", 24, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.2", 24, -1, 0 } },
	    { { "eth1", PHYS, 'r', "10.0.1.3", 24, -1, 0 } } },
	  { 0 },
	  { 0 },
	  { "eth1", "eth1", "eth1" },
	  "",
	  "network device" },
	{ "two networks tie",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.1", 24, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.2", 24, -1, 0 } } },
	  { 0 },
	  { .decide = "--interface=" },
	  { 0 },
	  "",
	  "--interface=eth0 or --interface=eth1" },
	{ "what the names mean decides it",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.1", 24, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.2", 24, -1, 0 } } },
	  { "10.0.1.1", "10.0.1.2" },
	  { 0 },
	  { "eth1", "eth1" },
	  "",
	  "route to all other nodes" },
	{ "a network decides it",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.1", 24, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.2", 24, -1, 0 } } },
	  { 0 },
	  { .network = "10.0.1.0/24" },
	  { "eth1", "eth1" },
	  "10.0.1.0/24",
	  "network device" },
	{ "speed decides, if it is asked, against the default route",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 1000 },
	      { "eth1", PHYS, 'r', "10.0.1.1", 24, -1, 100000 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, 0, 1000 },
	      { "eth1", PHYS, 'r', "10.0.1.2", 24, -1, 100000 } } },
	  { 0 },
	  { .prefer = OWN_SPEED },
	  { "eth1", "eth1" },
	  "",
	  "100000 Mb/s" },
	{ "and is no reason if it is not",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 1000 },
	      { "eth1", PHYS, 'r', "10.0.1.1", 24, -1, 100000 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, 0, 1000 },
	      { "eth1", PHYS, 'r', "10.0.1.2", 24, -1, 100000 } } },
	  { 0 },
	  { 0 },
	  { "eth0", "eth0" },
	  "",
	  "default route" },
	{ "InfiniBand, if it is asked",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 0 },
	      { "ib0", IFACE_INFINIBAND, 'r', "10.4.0.1", 24, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, 0, 0 },
	      { "ib0", IFACE_INFINIBAND, 'r', "10.4.0.2", 24, -1, 0 } } },
	  { 0 },
	  { .prefer = OWN_INFINIBAND },
	  { "ib0", "ib0" },
	  "",
	  "InfiniBand" },
	{ "names that differ",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 0 } },
	    { { "ens5", PHYS, 'r', "10.0.0.2", 24, 0, 0 } },
	    { { "ens6", PHYS, 'r', "10.0.0.3", 24, 0, 0 } } },
	  { 0 },
	  { 0 },
	  { "eth0", "ens5", "ens6" },
	  "10.0.0.0/24",
	  "default route" },
	{ "names that differ in a cloud of /32",
	  { { { "eth0", PHYS, 'r', "10.128.0.5", 32, 0, 0 } },
	    { { "ens4", PHYS, 'r', "10.128.0.17", 32, 0, 0 } } },
	  { 0 },
	  { 0 },
	  { "eth0", "ens4" },
	  "10.128.0.0/27",
	  "default route" },
	{ "names that differ, and a network that docker0 would be in, too",
	  { { { "eth0", PHYS, 'r', "172.16.0.1", 12, 0, 0 } },
	    { { "ens5", PHYS, 'r', "172.16.0.2", 12, 0, 0 },
	      { "docker0", IFACE_BRIDGE, 'u', "172.17.0.1", 16, -1, 0 } } },
	  { 0 },
	  { 0 },
	  { "eth0", "ens5" },
	  "",
	  "default route" },
	{ "IPv6 only, names that differ",
	  { { { "eth0", PHYS, 'r', "2001:db8::1", 64, 0, 0 } },
	    { { "ens5", PHYS, 'r', "2001:db8::2", 64, 0, 0 } } },
	  { 0 },
	  { 0 },
	  { "eth0", "ens5" },
	  "2001:db8::/64",
	  "default route" },
	{ "they would not meet",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.1", 24, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, -1, 0 },
	      { "eth1", PHYS, 'r', "10.0.1.2", 24, 0, 0 } } },
	  { 0 },
	  { 0 },
	  { 0 },
	  "",
	  "are not connected" },
	{ "whom the user names is taken, with a warning",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 0 },
	      { "docker0", IFACE_BRIDGE, 'r', "172.17.0.1", 16, -1, 0 } },
	    { { "eth0", PHYS, 'r', "10.0.0.2", 24, 0, 0 },
	      { "docker0", IFACE_BRIDGE, 'r', "172.17.0.1", 16, -1, 0 } } },
	  { 0 },
	  { .interface = "docker0", .named_by = "--interface" },
	  { "docker0", "docker0" },
	  "",
	  "beware: its address is also that of docker0 on n1" },
	{ "nobody has an address in that network",
	  { { { "eth0", PHYS, 'r', "10.0.0.1", 24, 0, 0 } } },
	  { 0 },
	  { .network = "10.9.0.0/24" },
	  { 0 },
	  "",
	  "no interface with an address in 10.9.0.0/24" },
};

static void check(const struct test *t)
{
	static const char *const names[] = { "n0", "n1", "n2" };
	struct iface_list lists[NODES] = { 0 };
	struct common_node nodes[NODES] = { 0 };
	char network[COMMON_NETWORK];
	struct err e = { 0 };
	int i, n, rc;

	for (n = 0; n < NODES && t->nics[n][0].name; n++) {
		nics_build(&lists[n], t->nics[n]);
		nodes[n].name = names[n];
		nodes[n].address = t->address[n];
		nodes[n].ifaces = &lists[n];
	}
	rc = common_choose(nodes, n, &t->ask, network, &e);
	ok(t->picks[0] ? !rc : rc == RINGUP_EINVAL, "%s: %s", t->what, e.text);
	for (i = 0; !rc && i < n; i++)
		ok(nodes[i].own.roles[0].npicks == 1 &&
			   !strcmp(nodes[i].own.roles[0].picks[0].interface, t->picks[i]),
		   "%s: %s for %s", t->what, t->picks[i], names[i]);
	ok(!strcmp(rc ? "" : network, t->network), "%s: network '%s'", t->what, network);
	ok(strstr(rc ? e.text : nodes[0].own.roles[0].note, t->says), "%s: because %s%s",
	   t->what, e.text, nodes[0].own.roles[0].note);
	for (i = 0; i < n; i++) {
		picker_free(&nodes[i].own);
		iface_free(&lists[i]);
	}
}

static void test_networks(void)
{
	static const char *const wrong[] = { "",
					     "10.0.0.0",
					     "10.0.0.0/",
					     "10.0.0.0/33",
					     "10.0.0.0/-1",
					     "10.0.0.0/8x",
					     "eth0/24",
					     "/24",
					     "10.0.0.0/ 8",
					     "fe80::1%lo/64" };
	struct iface_ip ip;
	size_t i;
	int prefix;

	ok(own_network("10.0.0.0/8", &ip, &prefix) && prefix == 8, "a network");
	ok(own_network("2001:db8::/32", &ip, &prefix) && prefix == 32, "of IPv6");
	for (i = 0; i + 1 < sizeof(wrong) / sizeof(wrong[0]); i++)
		ok(!own_network(wrong[i], &ip, &prefix), "none: '%s'", wrong[i]);
}

int main(void)
{
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		check(&tests[i]);
	test_networks();
	return tap_done();
}
