/* test_blame.c - a time-out names the ranks that were missing then, whatever happens next. */
/* tests: src/engine src/wire */
/* SPDX-License-Identifier: Apache-2.0 */
/* needs: waits */
#include <signal.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/pidstat.h"
#include "family.h"
#include "tap.h"

/*
 * Rank 1 stays away from one operation.  The others miss a deadline, all of them, before the
 * first asks why.  Then either that one ends the job, or rank 1 comes after all; and only then
 * do the others ask.
 */
enum { SIZE = 4, ABSENT = 1, SHORT_MS = 30, HANG_MS = 200000, KNOWN = 3 };

static struct ringup_group *g;
static uint64_t count;
static bool ends, is_far;

/* Waits until @n ranks have come to note @at. */
static int meet(int at, int n)
{
	int64_t enough = clock_deadline(HANG_MS);

	while (__atomic_load_n(&family->note[at], __ATOMIC_SEQ_CST) < n && clock_ns() < enough)
		clock_sleep_ms(1);
	return __atomic_load_n(&family->note[at], __ATOMIC_SEQ_CST) < n;
}

static void come(int at)
{
	__atomic_fetch_add(&family->note[at], 1, __ATOMIC_SEQ_CST);
}

static int fails(const char *what)
{
	printf("# rank %d: %s: %s\n", family_rank, what, ringup_explain());
	return 1;
}

static int start(const char *name, struct ringup_op **op)
{
	static float v[1000];
	struct ringup_reduce a = {
		.name = name, .in = v, .out = v, .count = count, .dtype = RINGUP_F32
	};

	return ringup_allreduce(g, &a, op);
}

/* Is rank 1 blamed, and nobody else? */
static int check_blame(const char *text)
{
	char named[64];

	snprintf(named, sizeof(named), "rank %d (process %d on ", ABSENT, family->note[7]);
	if (!strncmp(text, "allreduce missed is not complete in time: ", 42) &&
	    strstr(text, named) && strstr(text, "has not started it") &&
	    !strstr(text, "have not started") && !strstr(text, "not answer"))
		return 0;
	printf("# rank %d: %s\n", family_rank, text);
	return 1;
}

/* Rank 1 may have come while the question was on its way. */
static int check_blame_or_none(const char *text)
{
	return is_far && strstr(text, "all ranks have started it") ? 0 : check_blame(text);
}

static int check_first(struct ringup *r)
{
	char text[600];

	snprintf(text, sizeof(text), "%s", ringup_explain());
	if (check_blame(text))
		return 1;
	if (ends)
		ringup_abort(r, text);
	return 0;
}

static int wait_in_vain(struct ringup *r)
{
	int64_t enough = clock_deadline(HANG_MS);
	struct ringup_op *op;
	int bad = 0;

	if (start("missed", &op))
		return fails("start");
	if (ringup_wait(op, SHORT_MS) != RINGUP_ETIMEDOUT)
		return fails("it should be late");
	come(0);
	if (meet(0, SIZE - 1))
		return fails("the others are not late");
	if (family_rank == 0 && ends)
		bad = check_first(r);
	come(1);
	/* Now it ends, well or badly, before this rank asks. */
	while (!ringup_poll(op) && clock_ns() < enough)
		clock_sleep_ms(1);
	if (family_rank || !ends)
		bad = (ends ? check_blame : check_blame_or_none)(ringup_explain());
	come(2);
	return bad | ((ringup_wait(op, HANG_MS) != 0) != ends);
}

static int stay_away(void)
{
	if (meet(1, ends ? 1 : SIZE - 1))
		return fails("the others are not late");
	if (!ends && start("missed", NULL))
		return fails("in the end");
	return meet(2, SIZE - 1);
}

static int body(void)
{
	struct ringup *r;
	int k, rc;

	if (family_rank == ABSENT)
		family->note[7] = (int)getpid();
	if (family_join(&r))
		return fails("join");
	g = ringup_world(r);
	for (k = 0; k < KNOWN; k++)
		if (start("missed", NULL))
			return fails("the first steps");
	rc = family_rank == ABSENT ? stay_away() : wait_in_vain(r);
	ringup_fini(r);
	return rc;
}

static void blame(const char *where, uint64_t elements, bool first_ends)
{
	int status[SIZE], r, bad = 0;

	count = elements;
	ends = first_ends;
	family_run(SIZE, body, status);
	for (r = 0; r < SIZE; r++)
		bad += status[r] != 0;
	ok(!bad, "%s, %d elements: %s", where, (int)elements,
	   ends ? "one ends the job, and the others name the same rank"
		: "the missing rank comes, and is named all the same");
	family_end();
}

/* Is process @pid stopped, in the end? */
static bool is_stopped(int pid)
{
	int64_t enough = clock_deadline(HANG_MS);
	struct pidstat p = { 0 };

	while (clock_ns() < enough && p.state != 'T') {
		clock_sleep_ms(1);
		if (pidstat_read(pid, &p))
			return false;
	}
	return p.state == 'T';
}

/* Rank 0 has started the operation, and stops before the others start it. */
static int start_and_stop(struct ringup *r)
{
	struct ringup_op *op;
	int rc = start("held", &op);

	family->note[7] = (int)getpid();
	raise(SIGSTOP);
	rc = rc ? rc : ringup_wait(op, HANG_MS);
	ringup_fini(r);
	return rc != 0;
}

static int await_stopped(struct ringup *r)
{
	struct ringup_op *op;
	char named[64];
	int bad;

	while (!family->note[7])
		clock_sleep_ms(1);
	if (!is_stopped(family->note[7]) || start("held", &op))
		return fails("start");
	bad = ringup_wait(op, SHORT_MS) != RINGUP_ETIMEDOUT;
	snprintf(named, sizeof(named), "rank 0 (process %d on ", family->note[7]);
	bad |= !strstr(ringup_explain(), named) ||
	       !strstr(ringup_explain(), " has started it, and ") ||
	       !strstr(ringup_explain(), "is stopped (state T)");
	if (bad)
		fails("rank 0 is not blamed");
	come(0);
	if (!meet(0, SIZE - 1))
		kill(family->note[7], SIGCONT);
	bad |= ringup_wait(op, HANG_MS) != 0;
	ringup_fini(r);
	return bad;
}

static int stopped_body(void)
{
	struct ringup *r;

	if (family_join(&r))
		return fails("join");
	g = ringup_world(r);
	return family_rank ? await_stopped(r) : start_and_stop(r);
}

static void blame_stopped(void)
{
	int status[SIZE], r, bad = 0;

	count = 1000;
	family_run(SIZE, stopped_body, status);
	for (r = 0; r < SIZE; r++)
		bad += status[r] != 0;
	ok(!bad, "rank 0 has started it and is stopped: it is named, with its state");
	family_end();
}

int main(void)
{
	setenv("RINGUP_LIVENESS", "off", 1);
	blame_stopped();
	for (int k = 0; k < 4; k++)
		blame("one host", k % 2 ? 1000 : 1, k / 2);
	is_far = true;
	setenv("RINGUP_BACKEND", "tcp", 1);
	for (int k = 0; k < 4; k++)
		blame("each rank a host of its own", k % 2 ? 1000 : 1, k / 2);
	return tap_done();
}
