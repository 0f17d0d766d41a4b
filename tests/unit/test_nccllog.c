/* test_nccllog.c - NCCL's log lines of several versions: who has not come, who is behind. */
#include <string.h>

#include "hang/nccllog.h"
#include "hang/ruling.h"

#include "tap.h"

#define START(rank)                                                                 \
	"node-a:" #rank "0:7 [" #rank "] NCCL INFO ncclCommInitRank comm 0x5" #rank \
	" rank " #rank " nranks 4 cudaDev 0 nvmlDev 0 busId 10 commId 0xaa - Init START\n"
#define COMPLETE(rank)                                                            \
	"node-a:" #rank "0:7 [" #rank "] NCCL INFO comm 0x5" #rank " rank " #rank \
	" nranks 4 cudaDev 0 busId 10 commId 0xaa - Init COMPLETE\n"
#define OP(rank, count)                                                                      \
	"[1," #rank "]<stdout>:node-a:" #rank "0:9 [0] NCCL INFO AllReduce: opCount " #count \
	" sendbuff 0x1 recvbuff 0x2 count 8 datatype 7 op 0 root 0 comm 0x5" #rank           \
	" [nranks=4] stream 0x3\n"
#define DESTROY(rank)                                                     \
	"node-a:" #rank "0:7 [0] NCCL INFO comm 0x5" #rank " rank " #rank \
	" nranks 4 cudaDev 0 busId 10 - Destroy COMPLETE\n"
#define ALL COMPLETE(0) COMPLETE(1) COMPLETE(2) COMPLETE(3)

struct row {
	const char *name, *log;
	enum ruling_kind kind;
	int culprit;
};

static const struct row table[] = {
	{ "a rank never came", START(0) START(1) START(3), RULING_INIT, 2 },
	{ "the same of NCCL 2.16, where the others have ended it",
	  COMPLETE(0) COMPLETE(1) COMPLETE(3), RULING_INIT, 2 },
	{ "all have begun", START(0) START(1) START(2) START(3) COMPLETE(0), RULING_UNSURE,
	  -1 },
	{ "all have ended, and there are no operations", ALL, RULING_UNSURE, -1 },
	{ "a rank is one behind, in hexadecimal",
	  ALL OP(0, 1f) OP(1, 1e) OP(2, 1f) OP(3, 1f) OP(0, 20) OP(2, 20) OP(3, 20),
	  RULING_BEHIND, 1 },
	{ "all are level", ALL OP(0, 5) OP(1, 5) OP(2, 5) OP(3, 5), RULING_UNSURE, -1 },
	{ "two against two", ALL OP(0, 5) OP(1, 5) OP(2, 6) OP(3, 6), RULING_UNSURE, -1 },
	{ "a job that ended", ALL OP(0, 6) OP(1, 5) OP(2, 6) OP(3, 6) DESTROY(1), RULING_UNSURE,
	  -1 },
	{ "no line of NCCL", "hello\nnode:1:2 NCCL INFO\n NCCL INFO comm\n", RULING_UNSURE,
	  -1 },
};

int main(void)
{
	static struct ruling r;
	char line[512];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct nccllog l = { 0 };

		for (const char *at = table[i].log; *at; at += strcspn(at, "\n") + 1) {
			snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
			nccllog_line(&l, line);
		}
		nccllog_judge(&l, &r);
		ok(r.kind == table[i].kind &&
			   (table[i].culprit < 0
				    ? !r.culprits
				    : r.culprits == 1 && r.culprit[table[i].culprit]),
		   "%s: %s %s %s", table[i].name, ruling_name(r.kind), r.what, r.why);
		nccllog_free(&l);
	}
	return tap_done();
}
