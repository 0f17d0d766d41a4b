/* test_gpu.c - a GPU is opened, used and left without waiting for work that cannot end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "device/gpu.h"
#include "device/staging.h"

enum { SMALL = 1000, LARGE = 1500, OTHER = 100000, LATE_S = 20 };

static CUresult (*enqueue)(CUstream, CUresult (*)(void *), void *, int);
static struct fake_cuda_left (*left)(void);
static uint64_t (*pageable)(void);
static int open_gate; /* atomic */

static CUresult wait_at_gate(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&open_gate, __ATOMIC_ACQUIRE))
		usleep(1000);
	return CUDA_SUCCESS;
}

static void in_vain(int signal)
{
	(void)signal;
	gpu_die("it waits for the GPU, whose kernel waits for it", 0);
}

/* Work that ends with open_gate, on @stream of the GPU. */
static void block(struct gpu *g, void *stream)
{
	struct gpu_visit v;
	struct err e;

	__atomic_store_n(&open_gate, 0, __ATOMIC_RELEASE);
	if (gpu_enter(g, &v, &e) || enqueue(stream, wait_at_gate, NULL, 1))
		gpu_die("no kernel", 0);
	gpu_leave(g, &v);
}

static void unblock(struct gpu_seat *s, struct gpu *g)
{
	struct gpu_visit v;
	struct err e;

	__atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
	if (gpu_enter(g, &v, &e))
		gpu_die(e.text, 0);
	while (s->d->stream_query(s->stream) == DRIVER_NOT_READY ||
	       s->d->stream_query(gpu_stream(g)) == DRIVER_NOT_READY)
		usleep(1000);
	gpu_leave(g, &v);
}

static void keeps_memory(void)
{
	void *first = NULL, *less = NULL, *more = NULL;
	struct gpu *g = NULL;
	struct err e = { 0 };

	ok(!gpu_get(0, &e, &g, &e) && gpu_number(g) == 0, "a GPU");
	ok(!gpu_room(g, SMALL, &first, &e) && first, "has memory");
	ok(!gpu_room(g, SMALL - 1, &less, &e) && less == first, "which is enough for less");
	block(g, gpu_stream(g));
	ok(!gpu_room(g, LARGE, &more, &e) && more != first,
	   "more replaces it, while a kernel runs");
	ok(!gpu_room(g, SMALL, &less, &e) && less == more, "and is enough for all");
	ok(left().allocations == 2, "nothing is freed meanwhile");
	setenv("FAKE_CUDA", "oom@1", 1);
	ok(gpu_room(g, OTHER, &less, &e) == RINGUP_ENOMEM &&
		   strstr(e.text, "100000 bytes of GPU"),
	   "a GPU that is full: %s", e.text);
	unsetenv("FAKE_CUDA");
	ok(!gpu_room(g, LARGE, &less, &e) && less == more, "keeps what it has");
	__atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
	gpu_put(g);
	ok(!left().allocations && !left().streams && !left().contexts, "all is, with the GPU");
}

/* ---- copies ---- */

/* Copies until it is done: how often it was not. */
static int copy(struct gpu *g, void *to, const void *from, size_t bytes, bool to_device)
{
	struct staging_copy c = { .to_device = to_device };
	struct err e = { 0 };
	int rc, turns = 0;

	while (!(rc = gpu_copy(g, to, from, bytes, &c, &e))) {
		usleep(100);
		turns++;
	}
	if (rc < 0)
		gpu_die(e.text, rc);
	return turns;
}

/* There and back, of lengths around those of the slots, while a kernel runs. */
static void copies(bool pin_fails)
{
	enum { ALL = STAGING_SLOTS * STAGING_BYTES };
	static const size_t lengths[] = {
		1,   STAGING_BYTES - 1, STAGING_BYTES, STAGING_BYTES + 1,
		ALL, ALL + 1,           2 * ALL + 5
	};
	unsigned char *in = malloc(3 * ALL), *out = malloc(3 * ALL);
	struct gpu *g = NULL;
	struct err e = { 0 };
	int turns = 0, differ = 0;
	uint64_t before;
	void *at = NULL;

	setenv("FAKE_CUDA", pin_fails ? "pin_fails,slow_copy=300" : "slow_copy=300", 1);
	if (gpu_get(0, &e, &g, &e) || gpu_room(g, 3 * ALL, &at, &e))
		gpu_die(e.text, e.code);
	ok(left().registered == !pin_fails, "host memory is pinned when a GPU is opened");
	before = pageable();
	block(g, gpu_stream(g));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (size_t b = 0; b < lengths[i]; b++)
			in[b] = (unsigned char)(b * 7 + b / 251 + i);
		turns += copy(g, at, in, lengths[i], true);
		turns += copy(g, out, at, lengths[i], false);
		differ += memcmp(in, out, lengths[i]) != 0;
	}
	ok(!differ, "data go to the GPU and back, while a kernel runs");
	if (pin_fails)
		ok(pageable() > before, "even without pinned memory");
	else
		ok(pageable() == before && turns, "all through pinned memory, without waiting");
	__atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
	unsetenv("FAKE_CUDA");
	gpu_put(g);
	ok(!left().registered && !left().events, "which is given back");
	free(in);
	free(out);
}

/* A copy that is given up holds no slot for ever, nor touches the host's memory. */
static void drops_copies(void)
{
	enum { ALL = 2 * STAGING_SLOTS * STAGING_BYTES };
	struct staging_copy first = { 0 }, none = { 0 };
	unsigned char *in = calloc(1, ALL), *out = calloc(1, ALL);
	struct gpu *g = NULL;
	struct err e = { 0 };
	void *at = NULL;

	setenv("FAKE_CUDA", "slow_copy=50000", 1);
	if (gpu_get(0, &e, &g, &e) || gpu_room(g, ALL, &at, &e))
		gpu_die(e.text, e.code);
	ok(!gpu_copy(g, out, at, ALL, &first, &e) && !gpu_drop_copy(g, &first),
	   "a copy is given up");
	ok(gpu_drop_copy(g, &none), "and one that has not begun");
	memset(in, 5, ALL);
	copy(g, at, in, ALL, true);
	copy(g, in, at, ALL, false);
	ok(in[0] == 5 && in[ALL - 1] == 5, "others have its slots");
	ok(gpu_drop_copy(g, &first) && !out[0] && !out[ALL - 1], "it is over");
	unsetenv("FAKE_CUDA");
	gpu_put(g);
	free(in);
	free(out);
}

/* Has each kernel been launched, while a stream of the program is busy? */
static bool launches(struct gpu_seat *s, struct gpu *g)
{
	static struct device_move m;
	struct err e = { 0 };
	void *at = NULL;
	int done = 0;

	if (gpu_room(g, SMALL, &at, &e))
		return false;
	block(g, s->stream);
	for (int k = 0; k < DEVICE_KERNEL_COUNT; k++) {
		kernel_move_begin(&m, 1);
		(void)kernel_move_add(&m, at, (char *)at + 256, 1);
		done += !gpu_launch(g, (enum device_kernel)k, &m, &e);
	}
	unblock(s, g);
	return done == DEVICE_KERNEL_COUNT;
}

/* A kernel that waits for another rank may run when the first collective is queued: all are
 * loaded before. */
static void loads_early(void)
{
	CUresult (*priority)(CUstream, int *);
	struct gpu_visit v;
	struct gpu_seat s;
	struct gpu *g = NULL;
	struct err e = { 0 };
	int is = 0;

	*(void **)&priority =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuStreamGetPriority");
	gpu_sit(&s, 0);
	ok(!gpu_get(0, &e, &g, &e) && launches(&s, g), "no launch waits for other streams");
	ok(!gpu_enter(g, &v, &e) && !priority(gpu_stream(g), &is) && is == -5,
	   "the stream has the greatest priority");
	gpu_leave(g, &v);
	gpu_put(g);
	setenv("FAKE_CUDA", "no_func_load", 1);
	ok(!gpu_get(0, &e, &g, &e) && launches(&s, g), "nor with a driver before CUDA 12.3");
	gpu_put(g);
	unsetenv("FAKE_CUDA");
	gpu_stand(&s);
}

static void says_why(void)
{
	static struct device_move m;
	struct gpu *g = NULL;
	struct err e = { 0 };

	setenv("FAKE_CUDA", "jit_fails", 1);
	kernel_move_begin(&m, 4);
	(void)kernel_move_add(&m, &e, &e, 1);
	ok(!gpu_get(0, &e, &g, &e) &&
		   gpu_launch(g, DEVICE_SCALE_F32, &m, &e) == RINGUP_ESYSTEM &&
		   strstr(e.text, "error 222") && strstr(e.text, "ptxas fatal"),
	   "the compiler's complaint: %s", e.text);
	gpu_put(g);
	setenv("FAKE_CUDA", "capability=61", 1);
	ok(gpu_get(0, &e, &g, &e) == RINGUP_ENOBACKEND && !g &&
		   strstr(e.text, "has compute capability 6.1") && strstr(e.text, "7.0"),
	   "a GPU that is too old: %s", e.text);
	unsetenv("FAKE_CUDA");
	for (int code = 700; code <= 719; code += 19) {
		driver_failed(driver_get(&e), code, "cuEventRecord", &e);
		ok(strstr(e.text, "cuEventRecord, or a kernel before it: CUDA error 7") &&
			   strstr(e.text, "restart it"),
		   "an error that may be another's: %s", e.text);
	}
	driver_failed(driver_get(&e), 713, "cuEventRecord", &e);
	ok(!strstr(e.text, "before it") && !strstr(e.text, "restart it"),
	   "and one that is not");
}

/* After an abort the driver is asked nothing for which it may wait for ever. */
static void abandons(void)
{
	struct gpu *first = NULL, *second = NULL, *third = NULL;
	void *at = NULL;
	struct gpu_seat s;
	struct err e = { 0 };
	int job[3] = { 0 };

	gpu_sit(&s, 0);
	ok(!gpu_get(0, &job[0], &first, &e) && !gpu_room(first, SMALL, &at, &e), "a job");
	block(first, s.stream);
	gpu_abandon(first);
	gpu_put(first);
	ok(left().allocations == 1, "ends while a stream of the program stands still");
	ok(!gpu_get(0, &job[1], &second, &e) && second == first, "the next one has its GPU");
	unblock(&s, second);
	block(second, gpu_stream(second));
	gpu_abandon(second);
	gpu_put(second);
	ok(!gpu_get(0, &job[2], &third, &e) && third != second,
	   "but not while its own stream stands still");
	unblock(&s, second);
	ok(!gpu_get(0, &job[0], &first, &e) && first == second, "only later");
	gpu_put(first);
	gpu_put(third);
	gpu_stand(&s);
	ok(!left().allocations && !left().streams && !left().modules && !left().contexts,
	   "then all of it can be given back");
}

static void *opens(void *arg)
{
	struct gpu **g = arg;
	struct err e = { 0 };

	if (gpu_get(1, &e, g, &e))
		gpu_die(e.text, e.code);
	return NULL;
}

/* A thread opens a GPU, which waits for a stream, while another one forks. */
static void forks(void)
{
	struct gpu_seat s;
	struct gpu *g = NULL;
	struct err e = { 0 };
	pthread_t thread;
	int status = 1;
	pid_t child;

	gpu_sit(&s, 1);
	__atomic_store_n(&open_gate, 0, __ATOMIC_RELEASE);
	if (enqueue(s.stream, wait_at_gate, NULL, 1) ||
	    pthread_create(&thread, NULL, opens, &g))
		gpu_die("no kernel", 0);
	usleep(50000);
	child = fork();
	if (!child) {
		alarm(LATE_S / 2);
		_exit(driver_open(&e) || driver_get(&e) || !strstr(e.text, "forked child"));
	}
	waitpid(child, &status, 0);
	ok(child > 0 && WIFEXITED(status) && !WEXITSTATUS(status),
	   "a child hears that it has no GPU");
	__atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	gpu_put(g);
	gpu_stand(&s);
}

int main(int argc, char **argv)
{
	struct err e;
	void *lib;

	(void)argc;
	gpu_main(argv);
	if (!driver_get(&e))
		gpu_die(e.text, e.code);
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	*(void **)&enqueue = dlsym(lib, "fake_cuda_enqueue");
	*(void **)&left = dlsym(lib, "fake_cuda_left");
	*(void **)&pageable = dlsym(lib, "fake_cuda_pageable");
	signal(SIGALRM, in_vain);
	alarm(LATE_S);
	keeps_memory();
	copies(false);
	copies(true);
	drops_copies();
	loads_early();
	says_why();
	abandons();
	forks();
	return tap_done();
}
