/* test_fields.c - what fields take, what they leave, and how far they look. */
#include "diagnose/fields.h"

#include <string.h>

#include "tap.h"

static struct fields f;
static size_t looked;

static bool fits(const char *rest, const char *at)
{
	fields_init(&f);
	looked = 0;
	return fields_match(rest, at, at + strlen(at), &f, &looked);
}

static void check_address(const char *at, const char *want)
{
	bool good = fits("{ip}<{port}> x\n", at);

	ok(good == (*want != 0) && (!good || !strcmp(f.address, want)), "'%s' holds '%s'", at,
	   good ? f.address : "");
}

static void check_addresses(void)
{
	check_address("10.0.0.1<5> x", "10.0.0.1");
	check_address("fe80::1%eth0<5> x", "fe80::1");
	check_address("2001:db8::5<65535> x", "2001:db8::5");
	check_address("10.0.0.1<> x", "");
	check_address("10.0.0.256<5> x", "");
	check_address("10.0.0.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17<5> x", "");
	check_address("10.0.0.1<99999999999> x", "");
	check_address("", "");
	ok(fits("{ip}:{port} failed\n", "172.17.0.1:1025 failed") && f.port == 1025,
	   "an address, then a port");
	ok(fits("{loopback}]\n", "127.0.1.1]") && !fits("{loopback}]\n", "10.0.0.1]"),
	   "the loopback is one of its kind");
	ok(fits("{docker}]\n", "172.17.0.1]") && !fits("{docker}]\n", "172.16.0.1]"),
	   "docker's bridge is");
}

static void check_names(void)
{
	ok(fits("({host}, {port})\n", "(node-1.example, 29500)") && f.hosts == 1 &&
		   !strcmp(f.host[0], "node-1.example") && !*f.address,
	   "a host by its name");
	ok(fits("({host}, {port})\n", "(10.0.0.1, 29500)") && !strcmp(f.address, "10.0.0.1"),
	   "a host by its address");
	ok(fits("{local}:\n", "docker0:") && !strcmp(f.interface, "docker0"),
	   "a local interface");
	ok(!fits("{local}:\n", "eth0:") && !fits("{local}:\n", "lo:"), "two that are none");
	ok(fits("{value}\n", "  a b \r\nnext") && !strcmp(f.value, "a b"),
	   "the rest of a line");
	ok(fits("rank {rank} of {errno}\n", "rank 3 of 8") && f.rank == 3, "a rank");
}

static void check_gaps(void)
{
	char long_line[4000];

	ok(fits("{*} so {port}\n", "xx s so 7") && f.port == 7,
	   "a gap ends where it first can");
	ok(!fits("{*}end\n", "x\nend") && fits("{**}end\n", "x\nend"),
	   "a line's gap, a message's gap");
	ok(!fits("{**}end\n", "x\n-----\nend"), "no message goes over a line of dashes");
	ok(fits("{*}a b\n", "a a \n\t b"), "a blank in what ends a gap is any blank");
	memset(long_line, 'x', sizeof(long_line));
	memcpy(long_line + sizeof(long_line) - 4, "end", 4);
	ok(!fits("{*}end\n", long_line) && looked <= 1024, "%zu bytes are looked at, no more",
	   looked);
}

static void check_box(void)
{
	static const char box[] =
		" to a peer\n\n  Local host:          n1\n  Local PID: 5\n"
		"  Peer hostname:       n2 ([[1,1],0])\n"
		"  Source IP of socket: 10.0.0.9\n  Value: eth5 \n------\n Local host: n3\n";
	static const char marked[] = "\n[1,2]<stderr>:  Local host: n1\n[1,2]<stderr>:-----\n";

	fields_init(&f);
	fields_box(box, box + sizeof(box) - 1, &f, &looked);
	ok(f.hosts == 2 && !strcmp(f.host[0], "n1") && !strcmp(f.host[1], "n2"),
	   "hosts of a box");
	ok(!strcmp(f.address, "10.0.0.9") && !strcmp(f.value, "eth5"), "address and value");
	fields_init(&f);
	fields_box(marked, marked + sizeof(marked) - 1, &f, &looked);
	ok(f.hosts == 1 && !strcmp(f.host[0], "n1"), "a box with marks");
}

static void check_mark(const char *line, int want, const char *rest)
{
	int rank = -1;
	const char *p = fields_unmark(line, line + strlen(line), &rank);

	ok(rank == want && !strcmp(p, rest), "'%s': rank %d, then '%s'", line, rank, p);
}

int main(void)
{
	check_addresses();
	check_names();
	check_gaps();
	check_box();
	check_mark("[1,3]<stderr>:x", 3, "x");
	check_mark("[3]<stdout>:x", 3, "x");
	check_mark("[rank7]: x", 7, " x");
	check_mark("[default0]:x", 0, "x");
	check_mark("[worker-2]:    x", 2, "    x");
	check_mark("[worker-2] x", -1, "[worker-2] x");
	check_mark("[worker-x]: x", -1, "[worker-x]: x");
	check_mark("1: [10:14:03][rank 5] x", 5, " x");
	check_mark("1: 2026-03-11 10:00:01,120 [Rank 5]: x", 5, " x");
	check_mark("1: [10:14:03] [rank x", 1, "[10:14:03] [rank x");
	check_mark("1: 12 of 20", 1, "12 of 20");
	check_mark("[1,0]<stderr>:[rank5]: x", 5, " x");
	check_mark("[default3]:[rank11]: x", 11, " x");
	check_mark("1: [rank9]:x", 9, "x");
	check_mark("1: [rank]: x", 1, "[rank]: x");
	check_mark("[1,2]<stderr>:[rank", 2, "[rank");
	check_mark("12: x", 12, "x");
	check_mark("[node:5] x", -1, "[node:5] x");
	check_mark("[1,", -1, "[1,");
	check_mark("", -1, "");
	return tap_done();
}
