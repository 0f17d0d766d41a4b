/* test_procs.c - last lines and steps of each process, read piece by piece. */
#include "diagnose/procs.h"

#include <stdio.h>
#include <string.h>

#include "tap.h"

static struct procs *procs;

/* Reads the log in pieces of @room bytes, each of which begins where the last one ended. */
static void read_in_pieces(const char *log, size_t room)
{
	size_t len = strlen(log), to;
	long line = 1;

	procs_reset(procs);
	procs_begin(procs, 0, "job.log");
	for (size_t from = 0; from < len; from = to) {
		to = from + room < len ? from + room : len;
		for (size_t i = from; i < to; i++)
			line += log[i] == '\n';
		procs_read(procs, &(struct procs_piece){ log, from, to, 0, line, to == len });
	}
	procs_finish(procs);
}

static void check_pieces(void)
{
	static char log[64 << 10];
	const struct proc *p;
	char *at = log;
	int n;

	for (int step = 0; step < 100; step++)
		for (int rank = 0; rank < 8; rank++)
			if (rank != 5 || step < 60)
				at += snprintf(at, 64, "[rank%d] step %d\n", rank, step);
	for (size_t room = 100; room < sizeof(log); room *= 4) {
		read_in_pieces(log, room);
		p = procs_list(procs, &n);
		ok(n == 8 && p[0].step == 99 && p[7].step == 99 && p[7].last[0].line == 760 &&
			   !strcmp(p[7].last[0].text, "[rank7] step 99") && p[5].step >= 55,
		   "pieces of %zu bytes: the last lines are these, and rank 5 is behind", room);
	}
	ok(p[5].step == 59 && p[5].last[0].line == 478, "read at once, all of it is exact");
	ok(procs_went_on(procs, 0, 5, 0) == PROCS_STEPS, "rank 5 went on after the beginning");
	ok(!procs_went_on(procs, 0, 5, p[5].last[0].at), "and not after its last line");
	ok(procs_went_on(procs, 0, -1, p[5].last[0].at) == PROCS_STEPS, "others did");
}

static void check_mark(const char *line, int rank, const char *host)
{
	char log[256];
	const struct proc *p;
	int n;

	snprintf(log, sizeof(log), "%s\n", line);
	read_in_pieces(log, sizeof(log));
	p = procs_list(procs, &n);
	ok(n == 1 && p->rank == rank && !strcmp(p->host, host), "'%s': rank %d, '%s'", line,
	   rank, host);
}

int main(void)
{
	static const char line[] = "x";
	ok(!procs_open(&procs, NULL), "there is memory");
	check_pieces();
	check_mark("[rank 3] x", 3, "");
	check_mark("[Rank 3]: x", 3, "");
	check_mark("3: x", 3, "");
	check_mark("[1,3]<stderr>:x", 3, "");
	check_mark("2026-03-11T10:00:00Z [rank3]: x", 3, "");
	check_mark("[pod/bert-worker-3/pytorch] x", -1, "bert-worker-3");
	check_mark("[pod/bert-worker-3/pytorch] [rank3]: x", 3, "bert-worker-3");
	check_mark("worker-3  | x", -1, "worker-3");
	check_mark("Nov 12 10:00:00 node-3 train[4711]: x", -1, "node-3");
	check_mark("(TrainWorker pid=41, ip=10.0.0.3) x", -1, "pid=41, ip=10.0.0.3");
	check_mark("[1]:", -1, "");
	check_mark("| a | b |", -1, "");
	check_mark("[core.py:632] x", -1, "");
	procs_begin(procs, 1, "logs/rank-7.log");
	ok(procs_find(procs, 1, line, line + 1)->rank == 7, "a log's name states a rank");
	procs_begin(procs, 2, "/tmp/run/attempt_0/3/stderr.log");
	ok(procs_find(procs, 2, line, line + 1)->rank == 3, "so does a folder of torchrun's");
	procs_begin(procs, 2, "3/stdout.log");
	ok(procs_find(procs, 2, line, line + 1)->rank == 3, "the first one of a path, too");
	procs_begin(procs, 2, "/stderr.log");
	ok(procs_find(procs, 2, line, line + 1)->rank == -1, "the root is no rank's");
	procs_begin(procs, 2, "run//stderr.log");
	ok(procs_find(procs, 2, line, line + 1)->rank == -1, "nor is a folder without a name");
	procs_begin(procs, 2, "run3/stderr.log");
	ok(procs_find(procs, 2, line, line + 1)->rank == -1, "or of another one");
	procs_begin(procs, 3, "29-rank0-tokenizes.log");
	ok(procs_find(procs, 3, line, line + 1)->rank == -1, "a word in a name does not");
	procs_close(procs);
	return tap_done();
}
