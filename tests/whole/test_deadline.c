/* test_deadline.c - what is not complete in time says what it is and who is missing. */
/* tests: src/engine/submit.c src/engine/op.c src/engine/deadlock.c src/engine/watch.c */
#include <stdbool.h>

#include "asks.h"
#include "base/clock.h"
#include "base/pidstat.h"
#include "family.h"
#include "tap.h"

/*
 * Rank 1 stops as its own debugger would stop it.  The others start operations of every kind
 * and wait for a moment; then one lets rank 1 go on, which starts the same, and all complete.
 */
enum { SIZE = 3, LATE = 1, SHORT_MS = 30, LATE_MS = 120000, LARGE = 300000, KNOWN = 3 };

static struct ringup_group *g;
static bool is_far; /* each rank is a host of its own, so that only an answer tells of others */

static bool is_stopped(int pid)
{
	struct pidstat p;

	return !pidstat_read(pid, &p) && p.state == 'T';
}

static bool await_stopped(int pid)
{
	int64_t enough = clock_deadline(LATE_MS);

	while (!is_stopped(pid) && clock_ns() < enough)
		clock_sleep_ms(1);
	return is_stopped(pid);
}

/* A failure that is told where it can be read. */
static int fails(const char *what)
{
	printf("# rank %d: %s: %s\n", family_rank, what, ringup_explain());
	fflush(stdout);
	return 1;
}

static float *data;

static int start_sum(const char *name, uint64_t count, struct ringup_op **opp)
{
	struct ringup_reduce a = ASK_REDUCE(name, data, data, count, .dtype = RINGUP_F32);

	return ringup_allreduce(g, &a, opp);
}

/* From or to the rank that is late. */
static int start_message(bool is_send, uint64_t count, int tag, struct ringup_op **opp)
{
	static float v[SIZE][100000];
	int me = family_rank, other = me == LATE ? 0 : LATE;
	struct ringup_send a = {
		.in = v[0], .count = count, .dtype = RINGUP_F32, .to = other, .tag = tag
	};
	struct ringup_recv b = {
		.out = v[1], .count = count, .dtype = RINGUP_F32, .from = other, .tag = tag
	};

	return is_send == (me != LATE) ? ringup_send(g, &a, opp) : ringup_recv(g, &b, opp);
}

enum { OPS = 6 };

static int start_all(struct ringup_op **op)
{
	static void *rows;
	static uint64_t counts[SIZE];
	struct ringup_gather a =
		ASK_GATHER("rows", data, LARGE, 1, &rows, counts, .dtype = RINGUP_F32);

	op[4] = op[5] = NULL;
	return start_sum("step", 4, &op[0]) || start_sum("large", LARGE, &op[1]) ||
	       ringup_allgather(g, &a, &op[2]) || ringup_barrier(g, "end", &op[3]) ||
	       (family_rank < 2 && (start_message(true, 100000, 7, &op[4]) ||
				    start_message(false, 10, 8, &op[5])));
}

static const char *const name_of[OPS] = { "allreduce step",
					  "allreduce large",
					  "allgather rows",
					  "barrier end",
					  "send of 100000 f32 to rank 1 with tag 7",
					  "receive of 10 f32 from rank 1 with tag 8" };

/* Of what rank 1 has not started the others say so, and why.  Where all are late, the other one
 * may not answer in time, either. */
static int check_late(struct ringup_op *op, int i, int pid)
{
	const char *how = !is_far ? "it is stopped (state T)"
			  : i < 4 ? " does not answer"
			  : i < 5 ? " has not received it"
				  : " has not sent it";
	char who[64];

	if (ringup_wait(op, SHORT_MS) != RINGUP_ETIMEDOUT)
		return fails("it should be late");
	snprintf(who, sizeof(who), "rank 1 (process %d on ", pid);
	if (strstr(ringup_error(), "is not complete in time: "))
		return fails("ringup_error() has asked");
	if (strncmp(ringup_explain(), name_of[i], strlen(name_of[i])) ||
	    !strstr(ringup_explain(), "is not complete in time: ") ||
	    !((strstr(ringup_explain(), who) && strstr(ringup_explain(), how)) ||
	      (is_far && strstr(ringup_explain(), "do not answer"))))
		return fails("the sentence");
	return 0;
}

/* All but the late one, beside the library. */
static void meet_others(int at)
{
	__atomic_fetch_add(&family->note[at], 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&family->note[at], __ATOMIC_SEQ_CST) < SIZE - 1)
		clock_sleep_ms(1);
}

static int others(int pid)
{
	struct ringup_op *op[OPS];
	int i, bad = 0;

	if (!await_stopped(pid))
		return fails("rank 1 does not stop");
	if (start_all(op))
		return fails("start");
	meet_others(4);
	for (i = 0; i < OPS; i++)
		bad |= op[i] && check_late(op[i], i, pid);
	meet_others(5);
	kill(pid, SIGCONT);
	for (i = 0; i < OPS; i++)
		if (op[i] && ringup_wait(op[i], -1))
			bad |= fails("in the end");
	return bad;
}

static int late(void)
{
	struct ringup_op *op[OPS];
	int i, bad = 0;

	raise(SIGSTOP);
	if (start_all(op))
		return fails("start");
	for (i = 0; i < OPS; i++)
		if (op[i] && ringup_wait(op[i], -1))
			bad |= fails("in the end");
	return bad;
}

static int body(void)
{
	struct ringup *r = NULL;
	int k, rc;

	family->note[family_rank] = (int)getpid();
	data = calloc(LARGE, sizeof(*data));
	if (family_join(&r))
		return fails("join");
	g = ringup_world(r);
	/* One of them is known, and small. */
	for (k = 0; k < KNOWN; k++)
		if (start_sum("step", 4, NULL))
			return fails("the first steps");
	rc = family_rank == LATE ? late() : others(family->note[LATE]);
	ringup_fini(r);
	free(data);
	return rc;
}

static void run_all(const char *where)
{
	int status[SIZE], r, bad = 0;

	/* A rank that stands still for half a minute is not dead here. */
	family_run(SIZE, body, status);
	for (r = 0; r < SIZE; r++)
		bad += status[r] != 0;
	ok(!bad,
	   "%s: each kind of operation names the rank that is stopped, and completes later",
	   where);
	family_end();
}

int main(void)
{
	run_all("one host");
	is_far = true;
	setenv("RINGUP_BACKEND", "tcp", 1);
	run_all("each rank a host of its own");
	return tap_done();
}
