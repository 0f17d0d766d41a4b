/* test_origin.c - rank, host and time, as each program writes them. */
#include "diagnose/origin.h"

#include <string.h>

#include "tap.h"

static void check(const char *line, int rank, const char *host, int64_t time)
{
	struct origin o;

	origin_read(&o, line, strlen(line));
	ok(o.rank == rank && !strcmp(o.host, host) && o.time == time,
	   "'%s': rank %d, host '%s', time %lld", line, o.rank, o.host, (long long)o.time);
}

static void check_above(const char *log, int rank)
{
	const char *line = strchr(log, '\n') + 1;

	ok(origin_above(log, line) == rank, "'%s': rank %d above", log, rank);
}

int main(void)
{
	check("node-1:4711:4712 [0] NCCL INFO x", -1, "node-1", 0);
	check("[2026-11-20 23:39:21] node-1:47:48 [0] x", -1, "node-1", 1120233921000000);
	check("[1,2]<stderr>:[n2:18351] 1 more process", 2, "n2", 0);
	check("E20261120 23:39:21.970283 14247 socket.cpp:860] [c10d] x", -1, "",
	      1120233921970283);
	check("[W1120 23:39:21.9 socket.cpp:785] x", -1, "", 1120233921900000);
	check("2026-11-20T23:39:21.5Z [rank3]: x", 3, "", 1120233921500000);
	check("2026-11-20 23:39:21,123 INFO x", -1, "", 1120233921123000);
	check("Aug 22 10:01:11 node-7 train[4711]: x", -1, "", 822100111000000);
	check("Aug  2 10:01:11 node-7 train[4711]: x", -1, "", 802100111000000);
	check("Aux 22 10:01:11 node-7 train[4711]: x", -1, "", 0);
	check("10:20:30 x", -1, "", 0);
	check("[[59038,1],0] x", -1, "", 0);
	check("a/b.cc:12:34 x", -1, "", 0);
	check("", -1, "", 0);
	check_above("(TrainController pid=9014, ip=10.8.0.4) [Rank 3]\nOSError", 3);
	check_above("[Rank 13]\nTraceback", 13);
	check_above("[Rank 3] x\nOSError", -1);
	check_above("x [Rank 3]\nOSError", -1);
	check_above("[Rank 3][4]\nOSError", -1);
	check_above("]\nOSError", -1);
	check_above("\nOSError", -1);
	return tap_done();
}
