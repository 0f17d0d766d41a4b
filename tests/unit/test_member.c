/* test_member.c - ranks as processes: where they are, starting again, failing together. */
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
		struct ringup_reduce a = {
			.in = &v, .out = &v, .count = 1, .dtype = RINGUP_F32
		};

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
	struct ringup_reduce a = { .in = v,
				   .out = v,
				   .count = 2,
				   .dtype = RINGUP_F64,
				   .redop = RINGUP_AVERAGE,
				   .pre = 2 };

	if (ringup_init(NULL, &r))
		return complain("init");
	if (ringup_size(ringup_world(r)) != 1 ||
	    strcmp(ringup_backend(ringup_world(r)), "self"))
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
	struct ringup_reduce a = {
		.name = "x", .in = &v, .out = &v, .count = 1, .dtype = RINGUP_F32
	};
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
	check("no such rank", 1, not_a_rank);
	check("a child of fork", 2, forked);
	return tap_done();
}
