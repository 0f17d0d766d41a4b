/* test_failure.c - the first failure of a job: who is named, killed and whose status counts. */
#include "launch/failure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/output.h"
#include "ringup.h"
#include "tap.h"

enum { RANKS = 4 };

static struct failure f;
static int killed, killed_if_stopped, said;

static void describe(void *ctx, int rank, char *out, size_t size)
{
	(void)ctx;
	snprintf(out, size, "rank %d (pid %d) on h", rank, 100 + rank);
}

static void kill_rank(void *ctx, int rank, bool if_stopped)
{
	(void)ctx;
	*(if_stopped ? &killed_if_stopped : &killed) = rank;
}

/* What was said since the last call. */
static const char *lines(void)
{
	static char text[4096];
	ssize_t n;

	output_move(f.output);
	n = read(said, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static void begin(struct output *o)
{
	struct err e = { 0 };

	failure_close(&f);
	f.output = o;
	f.owner = (struct failure_owner){ describe, kill_rank, NULL };
	killed = killed_if_stopped = -1;
	if (failure_grow(&f, RANKS, &e))
		exit(1);
	for (int i = 0; i < RANKS; i++)
		failure_note(&f,
			     &(struct cause_note){ .number = (uint32_t)i,
						   .pid = 100 + (uint32_t)i,
						   .kind = CAUSE_JOIN,
						   .has_met_here = 1,
						   .rank = -1 },
			     "");
}

static void blames(int who, int rank, enum alarm_stillness stillness, int code, const char *why)
{
	failure_note(&f,
		     &(struct cause_note){ .number = (uint32_t)who,
					   .pid = 100 + (uint32_t)who,
					   .kind = CAUSE_BLAME,
					   .rank = rank,
					   .stillness = stillness,
					   .code = code },
		     why);
}

static void ends(int rank, int code, int status, const char *remark)
{
	failure_ended(&f, rank, 100 + rank, code, status, remark);
}

static void frozen(struct output *o)
{
	static const char why[] =
		"rank 2 (process 102 on h) has not moved for 10.0 s: it is stopped (state T)";
	const char *text;
	char reason[200];

	begin(o);
	blames(0, 2, ALARM_FROZEN, RINGUP_EPEER, why);
	text = lines();
	ok(killed == 2 && !strcmp(text, "ringup run: rank 2 (pid 102) on h has not moved for "
					"10.0 s: it is stopped (state T)\n"),
	   "a frozen rank is killed at once, by the sentence of others: %s", text);
	blames(1, 2, ALARM_FROZEN, RINGUP_EPEER, why);
	ok(!failure_look(&f, RANKS) && !*lines(), "it is named once; no rank has ended");
	ends(0, CLD_EXITED, 1, "");
	ends(2, CLD_KILLED, 9, "");
	failure_reason(&f, 2, reason, sizeof(reason));
	ok(!strcmp(reason, ", since it has not moved for 10.0 s: it is stopped (state T)"),
	   "to others: it was killed%s", reason);
	failure_reason(&f, 0, reason, sizeof(reason));
	ok(!*reason, "the launcher has not killed the others");
	ok(failure_look(&f, 2) == 137 && !*lines(), "its status counts, not a survivor's");
	/* In the kernel even SIGKILL does not end it. */
	begin(o);
	blames(0, 2, ALARM_FROZEN, RINGUP_EPEER, why);
	ends(0, CLD_EXITED, 1, "");
	ok(failure_look(&f, 0) == 137, "nor if it cannot be killed");
	lines();
}

static void silent(struct output *o)
{
	static const char why[] =
		"rank 3 (process 103 on h) has been silent for 15.0 s towards "
		"rank 0 on g: its process, its host or the network";
	const char *text;

	begin(o);
	blames(0, 3, ALARM_SILENT, RINGUP_EPEER, why);
	ok(killed == -1 && killed_if_stopped == 3 && !*lines(),
	   "a rank that is silent is killed only if it is stopped");
	ends(0, CLD_EXITED, 1, "");
	ok(!failure_look(&f, 3), "it has a moment to report what it sees");
	ends(3, CLD_EXITED, 4, "");
	ok(failure_look(&f, 2) == 4, "its status counts");
	text = lines();
	ok(!strcmp(text, "ringup run: rank 3 (pid 103) on h has been silent for 15.0 s towards "
			 "rank 0 on g: its process, its host or the network; it exited with "
			 "status 4\n"),
	   "%s", text);
	begin(o);
	blames(0, 3, ALARM_SILENT, RINGUP_EPEER, why);
	ends(3, CLD_KILLED, 9, ", since it was stopped (state T)");
	ok(failure_look(&f, 3) == 137 &&
		   strstr(lines(), "it was killed by signal 9 (Killed), since it was stopped "
				   "(state T)\n"),
	   "one that was stopped");
	begin(o);
	blames(0, 3, ALARM_SILENT, RINGUP_EPEER, why);
	ends(0, CLD_EXITED, 1, "");
	f.failed_ns = 1;
	text = failure_look(&f, 3) == 137 ? lines() : "";
	ok(killed == 3 && strstr(text, "rank 3 (pid 103) on h has been silent for 15.0 s"),
	   "one that has not ended is named, and killed: %s", text);
}

static void others(struct output *o)
{
	const char *text;

	begin(o);
	blames(0, 1, ALARM_MOVES, RINGUP_EABORTED, "rank 1 aborted the job: the loss is NaN");
	ends(0, CLD_EXITED, 1, "");
	ends(1, CLD_EXITED, 6, "");
	ok(failure_look(&f, 2) == 6, "a rank that aborts the job");
	text = lines();
	ok(!strcmp(text,
		   "ringup run: rank 1 (pid 101) on h exited with status 6: it aborted the "
		   "job: the loss is NaN\n"),
	   "%s", text);
	begin(o);
	blames(0, 1, ALARM_MOVES, RINGUP_ESYSTEM,
	       "rank 1 (process 101 on h): allreduce 'x': the GPU (7) is lost");
	ends(0, CLD_EXITED, 1, "");
	ends(1, CLD_EXITED, 6, "");
	ok(failure_look(&f, 2) == 6, "a rank on which the system has failed");
	text = lines();
	ok(!strcmp(text, "ringup run: rank 1 (pid 101) on h exited with status 6: allreduce "
			 "'x': the GPU (7) is lost\n"),
	   "%s", text);
	begin(o);
	blames(0, -1, ALARM_MOVES, RINGUP_EDEADLOCK, "all ranks wait for each other");
	ends(0, CLD_EXITED, 1, "");
	ok(failure_look(&f, 0) == 1 &&
		   strstr(lines(), "exited with status 1: all ranks wait for each other\n"),
	   "a failure of no single rank is told, too");
	begin(o);
	blames(0, 1, ALARM_MOVES, RINGUP_EPEER, "rank 1 (process 101 on h) died");
	ends(0, CLD_EXITED, 1, "");
	f.failed_ns = 1;
	ok(failure_look(&f, 3) == 1 && killed_if_stopped == 1, "a rank that does not end");
	text = lines();
	ok(!strncmp(text, "ringup run: rank 1 (pid 101) on h left the job and has not ended; ",
		    60),
	   "%s", text);
	begin(o);
	blames(0, 1, ALARM_MOVES, RINGUP_EPEER, "rank 1 (process 101 on h) died");
	ends(0, CLD_EXITED, 1, "");
	ends(1, CLD_KILLED, 9, "; out of memory on this host");
	failure_look(&f, 2);
	text = lines();
	ok(!strcmp(text,
		   "ringup run: rank 1 (pid 101) on h was killed by signal 9 (Killed); out "
		   "of memory on this host\n"),
	   "what the launcher has seen itself needs no witness: %s", text);
	failure_note(&f, &(struct cause_note){ .number = RANKS, .kind = CAUSE_JOIN }, "");
	ok(true, "a number that no rank has does no harm");
	ok(failure_until(&f) < INT64_MAX, "when to look again");
}

int main(void)
{
	struct err e = { 0 };
	struct output *o;
	int ends_[2];

	/* What is said goes to stderr. */
	if (pipe(ends_) || dup2(ends_[1], 2) < 0 || output_open(&o, RANKS, 0, NULL, &e))
		return 1;
	said = ends_[0];
	fcntl(said, F_SETFL, O_NONBLOCK);
	frozen(o);
	silent(o);
	others(o);
	failure_close(&f);
	failure_close(&f);
	output_close(o);
	return tap_done();
}
