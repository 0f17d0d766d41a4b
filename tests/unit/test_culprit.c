/* test_culprit.c - the first rank that failed, whatever the order in which ranks end. */
#include "launch/culprit.h"

#include <string.h>
#include <sys/wait.h>

#include "tap.h"

enum { RANKS = 4 };

static struct culprit_end ends[RANKS];
static unsigned order;

static void start(void)
{
	int i;

	order = 0;
	for (i = 0; i < RANKS; i++)
		ends[i] = (struct culprit_end){ .cause = { .joined = true, .rank = -1 } };
}

static void ended(int rank, int code, int status, bool left, int because)
{
	ends[rank] = (struct culprit_end){
		.ended = true,
		.code = code,
		.status = status,
		.order = ++order,
		.cause = { .joined = true, .left = left, .has_met_here = true, .rank = because }
	};
}

static bool is(int rank, int awaited, int left)
{
	struct culprit c = culprit_find(ends, RANKS);

	return c.rank == rank && c.awaited == awaited && c.left == left;
}

static int64_t patience(void)
{
	struct culprit c = culprit_find(ends, RANKS);

	return culprit_patience_ms(&c, ends);
}

static void one_by_one(void)
{
	start();
	ok(is(-1, -1, -1), "no rank has failed");
	ended(0, CLD_EXITED, 0, true, -1);
	ok(is(-1, -1, -1), "nor has one that ended well");
	ended(2, CLD_EXITED, 3, false, -1);
	ok(is(2, -1, -1) && patience() == CULPRIT_SECOND_LOOK_MS,
	   "one that exits with a status may have been preceded");
	ended(1, CLD_KILLED, 9, false, -1);
	ok(is(1, -1, -1) && patience() == 0, "by one that was killed, for instance");
	start();
	ended(1, CLD_EXITED, 3, false, -1);
	ended(0, CLD_EXITED, 4, false, -1);
	ok(is(1, -1, -1), "of equal ones the one that ended first");
}

static void survivors(void)
{
	char text[128];

	start();
	ended(0, CLD_EXITED, 1, true, 3);
	ok(is(0, 3, -1) && patience() == CULPRIT_AWAIT_MS,
	   "a survivor has ended before the one because of which it failed: that is awaited");
	ended(1, CLD_KILLED, 6, false, 3);
	ok(is(1, 3, -1) || is(0, 3, -1), "a signal makes no culprit of a survivor");
	ended(3, CLD_EXITED, 7, true, -1);
	ok(is(3, -1, -1) && patience() == 0 && culprit_status(&ends[3]) == 7,
	   "it was the culprit, and the status is its own");
	ended(2, CLD_KILLED, 11, false, -1);
	ok(is(3, -1, -1), "whatever others end of later");
	start();
	ended(0, CLD_EXITED, 1, false, 1);
	ended(1, CLD_EXITED, 1, true, 2);
	ended(2, CLD_EXITED, 5, true, -1);
	ok(is(2, -1, -1), "from one to the other");
	start();
	ended(0, CLD_EXITED, 1, true, 1);
	ended(1, CLD_EXITED, 0, false, -1);
	culprit_describe(&ends[1], text, sizeof(text));
	ok(is(1, -1, -1) && culprit_status(&ends[1]) == 1 &&
		   strstr(text, "without ringup_fini"),
	   "status 0 in the midst of the job is a failure: %s", text);
	start();
	ended(0, CLD_EXITED, 1, true, 1);
	ended(1, CLD_EXITED, 0, true, -1);
	ok(is(0, -1, 1), "a rank that left in order is none, but the reason");
}

static void elsewhere(void)
{
	start();
	ended(0, CLD_EXITED, 1, true, 1);
	ended(1, CLD_EXITED, 0, false, -1);
	ends[1].cause.has_met_here = false;
	ends[1].cause.pid = 7;
	ends[1].pid = 8;
	ok(is(0, -1, 1), "a process that a rank had started may die without the rank");
	ends[1].pid = 7;
	ok(is(1, -1, -1), "the rank itself may not");
}

static void still(void)
{
	static const enum alarm_stillness how[] = { ALARM_SILENT, ALARM_FROZEN };
	struct culprit c;

	for (int i = 0; i < 2; i++) {
		start();
		ended(0, CLD_EXITED, 1, true, 2);
		ends[0].cause.stillness = how[i];
		c = culprit_find(ends, RANKS);
		ok(is(0, 2, -1) && c.stillness == how[i] && patience() == CULPRIT_SILENT_MS,
		   "a rank that does not move is not awaited for long");
	}
	start();
	ended(0, CLD_EXITED, 1, true, 2);
	ended(2, CLD_EXITED, 4, true, 0);
	ok(is(0, -1, -1), "of two that blame each other, the one that ended first");
}

static void nonsense(void)
{
	start();
	ended(0, CLD_EXITED, 1, false, 1);
	ended(1, CLD_EXITED, 1, false, 0);
	ok(culprit_find(ends, RANKS).rank >= 0, "two that blame each other end the search");
	start();
	ended(0, CLD_EXITED, 1, false, RANKS + 5);
	ok(is(0, -1, -1), "a rank that there is not counts for nothing");
	ended(1, CLD_EXITED, 1, false, 1);
	ok(is(0, -1, -1), "nor does a rank that blames itself");
}

int main(void)
{
	one_by_one();
	survivors();
	elsewhere();
	still();
	nonsense();
	return tap_done();
}
