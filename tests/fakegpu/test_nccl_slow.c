/* test_nccl_slow.c - groups end, fail and connect while the GPU is slow. */
/* needs: waits */
/* tests: src/backend src/device src/engine tests/fakegpu */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include <sys/wait.h>

#include "base/clock.h"
#include "fakegpu/fakenccl.h"

enum { COUNT = 100, SIZE = 3, LATE_MS = 30000, HANGS_MS = 60000 };

static struct {
	CUresult (*enqueue)(CUstream s, CUresult (*run)(void *arg), void *arg, int sms);
	uint64_t (*launched)(void);
	int (*names)(char (*names)[FAKE_NAME_BYTES], int most);
} fake;

/* The fakes are loaded by the library, or by nobody. */
static void fakes_find(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	void *nccl = dlopen("libnccl.so.2", RTLD_NOW);

	if (!cuda || !nccl)
		gpu_die("no fakes", 0);
	*(void **)&fake.enqueue = dlsym(cuda, "fake_cuda_enqueue");
	*(void **)&fake.launched = dlsym(cuda, "fake_cuda_launched");
	*(void **)&fake.names = dlsym(nccl, "fake_nccl_names");
}

static int64_t ms_since(int64_t then)
{
	return (clock_ns() - then) / 1000000;
}

static CUresult sleeps(void *arg)
{
	clock_sleep_ms(*(const int *)arg);
	return CUDA_SUCCESS;
}

/* Work of the program's own, which takes so long. */
static void work_ahead(struct gpu_seat *s, int ms)
{
	int *arg = malloc(sizeof(*arg));

	*arg = ms;
	if (fake.enqueue(s->stream, sleeps, arg, 0))
		gpu_die("fake_cuda_enqueue", 0);
}

/* Longer than any time limit of the back end's own for an end. */
static int ahead_ms(void)
{
	return getenv("RINGUP_TEST_LONG") ? 5000 : 2500;
}

static struct ringup_reduce sum_of(void *at, void *stream, const char *name)
{
	return (struct ringup_reduce){ .bytes = sizeof(struct ringup_reduce),
				       .name = name,
				       .in = at,
				       .out = at,
				       .count = COUNT,
				       .dtype = RINGUP_F32,
				       .memory = RINGUP_CUDA,
				       .stream = stream };
}

static void add_group(struct ringup *r, int rank, int size, struct ringup_group **g)
{
	int ranks[RANKS_MAX];

	for (int i = 0; i < size; i++)
		ranks[i] = i;
	check(!ringup_group_add(r, ranks, size, g), "a group", rank);
}

/* ---- ends while the GPU is busy ---- */

/* A sum of a group that is removed waits behind work of the program's own. */
static void removed(struct ringup *r, int rank, int size)
{
	struct ringup_group *gone = NULL, *other = NULL;
	struct gpu_seat s, t;
	struct ringup_reduce a, b;

	gpu_sit(&s, rank);
	gpu_sit(&t, rank);
	add_group(r, rank, size, &gone);
	add_group(r, rank, size, &other);
	a = sum_of(gpu_new(&s, COUNT * 4), s.stream, "slow");
	b = sum_of(gpu_new(&t, COUNT * 4), t.stream, "other");
	gpu_fill(&s, a.out, COUNT, 1);
	gpu_fill(&t, b.out, COUNT, 2);
	check(!ringup_allreduce(other, &b, NULL), "the other one works", rank);
	check(gpu_holds(&t, b.out, COUNT, 2 * (float)size), "and is right", rank);
	work_ahead(&s, ahead_ms());
	check(!ringup_allreduce(gone, &a, NULL), "is queued", rank);
	check(!ringup_group_remove(gone), "is removed", rank);
	check(gpu_holds(&s, a.out, COUNT, (float)size), "its result is right", rank);
	check(!ringup_group_error(other) && !ringup_group_error(ringup_world(r)),
	      "nobody else has failed", rank);
	gpu_fill(&t, b.out, COUNT, 3);
	check(!ringup_allreduce(other, &b, NULL) &&
		      gpu_holds(&t, b.out, COUNT, 3 * (float)size),
	      "the other one works on", rank);
	gpu_drop(&s, a.out);
	gpu_drop(&t, b.out);
	(void)t.d->stream_free(t.stream);
	(void)t.d->release(t.number);
	gpu_stand(&s);
}

struct late_user {
	struct ringup_op *op;
	void *at;
	int rank, size;
};

static void *use_late(void *arg)
{
	struct late_user *u = arg;
	struct gpu_seat s;

	gpu_sit(&s, u->rank);
	clock_sleep_ms(ahead_ms() / 3);
	check(!ringup_result_stream(u->op, s.stream) && !ringup_wait(u->op, -1),
	      "is waited for", u->rank);
	check(gpu_holds(&s, u->at, COUNT, (float)u->size), "its stream has the result",
	      u->rank);
	gpu_stand(&s);
	return NULL;
}

/* While a group is removed, another thread asks for its sum, for a stream of its own. */
static void removed_beside(struct ringup *r, int rank, int size)
{
	struct late_user u = { .rank = rank, .size = size };
	struct ringup_group *gone = NULL;
	struct ringup_reduce a;
	struct gpu_seat s;
	pthread_t thread;

	gpu_sit(&s, rank);
	add_group(r, rank, size, &gone);
	a = sum_of(u.at = gpu_new(&s, COUNT * 4), s.stream, "late");
	check(!ringup_allreduce(gone, &a, NULL) && gpu_sync(&s, 2000), "the group works", rank);
	gpu_fill(&s, a.out, COUNT, 1);
	work_ahead(&s, ahead_ms());
	check(!ringup_allreduce(gone, &a, &u.op), "is queued", rank);
	pthread_create(&thread, NULL, use_late, &u);
	while (!ringup_poll(u.op))
		;
	check(!ringup_group_remove(gone), "is removed", rank);
	pthread_join(thread, NULL);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

/* The job ends while its thread, which connects the world, looks at another group's flight. */
static void fails_beside(struct ringup *r, int rank, int size)
{
	static const int some[] = { 0, 1 };
	struct ringup_group *g = NULL;
	struct ringup_reduce a, b;
	struct gpu_seat s;

	(void)size;
	gpu_sit(&s, rank);
	check(!ringup_group_add(r, some, 2, &g), "a group", rank);
	a = sum_of(gpu_new(&s, COUNT * 4), s.stream, "in the air");
	b = sum_of(gpu_new(&s, COUNT * 4), s.stream, "connects");
	if (rank < 2) {
		check(!ringup_allreduce(g, &a, NULL), "the group works", rank);
		work_ahead(&s, ahead_ms());
		check(!ringup_allreduce(g, &a, NULL), "its sum is queued", rank);
	}
	check(!ringup_barrier(ringup_world(r), "all", NULL), "all are there", rank);
	check(ringup_allreduce(ringup_world(r), &b, NULL) == RINGUP_EABORTED &&
		      strstr(ringup_error(), "NCCL has not connected 3 ranks"),
	      "the world does not connect", rank);
	gpu_drop(&s, a.out);
	gpu_drop(&s, b.out);
	gpu_stand(&s);
}

static struct gpu_seat seats[SIZE];
static void *far[SIZE];

static void ends_at_once(struct ringup *r, int rank, int size)
{
	struct gpu_seat *s = &seats[rank];
	struct ringup_reduce a;

	(void)size;
	gpu_sit(s, rank);
	far[rank] = gpu_new(s, COUNT * 4);
	a = sum_of(far[rank], s->stream, "last");
	gpu_fill(s, far[rank], COUNT, 1);
	work_ahead(s, ahead_ms());
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "is queued", rank);
}

/* The job ends before its last sum has begun. */
static void ended(void)
{
	run("a job ends while its sum waits", SIZE, ends_at_once);
	for (int i = 0; i < SIZE; i++) {
		(void)seats[i].d->make_current(seats[i].context);
		ok(gpu_holds(&seats[i], far[i], COUNT, SIZE), "rank %d has the sum", i);
		gpu_drop(&seats[i], far[i]);
		gpu_stand(&seats[i]);
	}
}

/* ---- memory after an abort ---- */

static bool queued; /* operations have a stream: they end before the GPU is done */

/* As an allocator does that keeps what is freed, and hands it to another stream. */
static void reused(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = NULL;
	struct gpu_seat s, t;
	struct ringup_reduce a[2];
	struct ringup_op *op = NULL;
	int rc;

	gpu_sit(&s, rank);
	gpu_sit(&t, rank);
	add_group(r, rank, size, &g);
	for (int i = 0; i < 2; i++) {
		a[i] = sum_of(gpu_new(&s, COUNT * 4), queued ? s.stream : NULL, "packed");
		gpu_fill(&s, a[i].out, COUNT, 1);
	}
	check(gpu_sync(&s, 1000), "written", rank);
	check(!ringup_allreduce_many(g, a, 2, NULL), "a sum", rank);
	rc = ringup_allreduce_many(g, a, 2, &op);
	clock_sleep_ms(100);
	if (rank == 1)
		check(!ringup_group_abort(g), "an abort", rank);
	rc = rc ? rc : ringup_wait(op, -1);
	check(queued ? !rc || rc == RINGUP_EABORTED : rc == RINGUP_EABORTED, "the sum ends",
	      rank);
	while (!ringup_group_error(g))
		clock_sleep_ms(1);
	if (queued)
		check(gpu_sync(&s, 5000), "the stream goes on", rank);
	for (int i = 0; i < 2; i++)
		gpu_fill(&t, a[i].out, COUNT, 42);
	check(gpu_sync(&t, 5000), "new data", rank);
	clock_sleep_ms(300);
	for (int i = 0; i < 2; i++) {
		check(gpu_holds(&t, a[i].out, COUNT, 42), "nothing writes there any more",
		      rank);
		gpu_drop(&s, a[i].out);
	}
	check(!ringup_group_remove(g), "is removed", rank);
	(void)t.d->stream_free(t.stream);
	(void)t.d->release(t.number);
	gpu_stand(&s);
}

/* ---- ranks that do not connect ---- */

static int expected_code;
static const char *expected;
static bool by_messages; /* an alltoall, which connects in every version */

static int first_call(struct ringup *r, struct gpu_seat *s, void *at, int size)
{
	struct ringup_reduce a = sum_of(at, s->stream, "first");
	uint64_t splits[RANKS_MAX], counts[RANKS_MAX];
	void *out = NULL;
	struct ringup_exchange x = { .bytes = sizeof(x),
				     .name = "first",
				     .in = at,
				     .rows = (uint64_t)size,
				     .row = 1,
				     .dtype = RINGUP_F32,
				     .out = &out,
				     .splits = splits,
				     .counts = counts,
				     .into = (float *)at + COUNT / 2,
				     .into_bytes = COUNT / 2 * sizeof(float),
				     .memory = RINGUP_CUDA,
				     .stream = s->stream };

	for (int i = 0; i < size; i++)
		splits[i] = 1;
	return by_messages ? ringup_alltoall(ringup_world(r), &x, NULL)
			   : ringup_allreduce(ringup_world(r), &a, NULL);
}

static void not_connected(struct ringup *r, int rank, int size)
{
	int64_t since;
	struct gpu_seat s;
	void *at;
	int rc;

	gpu_sit(&s, rank);
	at = gpu_new(&s, COUNT * 4);
	check(!ringup_barrier(ringup_world(r), "all are here", NULL), "a barrier", rank);
	since = clock_ns();
	rc = first_call(r, &s, at, size);
	check(rc == expected_code && ms_since(since) < LATE_MS, "fails in time", rank);
	if (rc != expected_code || ms_since(since) >= LATE_MS)
		printf("# rank %d: %d after %d ms\n", rank, rc, (int)ms_since(since));
	check(strstr(ringup_error(), expected) && strstr(ringup_error(), "'first'"),
	      "by its reason and its name", rank);
	check(gpu_sync(&s, 2000), "the stream goes on", rank);
	gpu_drop(&s, at);
	gpu_stand(&s);
}

static void connects(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	void *at;

	gpu_sit(&s, rank);
	at = gpu_new(&s, COUNT * 4);
	gpu_fill(&s, at, COUNT, 1);
	check(gpu_sync(&s, 2000) && !first_call(r, &s, at, size) &&
		      (by_messages || gpu_holds(&s, at, COUNT, (float)size)) &&
		      gpu_sync(&s, 2000),
	      "works", rank);
	gpu_drop(&s, at);
	gpu_stand(&s);
}

/* Nothing has told the group this rank's GPU before: it waits for the stream all the same. */
static void moves_first(struct ringup *r, int rank, int size)
{
	uint64_t splits[RANKS_MAX], counts[RANKS_MAX];
	float host[RANKS_MAX];
	struct gpu_seat s;
	void *in, *into, *out = NULL;
	struct ringup_exchange x;

	gpu_sit(&s, rank);
	in = gpu_new(&s, COUNT * 4);
	into = gpu_new(&s, COUNT * 4);
	for (int i = 0; i < size; i++)
		splits[i] = 1;
	gpu_fill(&s, in, COUNT, 0);
	gpu_fill(&s, into, COUNT, 0);
	work_ahead(&s, 200);
	gpu_fill(&s, in, COUNT, (float)rank + 1);
	x = (struct ringup_exchange){ .bytes = sizeof(x),
				      .name = "first",
				      .in = in,
				      .rows = (uint64_t)size,
				      .row = 1,
				      .dtype = RINGUP_F32,
				      .out = &out,
				      .splits = splits,
				      .counts = counts,
				      .into = into,
				      .into_bytes = COUNT * sizeof(float),
				      .memory = RINGUP_CUDA,
				      .stream = s.stream };
	check(!ringup_alltoall(ringup_world(r), &x, NULL), "blocks", rank);
	check(gpu_get_bytes(&s, host, into, (size_t)size * sizeof(float)), "are there", rank);
	for (int i = 0; i < size; i++)
		check(host[i] == (float)i + 1, "what was written before", rank);
	gpu_drop(&s, in);
	gpu_drop(&s, into);
	gpu_stand(&s);
}

static void connections(const char *fault, int code, const char *text)
{
	expected_code = code;
	expected = text;
	setenv("FAKE_NCCL", fault, 1);
	run(fault, SIZE, not_connected);
	unsetenv("FAKE_NCCL");
	run("the next generation", SIZE, connects);
}

/* What depends on the version; before 2.22 a sum has its connections from the beginning. */
static void versions_part(bool lazy)
{
	connections("init_fails=1", RINGUP_EPEER, "system error");
	connections("init_hang=1", RINGUP_EABORTED, "NCCL has not connected");
	by_messages = true;
	connections("connect_hang=1", RINGUP_EABORTED, "NCCL has not connected");
	by_messages = false;
	if (lazy)
		connections("connect_hang=1", RINGUP_EABORTED, "NCCL has not connected");
	ok(gpu_nothing_left(), "nothing is left on the GPU");
}

/* This program once more, with another NCCL; what it finds are comments here. */
static void with_version(const char *version, char **argv)
{
	char line[1024];
	int status = 1, ends[2];
	pid_t child = -1;
	FILE *said;

	fflush(stdout);
	if (pipe(ends) || (child = fork()) < 0)
		gpu_die("no process", 0);
	if (!child) {
		alarm(HANGS_MS / 1000);
		unsetenv("GPU_RANKS_READY");
		setenv("GPU_RANKS_NCCL", version, 1);
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		execl("/proc/self/exe", argv[0], version, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	said = fdopen(ends[0], "r");
	while (said && fgets(line, sizeof(line), said))
		printf("# %s", line);
	if (said)
		fclose(said);
	(void)waitpid(child, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "the same with NCCL %s", version);
}

/* ---- what NCCL and the GPU are asked ---- */

enum { MANY = 170 };

/* 170 tensors are more than one launch takes. */
static void launches(struct ringup *r, int rank, int size)
{
	static uint64_t before; /* rank 0's */
	struct ringup_reduce a[MANY];
	struct gpu_seat s;
	float *all;

	gpu_sit(&s, rank);
	all = gpu_new(&s, (size_t)MANY * COUNT * 4);
	for (int i = 0; i < MANY; i++) {
		a[i] = sum_of(all + (size_t)i * COUNT, s.stream, "many");
		gpu_fill(&s, a[i].out, COUNT, 1);
	}
	check(gpu_sync(&s, 5000) && !ringup_barrier(ringup_world(r), "before", NULL), "ready",
	      rank);
	if (!rank)
		before = fake.launched();
	check(!ringup_barrier(ringup_world(r), "counted", NULL), "counted", rank);
	check(!ringup_allreduce_many(ringup_world(r), a, MANY, NULL), "a sum of many", rank);
	check(gpu_holds(&s, a[0].out, COUNT, (float)size) &&
		      gpu_holds(&s, a[MANY - 1].out, COUNT, (float)size),
	      "is right", rank);
	check(!ringup_barrier(ringup_world(r), "after", NULL), "done", rank);
	if (!rank && fake.launched() - before != (uint64_t)(4 * size)) {
		printf("# %llu launches\n", (unsigned long long)(fake.launched() - before));
		check(false, "two to pack and two to unpack, on each rank", rank);
	}
	gpu_drop(&s, all);
	gpu_stand(&s);
}

static int named(const char *what)
{
	char names[4 * SIZE][FAKE_NAME_BYTES];
	int n = fake.names(names, 4 * SIZE), found = 0;

	for (int i = 0; i < n; i++)
		found += !strncmp(names[i], what, strlen(what));
	return found;
}

/* NCCL's tools show the names of its communicators. */
static void has_names(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = NULL;
	struct ringup_reduce a;
	struct gpu_seat s;

	gpu_sit(&s, rank);
	add_group(r, rank, size, &g);
	a = sum_of(gpu_new(&s, COUNT * 4), s.stream, "named");
	check(!ringup_allreduce(ringup_world(r), &a, NULL) && !ringup_allreduce(g, &a, NULL) &&
		      !ringup_barrier(ringup_world(r), "both", NULL),
	      "two groups", rank);
	check(named("ringup world") == size && named("ringup group ") == size, "their names",
	      rank);
	check(!ringup_barrier(ringup_world(r), "seen", NULL) && gpu_sync(&s, 2000), "seen",
	      rank);
	check(!ringup_group_remove(g), "is removed", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

int main(int argc, char **argv)
{
	static const char *const most[] = { "2.18.3", "2.22.3", "2.25.1", "2.27.7", "2.30.7" };
	bool is_long = getenv("RINGUP_TEST_LONG") != NULL;

	gpu_main(argv);
	fakes_find();
	setenv("RINGUP_DEVICE_MS", "0", 1);
	setenv("RINGUP_START_TIMEOUT_MS", "1000", 1);
	if (argc > 1) {
		versions_part(strcmp(argv[1], "2.22") > 0);
		return tap_done();
	}
	versions_part(true);
	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++)
		if (is_long || i < 2)
			with_version(most[i], argv);
	run("blocks are a group's first operation", SIZE, moves_first);
	run("a launch for up to 160 tensors", SIZE, launches);
	run("names of communicators", SIZE, has_names);
	run("a group is removed while its sum waits", SIZE, removed);
	run("a group is removed while another thread wants its sum", SIZE, removed_beside);
	ended();
	setenv("FAKE_NCCL", "hang=1@2,frees_late", 1);
	setenv("FAKE_CUDA", "slow_kernel=100000", 1);
	for (int i = 0; i < 2; i++) {
		queued = i;
		run("memory that is used again after an abort", SIZE, reused);
	}
	setenv("FAKE_NCCL", "init_hang=2", 1);
	setenv("FAKE_CUDA", "slow_query=300000", 1);
	run("a job fails while its thread looks at another group", SIZE, fails_beside);
	unsetenv("FAKE_NCCL");
	unsetenv("FAKE_CUDA");
	run("a job without a fault", SIZE, connects);
	ok(gpu_nothing_left(), "nothing is left on the GPU");
	return tap_done();
}
