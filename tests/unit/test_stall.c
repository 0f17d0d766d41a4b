/* test_stall.c - a tensor that one rank does not submit: told, and fatal if asked. */
#include "api/context.h"
#include "base/clock.h"

#include "family.h"
#include "tap.h"

enum { LAZY = 1, SIZE = 3, WORLD = 5, ABSENT = 3 };

static uint64_t count;
static int late_ms; /* the lazy one submits after this; 0: never */

static int check(int rc)
{
	char named[64];

	snprintf(named, sizeof(named), "ranks 0, 2 of 3 wait for rank %d (process ", LAZY);
	if (rc == RINGUP_EABORTED && strstr(ringup_error(), named) &&
	    strstr(ringup_error(), "allreduce missed has stalled for "))
		return 0;
	printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	return 3;
}

/* Join a job that a stall ends: soon, unless somebody is only late. */
static int join_impatient(struct ringup **r)
{
	setenv("RINGUP_STALL_WARN_MS", "0", 1);
	setenv("RINGUP_STALL_ABORT_MS", late_ms ? "30000" : "1500", 1);
	return family_join(r);
}

static void hear_of_it(void)
{
	__atomic_fetch_add(&family->note[0], 1, __ATOMIC_SEQ_CST);
}

/* Submit nothing until @n others have heard that it has stalled. */
static void be_lazy(int n)
{
	int64_t enough = clock_deadline(60000);

	while (__atomic_load_n(&family->note[0], __ATOMIC_SEQ_CST) < n && clock_ns() < enough)
		clock_sleep_ms(10);
}

static int body(void)
{
	static float v[1000];
	struct ringup_reduce a = {
		.name = "missed", .in = v, .out = v, .count = count, .dtype = RINGUP_F32
	};
	struct ringup *r;
	int rc = 0, k;

	if (join_impatient(&r))
		return 2;
	for (k = 0; k < 5 && !rc; k++)
		rc = ringup_allreduce(ringup_world(r), &a, NULL);
	if (rc)
		return 4;
	if (family_rank == LAZY && late_ms)
		clock_sleep_ms(late_ms);
	else if (family_rank == LAZY)
		be_lazy(SIZE - 1);
	rc = ringup_allreduce(ringup_world(r), &a, NULL);
	hear_of_it();
	rc = late_ms ? rc : check(rc);
	ringup_fini(r);
	return rc;
}

static void stalled(const char *what, uint64_t n, int ms)
{
	int status[FAMILY_MAX], r, bad = 0;

	count = n;
	late_ms = ms;
	family_run(SIZE, body, status);
	for (r = 0; r < SIZE; r++)
		bad |= status[r];
	family_end();
	ok(!bad, "%s, %d elements", what, (int)n);
}

/* Groups whose numbers are not the world's, of which every rank is a host; what is late in
 * the one is no business of the other. */
static int in_groups(void)
{
	static const int left[] = { 1, 2, ABSENT, 4 }, right[] = { 0, 2, ABSENT };
	float v[1] = { 0 };
	struct ringup_reduce a = {
		.name = "missed", .in = v, .out = v, .count = 1, .dtype = RINGUP_F32
	};
	struct ringup_group *one, *other;
	struct ringup *r;
	int rc = 0, k;

	if (join_impatient(&r))
		return 2;
	if (ringup_group_add(r, right, 3, &other) || ringup_group_add(r, left, 4, &one))
		return 3;
	for (k = 0; k < 5 && !rc; k++) {
		rc = family_rank == 0 ? 0 : ringup_allreduce(one, &a, NULL);
		if (!rc && family_rank != 1 && family_rank != 4)
			rc = ringup_allreduce(other, &a, NULL);
	}
	if (rc)
		return 4;
	if (family_rank == 0 || family_rank == ABSENT) {
		/* After the others, so that this is not what has stalled first. */
		be_lazy(3);
		rc = ringup_barrier(ringup_world(r), NULL, NULL);
	} else {
		rc = ringup_allreduce(one, &a, NULL);
		hear_of_it();
	}
	k = rc == RINGUP_EABORTED &&
	    strstr(ringup_error(), "allreduce missed has stalled for ") &&
	    strstr(ringup_error(), "s: ranks 1, 2, 4 of 5 wait for rank 3 (process ");
	if (!k)
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	ringup_fini(r);
	return k ? 0 : 5;
}

/* A rank that has joined waits for the others as long as they like; they keep on working. */
static int joined(void)
{
	float v[1] = { 0 };
	struct ringup_reduce a = {
		.name = "goes on", .in = v, .out = v, .count = 1, .dtype = RINGUP_F32
	};
	struct ringup *r;
	int rc = 0, k, last;

	late_ms = 0;
	if (join_impatient(&r))
		return 2;
	for (k = 0; family_rank && k < 30 && !rc; k++) {
		clock_sleep_ms(100);
		rc = ringup_allreduce(ringup_world(r), &a, NULL);
	}
	if (!rc)
		rc = ringup_join(ringup_world(r), &last, NULL);
	if (rc)
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	ringup_fini(r);
	return rc ? 3 : 0;
}

/* Nobody comes to join him. */
static int left_alone(void)
{
	struct ringup *r;
	int rc, last, k;

	late_ms = 0;
	if (join_impatient(&r))
		return 2;
	if (family_rank == LAZY)
		be_lazy(SIZE - 1);
	rc = ringup_join(ringup_world(r), &last, NULL);
	k = rc == RINGUP_EABORTED && !strncmp(ringup_error(), "join has stalled for ", 21) &&
	    strstr(ringup_error(), "s: ranks 0, 2 of 3 wait for rank 1 (process ");
	if (!k)
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	hear_of_it();
	ringup_fini(r);
	return k ? 0 : 3;
}

/* A group that one rank does not ask for. */
static int half_added(void)
{
	static const int all[] = { 0, 1, 2 };
	struct ringup_group *g;
	struct ringup *r;
	int rc, k;

	late_ms = 0;
	if (join_impatient(&r))
		return 2;
	if (family_rank == LAZY)
		be_lazy(SIZE - 1);
	rc = ringup_group_add(r, all, 3, &g);
	k = rc == RINGUP_EABORTED &&
	    strstr(ringup_error(), "adding or removing a group has stalled for ") &&
	    strstr(ringup_error(), "s: ranks 0, 2 of 3 wait for rank 1 (process ");
	if (!k)
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	hear_of_it();
	ringup_fini(r);
	return k ? 0 : 3;
}

static void three_ranks(const char *what, int (*body_)(void))
{
	int status[FAMILY_MAX], r, bad = 0;

	family_run(SIZE, body_, status);
	for (r = 0; r < SIZE; r++)
		bad |= status[r];
	family_end();
	ok(!bad, "%s", what);
}

static bool inside_a_group;

/* One dies in the midst of adding a name, after the others have begun to wait for it. */
static int dies_inside(void)
{
	enum { LOOKS_MS = 1500 }; /* several looks of the thread that notices */
	static const int all[] = { 0, 1, 2 };
	float v = 1;
	struct ringup_reduce a = { .name = "known", .in = &v, .out = &v, .count = 1 };
	struct ringup_group *g;
	struct ringup *r;
	int rc;

	if (family_join(&r))
		return 2;
	g = ringup_world(r);
	if ((inside_a_group && ringup_group_add(r, all, SIZE, &g)) ||
	    ringup_allreduce(g, &a, NULL))
		return 2;
	if (family_rank == LAZY) {
		g->group->ledger.shared->lock = LAZY + 1;
		hear_of_it();
		clock_sleep_ms(LOOKS_MS);
		raise(SIGKILL);
	}
	be_lazy(1);
	a.name = "new";
	rc = ringup_allreduce(g, &a, NULL);
	if (rc != RINGUP_EPEER || strncmp(ringup_error(), "rank 1 (process ", 16) != 0)
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	else
		rc = 0;
	ringup_fini(r);
	return rc ? 3 : 0;
}

static void adding_a_name(bool in_a_group)
{
	int status[FAMILY_MAX], r, good = 0;

	inside_a_group = in_a_group;
	family_run(SIZE, dies_inside, status);
	for (r = 0; r < SIZE; r++)
		good += r == LAZY ? WIFSIGNALED(status[r]) : !status[r];
	family_end();
	ok(good == SIZE, "a rank that dies in the midst of adding a name is named%s",
	   in_a_group ? ", in a group" : "");
}

static void between_hosts(void)
{
	int status[FAMILY_MAX], r, bad = 0;

	setenv("RINGUP_BACKEND", "tcp", 1);
	family_run(WORLD, in_groups, status);
	for (r = 0; r < WORLD; r++)
		bad |= status[r];
	family_end();
	ok(!bad, "in a group between hosts all are named, as the world counts");
}

int main(void)
{
	stalled("late is not never", 1, 200);
	stalled("late is not never", 1000, 200);
	stalled("the waiting and the missing are named to all", 1, 0);
	stalled("the waiting and the missing are named to all", 1000, 0);
	three_ranks("who has joined waits while the others work", joined);
	three_ranks("nobody joins him", left_alone);
	three_ranks("a group that one rank does not ask for", half_added);
	adding_a_name(false);
	adding_a_name(true);
	between_hosts();
	three_ranks("hosts: who has joined waits while the others work", joined);
	three_ranks("hosts: nobody joins him", left_alone);
	three_ranks("hosts: a group that one rank does not ask for", half_added);
	return tap_done();
}
