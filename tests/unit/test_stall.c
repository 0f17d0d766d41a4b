/* test_stall.c - a tensor that one rank does not submit: told, and fatal if asked. */
/* needs: waits */
#include <sys/mman.h>

#include "api/call.h"
#include "base/clock.h"

#include "family.h"
#include "tap.h"

/*
 * What is tested here is mostly waiting, and the limit has to be longer than a rank may wait
 * for a processor: so all cases run at the same time, each in a process of its own.
 */
enum { LAZY = 1, SIZE = 3, WORLD = 5, ABSENT = 3, LIMIT_MS = 5000, GAP_MS = 500 };

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
	setenv("RINGUP_STALL_ABORT_MS", late_ms ? "60000" : "5000", 1);
	return family_join(r);
}

static void hear_of_it(void)
{
	__atomic_fetch_add(&family->note[0], 1, __ATOMIC_SEQ_CST);
}

/* Submit nothing until @n others have heard that it has stalled. */
static void be_lazy(int n)
{
	int64_t enough = clock_deadline(200000);

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

/* What of @size ranks that do @of is not as it should be. */
static int ranks_bad(int size, int (*of)(void))
{
	int status[FAMILY_MAX], r, bad = 0;

	family_run(size, of, status);
	for (r = 0; r < size; r++)
		bad |= status[r];
	family_end();
	return bad;
}

static int stalled(void)
{
	return ranks_bad(SIZE, body);
}

static const char *alias; /* of what the lazy one submits instead; NULL: it has no name */

/* One rank submits the same under another name, so that all wait. */
static int named_apart(void)
{
	static float v[1000];
	struct ringup_reduce a = {
		.name = "missed", .in = v, .out = v, .count = count, .dtype = RINGUP_F32
	};
	char named[64];
	struct ringup *r;
	int rc, k;

	if (join_impatient(&r))
		return 2;
	if (family_rank == LAZY)
		a.name = alias;
	rc = ringup_allreduce(ringup_world(r), &a, NULL);
	snprintf(named, sizeof(named), "rank 1 calls it %s", alias ? alias : "#0");
	k = rc == RINGUP_EABORTED && strstr(ringup_error(), " has stalled for ") &&
	    strstr(ringup_error(), "rank 0 calls it missed") && strstr(ringup_error(), named) &&
	    strstr(ringup_error(), ": ranks match ");
	if (!k)
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	ringup_fini(r);
	return k ? 0 : 3;
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

	if (join_impatient(&r))
		return 2;
	for (k = 0; family_rank && k < 3 * LIMIT_MS / 2 / GAP_MS && !rc; k++) {
		clock_sleep_ms(GAP_MS);
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
	if (rc != RINGUP_EPEER || !strstr(ringup_error(), "allreduce 'new': rank 1 (process "))
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
	else
		rc = 0;
	ringup_fini(r);
	return rc ? 3 : 0;
}

static int adding_a_name(void)
{
	int status[FAMILY_MAX], r, good = 0;

	family_run(SIZE, dies_inside, status);
	for (r = 0; r < SIZE; r++)
		good += r == LAZY ? WIFSIGNALED(status[r]) : !status[r];
	family_end();
	return good != SIZE;
}

static int joined_here(void)
{
	return ranks_bad(SIZE, joined);
}

static int left_alone_here(void)
{
	return ranks_bad(SIZE, left_alone);
}

static int half_added_here(void)
{
	return ranks_bad(SIZE, half_added);
}

static int named_apart_here(void)
{
	alias = "other";
	return ranks_bad(SIZE, named_apart);
}

static int unnamed_here(void)
{
	return ranks_bad(SIZE, named_apart);
}

static int between_hosts(void)
{
	return ranks_bad(WORLD, in_groups);
}

/* ---- all cases ---- */

static const struct stall_case {
	const char *what;
	int (*bad)(void);
	uint64_t count;
	int late_ms;
	bool in_a_group, hosts;
} cases[] = {
	{ "late is not never, 1 element", stalled, 1, 200, false, false },
	{ "late is not never, 1000 elements", stalled, 1000, 200, false, false },
	{ "the waiting and the missing are named to all, 1 element", stalled, 1, 0, false,
	  false },
	{ "the waiting and the missing are named to all, 1000 elements", stalled, 1000, 0,
	  false, false },
	{ "who has joined waits while the others work", joined_here, 0, 0, false, false },
	{ "nobody joins him", left_alone_here, 0, 0, false, false },
	{ "a group that one rank does not ask for", half_added_here, 0, 0, false, false },
	{ "a rank that dies in the midst of adding a name is named", adding_a_name, 0, 0, false,
	  false },
	{ "a rank that dies in the midst of adding a name is named, in a group", adding_a_name,
	  0, 0, true, false },
	{ "one sum with two names: both are told", named_apart_here, 1, 0, false, false },
	{ "one sum with two names, 1000 elements", named_apart_here, 1000, 0, false, false },
	{ "one sum with and without a name", unnamed_here, 1, 0, false, false },
	{ "hosts: one sum with two names: both are told", named_apart_here, 1, 0, false, true },
	{ "hosts: one sum with and without a name", unnamed_here, 1, 0, false, true },
	{ "in a group between hosts all are named, as the world counts", between_hosts, 0, 0,
	  false, true },
	{ "hosts: who has joined waits while the others work", joined_here, 0, 0, false, true },
	{ "hosts: nobody joins him", left_alone_here, 0, 0, false, true },
	{ "hosts: a group that one rank does not ask for", half_added_here, 0, 0, false, true },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* Begin a case, which prints to @out. */
static pid_t case_start(const struct stall_case *c, int out)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	count = c->count;
	late_ms = c->late_ms;
	inside_a_group = c->in_a_group;
	if (c->hosts)
		setenv("RINGUP_BACKEND", "tcp", 1);
	_exit(c->bad() != 0);
}

static void case_end(const struct stall_case *c, pid_t pid, int out)
{
	char text[512];
	ssize_t n;
	off_t at;
	int status;

	waitpid(pid, &status, 0);
	for (at = 0; (n = pread(out, text, sizeof(text), at)) > 0; at += n)
		fwrite(text, 1, (size_t)n, stdout);
	close(out);
	ok(!status, "%s", c->what);
}

int main(void)
{
	int out[CASES], i;
	pid_t pid[CASES];

	for (i = 0; i < CASES; i++) {
		out[i] = memfd_create("case", MFD_CLOEXEC);
		pid[i] = case_start(&cases[i], out[i]);
	}
	for (i = 0; i < CASES; i++)
		case_end(&cases[i], pid[i], out[i]);
	return tap_done();
}
