/* test_gpu.c - memory of a GPU is replaced and given back while its kernels run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include <signal.h>

#include "device/gpu.h"

enum { SMALL = 1000, LARGE = 1500, OTHER = 100000, LATE_S = 20 };

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

int main(int argc, char **argv)
{
	CUresult (*enqueue)(CUstream, CUresult(*)(void *), void *, int);
	struct fake_cuda_left (*left)(void);
	void *lib, *first = NULL, *second = NULL, *third = NULL, *before;
	size_t has = 0, has_second = 0, has_third = 0;
	struct gpu_visit v;
	struct gpu *g = NULL;
	struct err e = { 0 };

	(void)argc;
	gpu_main(argv);
	ok(!gpu_get(0, &e, &g, &e) && gpu_number(g) == 0, "a GPU");
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	*(void **)&enqueue = dlsym(lib, "fake_cuda_enqueue");
	*(void **)&left = dlsym(lib, "fake_cuda_left");
	ok(!gpu_room(g, SMALL, &first, &has, &e) && first && has >= SMALL, "has memory");
	before = first;
	ok(!gpu_room(g, SMALL - 1, &first, &has, &e) && first == before,
	   "which is enough for less");
	if (gpu_enter(g, &v, &e) || enqueue(gpu_stream(g), wait_at_gate, NULL, FAKE_SMS))
		gpu_die("no kernel", 0);
	signal(SIGALRM, in_vain);
	alarm(LATE_S);
	ok(!gpu_room(g, LARGE, &first, &has, &e) && first != before && has >= LARGE,
	   "more replaces it, while a kernel runs");
	ok(!gpu_room(g, SMALL, &second, &has_second, &e) && second == before,
	   "what it replaced is used again");
	gpu_free(g, second, has_second);
	ok(!gpu_room(g, OTHER, &third, &has_third, &e) && has_third == OTHER && third != before,
	   "but not for more than it has");
	gpu_free(g, third, has_third);
	gpu_free(g, first, has);
	ok(left().allocations == 3, "nothing is freed meanwhile");
	__atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
	gpu_leave(g, &v);
	gpu_put(g);
	ok(!left().allocations && !left().streams && !left().contexts, "all is, with the GPU");
	return tap_done();
}
