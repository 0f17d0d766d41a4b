/* test_nccl_start.c - CUDA starts with a job's first GPU tensor, and ends with the process. */
/* tests: src/backend src/device src/engine tests/fakegpu */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include <sys/wait.h>

#include "base/clock.h"

enum { COUNT = 16, LATE_S = 60 };

static struct ringup *job;

static struct ringup_reduce sum_of(struct gpu_seat *s, void *at)
{
	return (struct ringup_reduce){ .bytes = sizeof(struct ringup_reduce),
				       .name = "sum",
				       .in = at,
				       .out = at,
				       .count = COUNT,
				       .dtype = RINGUP_F32,
				       .memory = RINGUP_CUDA,
				       .stream = s->stream };
}

static void *fake(const char *name)
{
	return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

/* ---- a process that exits without an end of the job ---- */

static CUresult runs_on(void *arg)
{
	(void)arg;
	sleep(LATE_S);
	return CUDA_SUCCESS;
}

/* The driver has shut down by now, and work of the job is on the GPU. */
static void at_exit(void)
{
	CUresult (*count)(int *);
	int n;

	*(void **)&count = fake("cuDeviceGetCount");
	clock_sleep_ms(300);
	_exit(count(&n) == CUDA_ERROR_DEINITIALIZED ? -ringup_group_error(ringup_world(job))
						    : 100);
}

static int exits(void)
{
	struct ringup_init how = { 0 };
	CUresult (*enqueue)(CUstream, CUresult(*)(void *), void *, int);
	struct ringup_reduce a;
	struct gpu_seat s;

	alarm(LATE_S);
	*(void **)&enqueue = fake("fake_cuda_enqueue");
	if (atexit(at_exit) || ringup_init(&how, &job))
		return 101;
	gpu_sit(&s, 0);
	a = sum_of(&s, gpu_new(&s, COUNT * sizeof(float)));
	if (ringup_allreduce(ringup_world(job), &a, NULL) ||
	    enqueue(s.stream, runs_on, NULL, 1) ||
	    ringup_allreduce(ringup_world(job), &a, NULL))
		return 102;
	exit(103);
}

static int status_of(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- one that begins a job before CUDA ---- */

static int open_gate; /* atomic */

static CUresult wait_at_gate(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&open_gate, __ATOMIC_ACQUIRE))
		usleep(1000);
	return CUDA_SUCCESS;
}

static void *submits(void *arg)
{
	return ringup_allreduce(ringup_world(job), arg, NULL) ? NULL : arg;
}

/* The first tensor opens the GPU, which waits for work there; other operations do not. */
static void opens_beside(struct gpu_seat *s, struct ringup_reduce *a)
{
	CUresult (*enqueue)(CUstream, CUresult(*)(void *), void *, int);
	float host[COUNT] = { 0 };
	struct ringup_reduce b = { .bytes = sizeof(b),
				   .name = "beside",
				   .in = host,
				   .out = host,
				   .count = COUNT,
				   .dtype = RINGUP_F32 };
	pthread_t thread = 0;
	void *done = NULL;

	*(void **)&enqueue = fake("fake_cuda_enqueue");
	if (enqueue(s->stream, wait_at_gate, NULL, 1) ||
	    pthread_create(&thread, NULL, submits, a))
		gpu_die("no kernel", 0);
	usleep(50000);
	ok(!ringup_allreduce(ringup_world(job), &b, NULL), "a sum while a GPU is opened");
	__atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
	pthread_join(thread, &done);
	ok(done == a, "which then computes");
}

static int begins(void)
{
	struct ringup_init how = { 0 };
	CUresult (*init)(unsigned int), (*count)(int *), (*bus)(char *, int, CUdevice);
	struct ringup_reduce a;
	struct gpu_seat s;
	char id[32] = "";
	int n = -1;
	pid_t child;

	*(void **)&init = fake("cuInit");
	*(void **)&count = fake("cuDeviceGetCount");
	*(void **)&bus = fake("cuDeviceGetPCIBusId");
	ok(!ringup_init(&how, &job) && ringup_accepts(ringup_world(job), RINGUP_CUDA) == 1,
	   "a job that takes tensors of GPUs");
	ok(count(&n) == CUDA_ERROR_NOT_INITIALIZED, "has not started CUDA");
	child = fork();
	if (!child)
		_exit(init(0) || count(&n) || n != FAKE_DEVICES);
	ok(!status_of(child), "a child of fork() may use it");
	setenv("CUDA_VISIBLE_DEVICES", "3", 1);
	gpu_sit(&s, 0);
	a = sum_of(&s, gpu_new(&s, COUNT * sizeof(float)));
	opens_beside(&s, &a);
	ok(!ringup_allreduce(ringup_world(job), &a, NULL) && gpu_sync(&s, 10000),
	   "it computes");
	ok(!count(&n) && n == 1 && !bus(id, sizeof(id), 0) && !strcmp(id, "0000:04:00.0"),
	   "on the GPU that is visible by now");
	gpu_drop(&s, a.out);
	gpu_stand(&s);
	ringup_fini(job);
	return tap_done();
}

int main(int argc, char **argv)
{
	char exits_too[] = "exits", *again[] = { argv[0], exits_too, NULL };
	pid_t child;
	int status;

	gpu_main(argv);
	if (argc > 1)
		return exits();
	alarm(LATE_S);
	child = fork();
	if (!child) {
		execv("/proc/self/exe", again);
		_exit(104);
	}
	status = status_of(child);
	ok(!status, "the end of the driver is no failure of the job (%d)", status);
	return begins();
}
