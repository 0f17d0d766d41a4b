/* test_nccl_faults.c - NCCL and the GPU fail in every way: who says what, and how soon. */
/* needs: waits */
/* tests: src/backend src/device src/engine tests/fakegpu */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include "base/clock.h"

enum { COUNT = 100, DEADLINE_MS = 400, LATE_MS = 30000 };

static const char operation[] = "allreduce 'gradient'";
static const char *expected; /* in the sentence of each rank, as the operation is */
static int expected_code;
static enum ringup_redop redop;
static bool queued; /* operations have a stream: they end before the GPU is done */

static int64_t ms_since(int64_t then)
{
	return (clock_ns() - then) / 1000000;
}

/* Does the sentence say of which rank it is, and where that runs? */
static bool names_a_rank(const char *text)
{
	int rank, pid, n = 0;

	return sscanf(text, "rank %d (process %d on %*[^)]): %n", &rank, &pid, &n) == 2 && n &&
	       rank >= 0 && rank < 3 && pid > 1;
}

/* Sums until one fails, and at last says how. */
static void fails(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	float host[COUNT] = { 0 };
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "gradient",
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA };
	int64_t since = clock_ns();
	bool through;
	int rc = 0;

	(void)size;
	gpu_sit(&s, rank);
	a.in = a.out = gpu_new(&s, sizeof(host));
	a.redop = redop;
	a.stream = queued ? s.stream : NULL;
	for (int i = 0; !rc && ms_since(since) < LATE_MS; i++) {
		rc = ringup_allreduce(ringup_world(r), &a, NULL);
		clock_sleep_ms(5);
	}
	check(rc == expected_code, "the status", rank);
	check(strstr(ringup_error(), expected) != NULL, expected, rank);
	check(strstr(ringup_error(), operation) != NULL, operation, rank);
	check(names_a_rank(ringup_error()), "the rank, its process and its host", rank);
	/* The stream of the program goes on: no kernel of NCCL's holds it. */
	through = gpu_sync(&s, 2000);
	check(through, "the stream goes on", rank);
	check(ringup_allreduce(ringup_world(r), &a, NULL) == rc, "for good", rank);
	check(strstr(ringup_error(), operation) != NULL, "and by name", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

static CUresult sleeps(void *arg)
{
	clock_sleep_ms(*(const int *)arg);
	return CUDA_SUCCESS;
}

/* What rank 1 has queued before the sum takes longer than RINGUP_DEVICE_MS: it is to blame,
 * although the other GPUs stand still as well. */
static void keeps_waiting(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "gradient",
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA };
	CUresult (*enqueue)(CUstream, CUresult(*)(void *), void *, int);
	int *ms = malloc(sizeof(*ms)), rc;

	(void)size;
	gpu_sit(&s, rank);
	*(void **)&enqueue = dlsym(RTLD_DEFAULT, "fake_cuda_enqueue");
	if (!enqueue)
		*(void **)&enqueue =
			dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_enqueue");
	a.in = a.out = gpu_new(&s, COUNT * sizeof(float));
	a.stream = s.stream;
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "a sum", rank);
	*ms = rank == 1 ? 3 * DEADLINE_MS : 0;
	check(!enqueue(s.stream, sleeps, ms, 0), "work before the next", rank);
	a.stream = rank == 1 ? s.stream : NULL;
	do
		rc = ringup_allreduce(ringup_world(r), &a, NULL);
	while (!rc);
	check(rc == RINGUP_EABORTED && names_a_rank(ringup_error()) &&
		      !strncmp(ringup_error(), "rank 1 ", 7) &&
		      strstr(ringup_error(), "it has not begun, because the work before it"),
	      "names the rank whose GPU has not begun", rank);
	check(gpu_sync(&s, 4 * DEADLINE_MS), "the stream goes on", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

static void works(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	float host[COUNT];
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "gradient",
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA };

	gpu_sit(&s, rank);
	for (int i = 0; i < COUNT; i++)
		host[i] = 1;
	a.in = a.out = gpu_new(&s, sizeof(host));
	a.stream = s.stream;
	gpu_put_bytes(&s, a.out, host, sizeof(host));
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "a sum", rank);
	check(gpu_get_bytes(&s, host, a.out, sizeof(host)) && host[0] == (float)size,
	      "is right", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

static bool await_queued(struct ringup_op *op)
{
	while (!ringup_poll(op))
		clock_sleep_ms(1);
	return true;
}

/* The kernel of one group hangs, and a rank aborts the group: others go on, on the same GPU. */
static void abort_one(struct ringup *r, int rank, int size)
{
	struct ringup_group *hung = NULL, *other = NULL;
	int ranks[RANKS_MAX];
	struct ringup_op *op = NULL;
	struct gpu_seat s;
	float host[COUNT] = { 0 };
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "gradient",
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA },
			     b;
	int64_t since;
	int rc;

	for (int i = 0; i < size; i++)
		ranks[i] = i;
	gpu_sit(&s, rank);
	a.in = a.out = gpu_new(&s, sizeof(host));
	check(!ringup_group_add(r, ranks, size, &hung) &&
		      !ringup_group_add(r, ranks, size, &other),
	      "two groups", rank);
	check(!ringup_allreduce(other, &a, NULL) && !ringup_allreduce(hung, &a, NULL) &&
		      !ringup_allreduce(hung, &a, NULL),
	      "both work", rank);
	/* With a stream it is complete, but the GPU is not done with it. */
	b = a;
	b.in = b.out = gpu_new(&s, sizeof(host));
	b.stream = queued ? s.stream : NULL;
	rc = ringup_allreduce(hung, &b, &op);
	check(!rc && (queued ? await_queued(op) : ringup_wait(op, 100) == RINGUP_ETIMEDOUT),
	      "it hangs", rank);
	check(!ringup_group_error(hung) && !ringup_group_error(other), "nobody knows", rank);
	clock_sleep_ms(100);
	since = clock_ns();
	if (rank == 1)
		check(!ringup_group_abort(hung), "an abort", rank);
	if (!queued)
		check(ringup_wait(op, -1) == RINGUP_EABORTED &&
			      strstr(ringup_error(),
				     "allreduce 'gradient': rank 1 has aborted group"),
		      "ends the operation", rank);
	while (!(rc = ringup_group_error(hung)) && ms_since(since) < LATE_MS)
		clock_sleep_ms(1);
	check(rc == RINGUP_EABORTED && ms_since(since) < DEADLINE_MS, "is known soon", rank);
	check(gpu_sync(&s, 2000), "the stream goes on", rank);
	check(ringup_allreduce(hung, &a, NULL) == RINGUP_EABORTED, "for good", rank);
	for (int i = 0; i < COUNT; i++)
		host[i] = 1;
	gpu_put_bytes(&s, a.out, host, sizeof(host));
	a.stream = s.stream;
	check(!ringup_allreduce(other, &a, NULL), "the other group works", rank);
	check(gpu_get_bytes(&s, host, a.out, sizeof(host)) && host[0] == (float)size,
	      "is right", rank);
	check(!ringup_group_error(other) && !ringup_group_error(ringup_world(r)),
	      "only the one has failed", rank);
	check(!ringup_group_remove(hung), "it is removed", rank);
	if (queued)
		check(ringup_wait(op, -1) == RINGUP_EABORTED &&
			      strstr(ringup_error(), "'gradient'"),
		      "its result does not count", rank);
	check(!ringup_group_add(r, ranks, size, &hung) && !ringup_allreduce(hung, &a, NULL),
	      "a new group works", rank);
	check(gpu_sync(&s, 2000), "and ends", rank);
	gpu_drop(&s, a.out);
	gpu_drop(&s, b.out);
	gpu_stand(&s);
}

/* Each rank hears @text with @code; then the ranks meet anew, and compute. */
static void fault(const char *nccl, const char *cuda, int code, const char *text,
		  const char *what)
{
	int64_t since;

	setenv("FAKE_NCCL", nccl, 1);
	setenv("FAKE_CUDA", cuda, 1);
	expected = text;
	expected_code = code;
	for (int i = 0; i < 2; i++) {
		queued = i;
		since = clock_ns();
		run(what, 3, fails);
		printf("# %s: %d ms\n", what, (int)ms_since(since));
	}
	unsetenv("FAKE_NCCL");
	unsetenv("FAKE_CUDA");
	run("the next generation", 3, works);
}

int main(int argc, char **argv)
{
	(void)argc;
	gpu_main(argv);
	setenv("RINGUP_DEVICE_MS", "400", 1);
	setenv("RINGUP_START_TIMEOUT_MS", "1000", 1);
	run("it works", 3, works);
	fault("hang=1@3", "", RINGUP_EABORTED,
	      "allreduce 'gradient' of ringup world has been on", "a kernel hangs");
	run("a rank's own work keeps the others waiting", 3, keeps_waiting);
	fault("async=1@3:6", "", RINGUP_EPEER, "remote process error", "an error comes later");
	fault("init_hang=1", "", RINGUP_EABORTED, "NCCL has not connected 3 ranks",
	      "the ranks do not connect");
	fault("hang=1@3,abort_blocks=300", "", RINGUP_EABORTED, "has been on GPU",
	      "an abort takes its time");
	setenv("RINGUP_DEVICE_MS", "0", 1);
	setenv("FAKE_NCCL", "hang=1@3", 1);
	for (int i = 0; i < 2; i++) {
		queued = i;
		run("one group is aborted", 3, abort_one);
	}
	unsetenv("FAKE_NCCL");
	/* The GPU, and its kernels, stay loaded after an abort; this job gives them back. */
	run("the next generation", 3, works);
	setenv("RINGUP_DEVICE_MS", "400", 1);
	redop = RINGUP_AVERAGE; /* of three: a kernel divides */
	fault("", "jit_fails", RINGUP_ESYSTEM,
	      "the driver cannot compile this library's kernels",
	      "the driver does not know the kernels");
	ok(gpu_nothing_left(), "nothing is left on the GPU");
	return tap_done();
}
