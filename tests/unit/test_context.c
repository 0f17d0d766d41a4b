/* test_context.c - ranks as processes: where they are, starting again, failing together. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "asks.h"
#include "backend/backend.h"
#include "family.h"
#include "tap.h"

static int complain(const char *what)
{
	printf("# rank %d: %s: %s\n", family_rank, what, ringup_error());
	return 1;
}

static int places(void)
{
	struct ringup *r;

	if (family_join(&r))
		return complain("init");
	if (ringup_local_rank(r) != family_rank || ringup_local_size(r) != family->size ||
	    ringup_host_rank(r) != 0 || ringup_host_count(r) != 1 || !ringup_is_homogeneous(r))
		return complain("place");
	if (ringup_rank(ringup_world(r)) != family_rank)
		return complain("rank");
	ringup_fini(r);
	return 0;
}

static int again(void)
{
	struct ringup *r;
	int k;

	for (k = 0; k < 5; k++) {
		float v = 1;
		struct ringup_reduce a = ASK_REDUCE(NULL, &v, &v, 1, .dtype = RINGUP_F32);

		if (family_join(&r))
			return complain("init");
		if (ringup_allreduce(ringup_world(r), &a, NULL) || v != (float)family->size)
			return complain("allreduce");
		ringup_fini(r);
	}
	return 0;
}

/* One rank asks for a back end that does not exist: rank 0's word counts. */
static int no_backend(void)
{
	struct ringup *r;
	int rc;

	setenv("RINGUP_BACKEND", family_rank ? "" : "pigeons", 1);
	rc = family_join(&r);
	if (rc != RINGUP_EINVAL || !strstr(ringup_error(), "pigeons"))
		return complain("a back end that does not exist");
	return 0;
}

static int bad_setting(void)
{
	struct ringup *r;

	setenv("RINGUP_FUSION_BYTES", "lots", 1);
	if (family_join(&r) != RINGUP_EINVAL ||
	    !strstr(ringup_error(), "RINGUP_FUSION_BYTES=lots"))
		return complain("a setting that does not parse");
	return 0;
}

/* A job that nobody started has one rank. */
static int alone(void)
{
	struct ringup *r;
	double v[2] = { 3, 4 };
	struct ringup_reduce a = ASK_REDUCE(NULL, v, v, 2, .dtype = RINGUP_F64,
					    .redop = RINGUP_AVERAGE, .pre = 2);

	if (ringup_init(NULL, &r))
		return complain("init");
	if (ringup_size(ringup_world(r)) != 1 ||
	    strcmp(ringup_backend(ringup_world(r)), backend_find("device") ? "device" : "self"))
		return complain("one rank");
	if (ringup_allreduce(ringup_world(r), &a, NULL) || v[0] != 6 || v[1] != 8)
		return complain("allreduce");
	ringup_fini(r);
	ringup_fini(NULL);
	return 0;
}

/* A data loader forks: its workers are no ranks, and harm nobody when they end. */
static int forked(void)
{
	struct ringup *r;
	float v = 1;
	struct ringup_reduce a = ASK_REDUCE("x", &v, &v, 1, .dtype = RINGUP_F32);
	int status;
	pid_t child;

	if (family_join(&r) || ringup_allreduce(ringup_world(r), &a, NULL))
		return complain("init");
	child = fork();
	if (child == 0) {
		int rc = ringup_allreduce(ringup_world(r), &a, NULL);

		ringup_fini(r);
		_exit(rc == RINGUP_ESHUTDOWN ? 0 : 1);
	}
	waitpid(child, &status, 0);
	v = 1;
	if (status || ringup_allreduce(ringup_world(r), &a, NULL) || v != (float)family->size)
		return complain("the parent goes on");
	ringup_fini(r);
	return 0;
}

static int join_with(struct ringup_set *sets, int count, struct ringup **r)
{
	struct ringup_init how = { .rank = family_rank,
				   .size = family->size,
				   .exchange = family_exchange,
				   .groups = sets,
				   .group_count = count };

	return ringup_init(&how, r);
}

/* Groups that are there from the start, one of them in an order of its own. */
static int with_groups(void)
{
	static const int all[] = { 0, 1, 2 }, some[] = { 2, 0 };
	struct ringup_set sets[] = { { all, 3 }, { some, 2 } };
	struct ringup *r;
	struct ringup_group *g;
	float v = (float)(family_rank + 1);
	struct ringup_reduce a = { .in = &v, .out = &v, .count = 1, .dtype = RINGUP_F32 };
	int at = family_rank == 1 ? -1 : family_rank == 2;

	if (join_with(sets, 2, &r))
		return complain("init");
	g = ringup_group_get(r, 2);
	if (!g || ringup_group_id(g) != 2 || ringup_size(ringup_group_get(r, 1)) != 3 ||
	    ringup_group_get(r, 3))
		return complain("the groups are there");
	if (ringup_size(g) != 2 || ringup_rank(g) != at)
		return complain("its ranks");
	if (family_rank == 1 ? ringup_allreduce(g, &a, NULL) != RINGUP_EINVAL
			     : ringup_allreduce(g, &a, NULL) || v != 4)
		return complain("a sum in it");
	if (family_rank == 1 ? v != 2 : v != 4)
		return complain("who is not in it has its own");
	ringup_fini(r);
	return 0;
}

/* A rank has other groups in mind, or one too few: all hear it, nobody waits. */
static int other_groups(void)
{
	static const int all[] = { 0, 1, 2 }, some[] = { 0, 1 }, none[] = { 0, 7 };
	struct ringup_set sets[] = { { all, 3 }, { family_rank == 2 ? all : some, 2 } };
	struct ringup_set bad = { none, 2 };
	struct ringup *r = NULL;

	sets[1].count = family_rank == 2 ? 3 : 2;
	if (join_with(sets, 2, &r) != RINGUP_EMISMATCH || r)
		return complain("another group on rank 2");
	if (join_with(&bad, 1, &r) != RINGUP_EINVAL || r)
		return complain("rank 7 of 3");
	if (join_with(NULL, 1, &r) != RINGUP_EINVAL || join_with(&bad, -1, &r) != RINGUP_EINVAL)
		return complain("no groups");
	return with_groups();
}

/* A rank has joined while another one asks for a group; once all have, it is there. */
static int asked_too_soon(void)
{
	struct ringup *r;
	struct ringup_group *g = NULL;
	int last;

	if (family_join(&r))
		return complain("init");
	if (family_rank == 0 &&
	    (ringup_group_add(r, (int[]){ 0, 1 }, 2, &g) != RINGUP_EMISMATCH || g ||
	     !strstr(ringup_error(), "rank 1 has joined")))
		return complain("no group from who has joined");
	if (ringup_join(ringup_world(r), &last, NULL))
		return complain("join");
	if (ringup_group_add(r, (int[]){ 0, 1 }, 2, &g) || ringup_group_id(g) != 1)
		return complain("a group after it");
	if (ringup_barrier(g, "x", NULL) || ringup_group_remove(g))
		return complain("what it is for");
	ringup_fini(r);
	return 0;
}

/* A rank has no descriptor left: all hear which one and why, and the next time it works. */
static int no_descriptor(void)
{
	struct rlimit was, none;
	struct ringup *r;
	struct ringup_group *g = NULL;
	int rc, all[] = { 0, 1, 2 }, free_fd;

	if (family_join(&r))
		return complain("init");
	free_fd = dup(1);
	close(free_fd);
	getrlimit(RLIMIT_NOFILE, &was);
	none = was;
	none.rlim_cur = (rlim_t)free_fd;
	if (family_rank == 1)
		setrlimit(RLIMIT_NOFILE, &none);
	rc = ringup_group_add(r, all, 3, &g);
	setrlimit(RLIMIT_NOFILE, &was);
	if (rc != RINGUP_ESYSTEM || g)
		return complain("a group without descriptors");
	if (family_rank != 1 && !strstr(ringup_error(), "rank 1: "))
		return complain("who it was");
	if (ringup_group_add(r, all, 3, &g) || ringup_barrier(g, "x", NULL))
		return complain("the next time");
	ringup_fini(r);
	return 0;
}

static struct ringup *to_abort;

/* Instead of libc's: the first time that this rank dials another, the job is over. */
int connect(int fd, const struct sockaddr *a, socklen_t len)
{
	if (to_abort && a->sa_family == AF_INET) {
		ringup_abort(to_abort, "because");
		to_abort = NULL;
	}
	return (int)syscall(SYS_connect, fd, a, len);
}

static int over_meanwhile(void)
{
	struct ringup *r;
	struct ringup_group *g;
	int rc;

	setenv("RINGUP_BACKEND", "tcp", 1);
	if (family_join(&r))
		return complain("init");
	if (family_rank == 2)
		to_abort = r;
	rc = ringup_group_add(r, (int[]){ 0, 1, 2 }, 3, &g);
	if (rc != RINGUP_EABORTED || strcmp(ringup_error(), "rank 2 aborted the job: because"))
		return complain("why there is no group");
	ringup_fini(r);
	return 0;
}

static int to_die;

/* Instead of libc's: a rank that dies when it would hand out its memory. */
int accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
	if (to_die)
		_exit(0);
	return (int)syscall(SYS_accept4, fd, a, len, flags);
}

/* The others hear of it by their watch, or where they wait for it: named it is in any case. */
static int dead_first(void)
{
	struct ringup *r;
	struct ringup_group *g;
	int rc;

	if (family_join(&r))
		return complain("init");
	to_die = family_rank == 0;
	rc = ringup_group_add(r, (int[]){ 0, 1, 2 }, 3, &g);
	if (rc != RINGUP_EPEER || !strstr(ringup_error(), "rank 0 (process "))
		return complain("who died");
	ringup_fini(r);
	return 0;
}

/* A sum of two waits for nobody but them, also while a plan of all stands still. */
static int beside_a_plan(void)
{
	enum { COUNT = 8 << 20, LATE_US = 50000, WAIT_US = 1000 };
	struct ringup *r;
	struct ringup_group *g;
	struct ringup_op *op;
	float *v = calloc(COUNT, sizeof(*v)), x = 1;
	struct ringup_reduce a = ASK_REDUCE("all", v, v, COUNT, .dtype = RINGUP_F32);
	struct ringup_reduce two = ASK_REDUCE("two", &x, &x, 1, .dtype = RINGUP_F32);
	int *note = (int *)family->note, i, rc = 0;

	if (!v || family_join(&r) || ringup_group_add(r, (int[]){ 0, 1 }, 2, &g))
		return complain("init");
	/* The second time on it is known. */
	for (i = 0; i < 3 && family_rank < 2; i++)
		rc |= ringup_allreduce(g, &two, NULL);
	__atomic_store_n(&note[2], family_rank == 2 ? (int)getpid() : note[2],
			 __ATOMIC_RELEASE);
	pthread_barrier_wait(&family->barrier);
	if (rc || ringup_allreduce(ringup_world(r), &a, &op))
		return complain("begin");
	if (family_rank == 2) {
		raise(SIGSTOP);
	} else {
		usleep(family_rank ? 0 : LATE_US);
		rc = ringup_allreduce(g, &two, NULL);
		__atomic_store_n(&note[family_rank], 1, __ATOMIC_RELEASE);
	}
	if (family_rank == 0) {
		for (i = 0; i < 5000 && !__atomic_load_n(&note[1], __ATOMIC_ACQUIRE); i++)
			usleep(WAIT_US);
		rc |= !__atomic_load_n(&note[1], __ATOMIC_ACQUIRE);
		kill((pid_t)note[2], SIGCONT);
	}
	if (rc || ringup_wait(op, -1))
		return complain("the sum of two");
	ringup_fini(r);
	free(v);
	return 0;
}

static int not_a_rank(void)
{
	struct ringup_init how = { .rank = 3, .size = 3 };
	struct ringup *r;

	if (ringup_init(&how, &r) != RINGUP_EINVAL)
		return complain("rank 3 of 3");
	return ringup_init(&how, NULL) != RINGUP_EINVAL;
}

static void check(const char *what, int size, int (*body)(void))
{
	int status[FAMILY_MAX], r, bad = 0;

	family_run(size, body, status);
	for (r = 0; r < size; r++)
		bad |= status[r];
	family_end();
	ok(!bad, "%s, %d processes", what, size);
}

int main(void)
{
	check("everybody knows where it is", 4, places);
	check("shut down and started again", 3, again);
	check("an unknown back end fails everywhere", 2, no_backend);
	check("a bad setting is an error", 1, bad_setting);
	check("a job of one", 1, alone);
	check("groups from the start", 3, with_groups);
	check("groups that differ, or cannot be", 3, other_groups);
	check("a group that is asked for too soon", 2, asked_too_soon);
	check("a group that a rank cannot have", 3, no_descriptor);
	check("a job that is over before the group is there", 3, over_meanwhile);
	check("the first rank dies before it hands out a group's memory", 3, dead_first);
	check("a small sum beside a plan that stands still", 3, beside_a_plan);
	check("no such rank", 1, not_a_rank);
	check("a child of fork", 2, forked);
	return tap_done();
}
