/* test_deadlock.c - all ranks wait for each other: told and ended, if it is certain. */
/* SPDX-License-Identifier: Apache-2.0 */
/* needs: waits */
#include <stdbool.h>
#include <sys/mman.h>

#include "base/clock.h"

#include "family.h"
#include "tap.h"

/* All cases run at the same time, each in processes of its own: most of it is waiting. */
enum { SIZE = 3, GRACE_MS = 2000, CALM_MS = 5000, HANG_MS = 200000 };

static struct ringup *job;
static struct ringup_group *world;
static float data[4000];

static struct ringup_reduce sum_of(const char *name, uint64_t count)
{
	return (struct ringup_reduce){
		.name = name, .in = data, .out = data, .count = count, .dtype = RINGUP_F32
	};
}

static int sum(const char *name, uint64_t count)
{
	struct ringup_reduce a = sum_of(name, count);

	return ringup_allreduce(world, &a, NULL);
}

static int receive(int from)
{
	struct ringup_recv a = { .out = data, .count = 4, .dtype = RINGUP_F32, .from = from };

	return ringup_recv(world, &a, NULL);
}

/* Does @rc tell of a deadlock, with these words? */
static int check(int rc, const char *one, const char *two)
{
	if (rc == RINGUP_EDEADLOCK &&
	    !strncmp(ringup_error(), "deadlock: all 3 ranks have ", 27) &&
	    strstr(ringup_error(), one) && strstr(ringup_error(), two))
		return 0;
	printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	return 1;
}

/* ---- what is a deadlock ---- */

static const char by_name[] = "; ranks match operations by name: use one name on all ranks";

static int names_small(void)
{
	return check(sum(family_rank == 1 ? "other" : "one", 1),
		     "ranks 0, 2 for allreduce one, rank 1 for allreduce other", by_name);
}

/* Of long names the ends are told. */
static int names_large(void)
{
	char name[400];

	memset(name, 'x', sizeof(name));
	snprintf(name + 60, 64, "/layer_%d/kernel", family_rank);
	return check(sum(name, 4000), "xx/layer_1/kernel, rank 2 for allreduce ...xxx",
		     by_name);
}

/* Waiting by pieces, as Python does, is one wait. */
static int slices(void)
{
	struct ringup_reduce a = sum_of(family_rank ? "other" : "one", 4);
	int64_t enough = clock_deadline(HANG_MS);
	struct ringup_op *op;
	int rc = ringup_allreduce(world, &a, &op);

	if (rc)
		return check(rc, "", "");
	do
		rc = ringup_wait_on(op, 50);
	while (rc == RINGUP_ETIMEDOUT && clock_ns() < enough);
	return check(rc, "rank 0 for allreduce one", by_name);
}

static int barrier(void)
{
	int rc = family_rank ? sum("one", 4) : ringup_barrier(world, "end", NULL);

	return check(rc, "rank 0 for barrier end, ranks 1, 2 for allreduce one",
		     "; start the same operations on all ranks");
}

static int group_add(void)
{
	static const int some[] = { 0, 1 };
	struct ringup_group *g;
	int rc = family_rank == 2 ? ringup_group_add(job, some, 2, &g) : sum("one", 4);

	return check(rc, "rank 2 for adding or removing a group",
		     "hvd.init(process_sets=[...])");
}

/* A group's operation against the world's. */
static int groups(void)
{
	static const int some[] = { 0, 1 };
	struct ringup_group *g;
	struct ringup_reduce a = sum_of("part", 4);
	int rc = ringup_group_add(job, some, 2, &g);

	if (rc)
		return check(rc, "", "");
	rc = family_rank ? sum("whole", 4) : ringup_allreduce(g, &a, NULL);
	return check(rc, "rank 0 for allreduce part", "start the same");
}

static int messages(void)
{
	return check(receive((family_rank + 1) % SIZE), "for receive from rank 1 with",
		     "; order sends and receives so that one can complete");
}

static int message_against_sum(void)
{
	int rc = family_rank == 1 ? receive(0) : sum("one", 4);

	return check(rc, "rank 1 for receive from rank 0 with tag 0",
		     "ranks 0, 2 for allreduce one");
}

/* Operations that nobody waits for do not matter. */
static int started_before(void)
{
	struct ringup_reduce a = sum_of("unwaited", 4);
	struct ringup_op *op;
	int rc = family_rank == 2 ? 0 : ringup_allreduce(world, &a, &op);

	return rc ? check(rc, "", "")
		  : check(sum(family_rank ? "other" : "one", 4), "rank 0 for allreduce one",
			  by_name);
}

static void *call_once(void *arg)
{
	*(int *)arg = sum("known", 4);
	return NULL;
}

/* A thread that has ended starts nothing any more. */
static int ended_thread(void)
{
	pthread_t t;
	int rc;

	pthread_create(&t, NULL, call_once, &rc);
	pthread_join(t, NULL);
	return rc || names_small();
}

/* ---- what is none: after a while it goes on ---- */

static int end_well(int rc)
{
	if (rc)
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	return rc != 0;
}

static int slow(void)
{
	if (family_rank == 1)
		clock_sleep_ms(CALM_MS);
	return end_well(sum("one", 4));
}

/* The others wait for rank 1, which waits for them with a deadline. */
static int deadline(void)
{
	struct ringup_reduce a = sum_of("other", 4);
	struct ringup_op *op;
	int rc = 0;

	if (family_rank == 1) {
		rc = ringup_allreduce(world, &a, &op);
		rc = rc ? rc : ringup_wait(op, CALM_MS) != RINGUP_ETIMEDOUT;
	}
	rc = rc ? rc : sum("one", 4);
	if (!rc && family_rank != 1)
		return end_well(sum("other", 4));
	return end_well(rc ? rc : ringup_wait(op, -1));
}

static int polling(void)
{
	struct ringup_reduce a = sum_of("other", 4);
	int64_t until = clock_deadline(CALM_MS);
	struct ringup_op *op;
	int rc = 0;

	if (family_rank == 1) {
		rc = ringup_allreduce(world, &a, &op);
		while (!rc && clock_ns() < until && !ringup_poll(op))
			clock_sleep_ms(1);
	}
	rc = rc ? rc : sum("one", 4);
	if (!rc && family_rank != 1)
		return end_well(sum("other", 4));
	return end_well(rc ? rc : ringup_wait(op, -1));
}

static void *call_again(void *arg)
{
	int *rc = arg;

	*rc = sum("known", 4);
	clock_sleep_ms(CALM_MS);
	if (!*rc)
		*rc = sum("one", 4);
	return NULL;
}

/* Another thread of rank 1, which has called before, is busy with something else. */
static int second_thread(void)
{
	pthread_t t;
	int rc, other = 0;

	if (family_rank == 1)
		pthread_create(&t, NULL, call_again, &other);
	else
		other = sum("known", 4);
	rc = family_rank != 1 && other ? other : sum(family_rank == 1 ? "other" : "one", 4);
	if (family_rank == 1)
		pthread_join(t, NULL);
	else if (!rc)
		rc = sum("other", 4);
	return end_well(rc ? rc : other);
}

/* ---- all cases ---- */

static const struct dead_case {
	const char *what;
	int (*body)(void);
} cases[] = {
	{ "two names for one sum, small", names_small },
	{ "two names for one sum, large", names_large },
	{ "a wait in slices", slices },
	{ "a barrier against a sum", barrier },
	{ "a group is added against a sum", group_add },
	{ "a group's sum against the world's", groups },
	{ "receives in a circle", messages },
	{ "a receive against a sum", message_against_sum },
	{ "what nobody waits for does not matter", started_before },
	{ "nor does a thread that has ended", ended_thread },
	{ "a slow rank is none", slow },
	{ "nor is a wait with a deadline", deadline },
	{ "nor is a rank that polls", polling },
	{ "nor is a rank of which another thread works", second_thread },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]), CASES_ALL = 2 * CASES };

static const struct dead_case *now;

static int body(void)
{
	int rc = family_join(&job), k;

	if (rc)
		return end_well(rc);
	world = ringup_world(job);
	for (k = 0; k < 3 && !rc && now->body != second_thread; k++)
		rc = sum("one", 1);
	rc = rc ? end_well(rc) : now->body();
	fflush(stdout);
	ringup_fini(job);
	return rc;
}

/* Begin a case, which prints to @out. */
static pid_t case_start(int i, int out)
{
	int status[SIZE], r, bad = 0;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	now = &cases[i % CASES];
	if (i >= CASES)
		setenv("RINGUP_BACKEND", "tcp", 1);
	family_run(SIZE, body, status);
	for (r = 0; r < SIZE; r++)
		bad |= status[r];
	family_end();
	_exit(bad != 0);
}

static void case_end(int i, pid_t pid, int out)
{
	char text[512];
	ssize_t n;
	off_t at;
	int status;

	waitpid(pid, &status, 0);
	for (at = 0; (n = pread(out, text, sizeof(text), at)) > 0; at += n)
		fwrite(text, 1, (size_t)n, stdout);
	close(out);
	ok(!status, "%s%s", i < CASES ? "" : "hosts: ", cases[i % CASES].what);
}

int main(void)
{
	int out[CASES_ALL], i;
	pid_t pid[CASES_ALL];

	setenv("RINGUP_DEADLOCK_MS", "2000", 1);
	for (i = 0; i < CASES_ALL; i++) {
		out[i] = memfd_create("case", MFD_CLOEXEC);
		pid[i] = case_start(i, out[i]);
	}
	for (i = 0; i < CASES_ALL; i++)
		case_end(i, pid[i], out[i]);
	return tap_done();
}
