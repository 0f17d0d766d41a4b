/* test_neigh.c - hardware addresses of neighbours, and how often their table was full. */
#include "probe/neigh.h"

#include <string.h>

#include "tap.h"

static const char table[] =
	"IP address       HW type     Flags       HW address            Mask     Device\n"
	"10.8.0.2         0x1         0x6         02:00:00:00:00:77     *        eth0\n"
	"10.8.0.22        0x1         0x2         02:00:00:00:00:22     *        eth0\n"
	"10.8.0.3         0x1         0x0         00:00:00:00:00:00     *        eth0\n";

static const char stat[] =
	"entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast "
	"rcv_probes_ucast periodic_gc_runs forced_gc_runs unresolved_discards table_fulls\n"
	"00000003 00000004 00000001 00000000   00000010 0000000a 00000000   00000000         "
	"00000000         000000ff         00000000       00000000            0000001f\n"
	"00000003 00000004 00000001 00000000   00000010 0000000a 00000000   00000000         "
	"00000000         000000ff         00000000       00000000            00000001\n";

int main(void)
{
	char mac[FACTS_WORD] = "";

	ok(neigh_find(table, "10.8.0.2", mac) && !strcmp(mac, "02:00:00:00:00:77"),
	   "the MAC of a neighbour");
	ok(neigh_find(table, "10.8.0.22", mac) && !strcmp(mac, "02:00:00:00:00:22"),
	   "one whose address begins alike");
	ok(!neigh_find(table, "10.8.0.3", mac), "one that did not answer has none");
	ok(!neigh_find(table, "10.8.0.9", mac) && !neigh_find("", "10.8.0.2", mac), "none");
	ok(neigh_overflows(stat) == 32, "overflows of all processors");
	ok(!neigh_overflows("") && !neigh_overflows("entries\n1\n"),
	   "a kernel that counts none");
	return tap_done();
}
