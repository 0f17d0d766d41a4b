/* test_fakecuda.c - the fake CUDA driver refuses, waits and fails as a driver does. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "device/kernels.h"
#include "fakegpu/fakecuda.h"
#include "tap.h"

enum { COUNT = 1000, SOON_US = 20000, BYTES = COUNT * sizeof(float) };

static CUcontext context[2];

static void use(int device)
{
	if (cuCtxSetCurrent(context[device]))
		abort();
}

/* ---- work that waits until it is let go ---- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t news;
	bool open;
	int entered;
};

#define GATE                                                                  \
	{                                                                     \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0 \
	}

static CUresult gate_pass(void *arg)
{
	struct gate *g;

	memcpy(&g, arg, sizeof(g));
	pthread_mutex_lock(&g->lock);
	g->entered++;
	while (!g->open)
		pthread_cond_wait(&g->news, &g->lock);
	pthread_mutex_unlock(&g->lock);
	return CUDA_SUCCESS;
}

static void gate_put(struct gate *g, CUstream s, int sms)
{
	void *arg = malloc(sizeof(g));

	memcpy(arg, &g, sizeof(g));
	if (fake_cuda_enqueue(s, gate_pass, arg, sms))
		abort();
}

static void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->news);
	pthread_mutex_unlock(&g->lock);
}

static int gate_entered(struct gate *g)
{
	int n;

	pthread_mutex_lock(&g->lock);
	n = g->entered;
	pthread_mutex_unlock(&g->lock);
	return n;
}

/* ---- who may call ---- */

static void *without_context(void *arg)
{
	CUdeviceptr at;
	CUstream s;
	bool *refused = arg;

	*refused = cuMemAlloc_v2(&at, 4) == CUDA_ERROR_INVALID_CONTEXT &&
		   cuStreamCreate(&s, 1) == CUDA_ERROR_INVALID_CONTEXT;
	return NULL;
}

static void callers(void)
{
	pthread_t thread;
	bool refused = false;
	int n = 0, status = 0;
	pid_t child;
	CUdeviceptr at;

	ok(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED, "nothing works before cuInit()");
	ok(!cuInit(0) && !cuDeviceGetCount(&n) && n == FAKE_DEVICES,
	   "then devices are counted");
	ok(cuMemAlloc_v2(&at, 4) == CUDA_ERROR_INVALID_CONTEXT,
	   "no context is current at first");
	ok(!cuDevicePrimaryCtxRetain(&context[0], 0) &&
		   !cuDevicePrimaryCtxRetain(&context[1], 1),
	   "primary contexts");
	use(0);
	pthread_create(&thread, NULL, without_context, &refused);
	pthread_join(thread, NULL);
	ok(refused, "a context is current in a thread, not in others");
	ok(cuCtxSetCurrent((CUcontext)&n) == CUDA_ERROR_INVALID_CONTEXT, "this is no context");
	child = fork();
	if (!child)
		_exit(cuMemAlloc_v2(&at, 4) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "a child of fork() has no driver");
}

/* ---- memory ---- */

static void memory(void)
{
	static float in[COUNT], out[COUNT];
	float *pinned = NULL;
	int kinds[] = { 2, 9 }, type = -1, ordinal = -1, status;
	void *values[] = { &type, &ordinal };
	CUdeviceptr at = 0, there = 0;
	pid_t child;
	int i;

	for (i = 0; i < COUNT; i++)
		in[i] = (float)i;
	ok(!cuMemAlloc_v2(&at, BYTES) && !cuMemcpyHtoD_v2(at, in, BYTES) &&
		   !cuMemcpyDtoH_v2(out, at, BYTES) && !memcmp(in, out, BYTES),
	   "there and back");
	child = fork();
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*(volatile char *)(uintptr_t)at & 0);
	}
	waitpid(child, &status, 0);
	ok(WIFSIGNALED(status) || WEXITSTATUS(status), "a host that touches it dies");
	ok(!cuPointerGetAttributes(2, kinds, values, at + 16) && type == 2 && ordinal == 0,
	   "a pointer into it is a device's");
	ok(!cuPointerGetAttributes(2, kinds, values, (uintptr_t)in) && type == 0 &&
		   ordinal == -2,
	   "one of the host is unknown");
	use(1);
	ok(!cuMemAlloc_v2(&there, BYTES) && !cuPointerGetAttributes(2, kinds, values, there) &&
		   ordinal == 1,
	   "the other device's memory");
	ok(!cuMemHostAlloc((void **)&pinned, BYTES, 0) &&
		   !cuPointerGetAttributes(2, kinds, values, (uintptr_t)pinned) && type == 1,
	   "pinned memory is known");
	ok(cuMemHostRegister_v2(pinned, 4, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
	   "and registered already");
	ok(cuMemcpyDtoHAsync_v2(in, (uintptr_t)out, 4, NULL) == CUDA_ERROR_INVALID_VALUE,
	   "the host's memory is not copied as a device's");
	ok(cuMemcpyAsync(there + BYTES - 4, at, 8, NULL) == CUDA_ERROR_INVALID_VALUE,
	   "nothing is copied past an end");
	ok(!cuMemFree_v2(there) && cuMemFree_v2(there) == CUDA_ERROR_INVALID_VALUE &&
		   !cuMemFreeHost(pinned),
	   "it is freed once");
	use(0);
	ok(!cuMemFree_v2(at), "and so is the first's");
}

/* ---- streams ---- */

static void take_call(void *called)
{
	*(bool *)called = true;
}

static void streams(void)
{
	struct gate gate = GATE, other = GATE, third = GATE;
	static float in[COUNT], out[COUNT];
	bool called = false;
	CUdeviceptr at, back;
	CUstream s, t, blocking;
	CUevent e;

	cuStreamCreate(&s, 1);
	cuStreamCreate(&t, 1);
	cuStreamCreate(&blocking, 0);
	cuEventCreate(&e, 2);
	cuMemAlloc_v2(&at, BYTES);
	cuMemAlloc_v2(&back, BYTES);
	in[1] = 7;
	ok(!cuStreamQuery(s) && !cuEventQuery(e), "nothing to wait for");
	gate_put(&gate, s, 0);
	ok(!cuMemcpyHtoDAsync_v2(at, in, BYTES, s), "a copy is queued behind what waits");
	in[1] = 8;
	ok(!cuEventRecord(e, s) && cuStreamQuery(s) == CUDA_ERROR_NOT_READY &&
		   cuEventQuery(e) == CUDA_ERROR_NOT_READY,
	   "and is not done");
	ok(!cuStreamWaitEvent(t, e, 0) && !cuMemcpyDtoDAsync_v2(back, at, BYTES, t),
	   "in another");
	usleep(SOON_US);
	ok(cuStreamQuery(t) == CUDA_ERROR_NOT_READY, "which waits for the event");
	gate_open(&gate);
	ok(!cuEventSynchronize(e) && !cuStreamSynchronize(t) &&
		   !cuMemcpyDtoH_v2(out, back, BYTES) && out[1] == 7,
	   "then all is done, with what the host had at the time of the call");
	gate_put(&other, blocking, 0);
	ok(!cuMemsetD8Async(at, 1, BYTES, NULL) && cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY,
	   "the legacy stream waits for blocking ones");
	gate_open(&other);
	ok(!cuCtxSynchronize() && !cuStreamQuery(NULL), "and all of a context can be awaited");
	gate_put(&third, NULL, 0);
	ok(!cuMemcpyHtoD_v2(at, in, BYTES) && cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY,
	   "the copy of what is in pageable memory may follow the call");
	gate_open(&third);
	ok(!cuStreamSynchronize(NULL) && !cuMemcpyDtoH_v2(out, at, BYTES) && out[1] == 8,
	   "and is done when the stream is");
	ok(!cuLaunchHostFunc(s, take_call, &called) && !cuStreamSynchronize(s) && called,
	   "a stream calls a function of the host");
	cuMemFree_v2(at);
	cuMemFree_v2(back);
	cuEventDestroy_v2(e);
	ok(!cuStreamDestroy_v2(s) && !cuStreamDestroy_v2(t) && !cuStreamDestroy_v2(blocking) &&
		   cuStreamQuery(s) == CUDA_ERROR_INVALID_HANDLE,
	   "a destroyed stream is no stream");
}

/* ---- multiprocessors, and what waits for a device ---- */

static void *frees(void *arg)
{
	use(0);
	cuMemFree_v2(*(CUdeviceptr *)arg);
	*(volatile CUdeviceptr *)arg = 0;
	return NULL;
}

static void multiprocessors(void)
{
	struct gate first = GATE, second = GATE;
	CUdeviceptr at;
	pthread_t thread;
	CUstream s, t;

	cuStreamCreate(&s, 1);
	cuStreamCreate(&t, 1);
	cuMemAlloc_v2(&at, 4);
	gate_put(&first, s, FAKE_SMS);
	while (!gate_entered(&first))
		usleep(100);
	gate_put(&second, t, 1);
	usleep(SOON_US);
	ok(!gate_entered(&second), "a kernel waits while another has all multiprocessors");
	pthread_create(&thread, NULL, frees, &at);
	usleep(SOON_US);
	ok(at != 0, "memory is freed when all kernels have ended");
	gate_open(&first);
	gate_open(&second);
	pthread_join(thread, NULL);
	ok(!cuCtxSynchronize() && gate_entered(&second) == 1 && !at, "which they now have");
	cuStreamDestroy_v2(s);
	cuStreamDestroy_v2(t);
}

/* ---- kernels ---- */

static CUresult scale(CUfunction f, CUdeviceptr at, uint64_t count, CUstream s)
{
	struct device_move m;
	void *parameters[] = { &m };

	kernel_move_begin(&m, 4);
	m.factor = 3;
	if (kernel_move_add(&m, (void *)(uintptr_t)at, (void *)(uintptr_t)at, count) != count)
		return CUDA_ERROR_INVALID_VALUE;
	return cuLaunchKernel(f, kernel_move_grid(&m), 1, 1, DEVICE_THREADS, 1, 1, 0, s,
			      parameters, NULL);
}

/* Loads the library's PTX with an instruction of another type. */
static CUresult wrong_ptx(char *log, size_t room)
{
	int options[] = { 5, 6 };
	void *values[] = { log, (void *)room };
	char *text = strdup(device_kernels_ptx);
	CUmodule module;
	CUresult bad;

	memcpy(strstr(text, "shl.b64"), "shl.b63", 7);
	bad = cuModuleLoadDataEx(&module, text, 2, options, values);
	free(text);
	return bad;
}

static void kernels(void)
{
	static float out[COUNT];
	char log[128] = "";
	float one[COUNT];
	CUdeviceptr at;
	CUmodule module = NULL;
	CUfunction f = NULL;
	CUstream s;
	int i;

	for (i = 0; i < COUNT; i++)
		one[i] = 1;
	cuMemAlloc_v2(&at, BYTES);
	cuStreamCreate(&s, 1);
	ok(cuModuleLoadDataEx(&module, "rubbish", 0, NULL, NULL) == CUDA_ERROR_INVALID_PTX,
	   "rubbish is no PTX");
	ok(wrong_ptx(log, sizeof(log)) == CUDA_ERROR_INVALID_PTX &&
		   strstr(log, "there is no instruction \"shl.b63\""),
	   "nor is PTX with one wrong instruction, which the log names");
	ok(!cuModuleLoadDataEx(&module, device_kernels_ptx, 0, NULL, NULL), "the library's is");
	ok(cuModuleGetFunction(&f, module, "ringup_none") == CUDA_ERROR_NOT_FOUND &&
		   !cuModuleGetFunction(&f, module, kernel_symbol(DEVICE_SCALE_F32)),
	   "it has kernels of these names");
	cuMemcpyHtoD_v2(at, one, BYTES);
	cuStreamSynchronize(NULL);
	ok(!scale(f, at, COUNT, s) && !cuStreamSynchronize(s) &&
		   !cuMemcpyDtoH_v2(out, at, BYTES) && out[0] == 3 && out[COUNT - 1] == 3,
	   "which run");
	use(1);
	ok(scale(f, at, 1, s) == CUDA_SUCCESS, "a stream's context counts, not the thread's");
	use(0);
	ok(!cuStreamSynchronize(s) && fake_cuda_launched() == 2, "launches are counted");
	/* The last test of this device. */
	ok(!scale(f, at, COUNT + 64, s), "a kernel past the end is found when it runs");
	usleep(SOON_US);
	ok(cuStreamSynchronize(s) == CUDA_ERROR_ILLEGAL_ADDRESS &&
		   cuMemAlloc_v2(&at, 4) == CUDA_ERROR_ILLEGAL_ADDRESS &&
		   cuStreamQuery(s) == CUDA_ERROR_ILLEGAL_ADDRESS,
	   "and then nothing works any more");
	use(1);
	ok(!cuCtxSynchronize(), "on this device");
}

/* ---- capture ---- */

static void *queries(void *arg)
{
	CUresult *results = arg;
	int mode = CAPTURE_THREAD_LOCAL;
	CUdeviceptr at;

	use(1);
	results[0] = cuMemAlloc_v2(&at, 4);
	cuThreadExchangeStreamCaptureMode(&mode);
	results[1] = cuMemAlloc_v2(&at, 4);
	if (!results[1])
		cuMemFree_v2(at);
	results[2] = mode;
	return NULL;
}

static void capture(void)
{
	CUresult results[3] = { 0 };
	int status = -1;
	void *graph;
	pthread_t thread;
	CUstream s, t;
	CUevent e;

	cuStreamCreate(&s, 1);
	cuStreamCreate(&t, 1);
	cuEventCreate(&e, 2);
	ok(cuStreamBeginCapture_v2(NULL, CAPTURE_GLOBAL) ==
		   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	   "the legacy stream is not captured");
	ok(!cuStreamBeginCapture_v2(s, CAPTURE_THREAD_LOCAL) &&
		   !cuStreamIsCapturing(s, &status) && status == 1,
	   "a stream is captured");
	ok(!cuEventRecord(e, s) && !cuStreamWaitEvent(t, e, 0) &&
		   !cuStreamIsCapturing(t, &status) && status == 1,
	   "one that waits for it, too");
	ok(!cuStreamEndCapture(s, &graph) && !cuStreamIsCapturing(t, &status) && status == 0,
	   "until the capture ends");
	cuStreamBeginCapture_v2(s, CAPTURE_GLOBAL);
	pthread_create(&thread, NULL, queries, results);
	pthread_join(thread, NULL);
	ok(results[0] == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	   "a call of another thread that may wait is refused");
	ok(!results[1] && results[2] == CAPTURE_GLOBAL, "but not after it has asked for that");
	ok(cuStreamEndCapture(s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	   "and it has broken the capture");
	cuEventDestroy_v2(e);
	cuStreamDestroy_v2(s);
	cuStreamDestroy_v2(t);
}

/* The legacy stream waits for blocking ones, and cannot for one that is captured. */
static void capture_implicit(void)
{
	int status = -1;
	void *graph;
	CUstream s;
	CUevent e;

	cuStreamCreate(&s, 0);
	cuEventCreate(&e, 2);
	cuStreamBeginCapture_v2(s, CAPTURE_THREAD_LOCAL);
	ok(cuStreamIsCapturing((CUstream)1, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
		   !cuStreamIsCapturing(s, &status) && status == 1,
	   "the legacy stream is not asked meanwhile");
	ok(cuEventRecord(e, NULL) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
		   cuStreamEndCapture(s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	   "and work on it breaks the capture");
	cuEventDestroy_v2(e);
	cuStreamDestroy_v2(s);
}

/* ---- streams without a name of their own ---- */

static void *queries_own(void *arg)
{
	CUresult *result = arg;

	use(1);
	*result = cuStreamQuery((CUstream)2);
	return NULL;
}

static void small_handles(void)
{
	struct gate g = GATE;
	CUresult other = CUDA_ERROR_INVALID_VALUE;
	pthread_t thread;

	gate_put(&g, (CUstream)2, 1);
	pthread_create(&thread, NULL, queries_own, &other);
	pthread_join(thread, NULL);
	ok(cuStreamQuery((CUstream)2) == CUDA_ERROR_NOT_READY && !other,
	   "handle 2 is each thread's own stream");
	gate_open(&g);
	ok(!cuStreamSynchronize((CUstream)2) &&
		   cuStreamQuery((CUstream)3) == CUDA_ERROR_INVALID_HANDLE &&
		   cuStreamDestroy_v2((CUstream)2),
	   "handle 3 is none");
}

/* ---- lazy loading ---- */

static void *loads(void *arg)
{
	CUfunction *f = arg;

	use(1);
	if (cuFuncLoad(*f))
		abort();
	__atomic_store_n(f, NULL, __ATOMIC_RELEASE);
	return f;
}

static void late_load(void)
{
	struct gate g = GATE;
	CUmodule module = NULL;
	CUfunction f = NULL, again = NULL;
	pthread_t thread;
	CUstream s;
	void *end = NULL;

	cuStreamCreate(&s, 1);
	cuModuleLoadDataEx(&module, device_kernels_ptx, 0, NULL, NULL);
	cuModuleGetFunction(&f, module, kernel_symbol(DEVICE_COPY));
	again = f;
	gate_put(&g, s, 1);
	pthread_create(&thread, NULL, loads, &again);
	usleep(SOON_US);
	ok(__atomic_load_n(&again, __ATOMIC_ACQUIRE) == f, "the first use of a kernel waits");
	gate_open(&g);
	pthread_join(thread, &end);
	ok(end == &again && !again, "for what runs on any stream");
	cuModuleUnload(module);
	cuStreamDestroy_v2(s);
}

/* ---- faults ---- */

static void faults(void)
{
	CUdeviceptr at;
	CUmodule module;
	char log[64] = "";
	int options[] = { 5, 6 };
	void *values[] = { log, (void *)sizeof(log) };
	int version = 0;

	setenv("FAKE_CUDA", "jit_fails,driver=11040", 1);
	ok(cuModuleLoadDataEx(&module, device_kernels_ptx, 2, options, values) ==
			   CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
		   strstr(log, "fake"),
	   "no compiler, which its log says");
	ok(!cuDriverGetVersion(&version) && version == 11040, "an old driver");
	setenv("FAKE_CUDA", "slow_copy=1,oom@1", 1);
	ok(cuMemAlloc_v2(&at, 4) == CUDA_ERROR_OUT_OF_MEMORY, "no memory");
	unsetenv("FAKE_CUDA");
	ok(!cuMemAlloc_v2(&at, 4) && !cuMemFree_v2(at), "and enough again");
}

static void left(void)
{
	struct fake_cuda_left n = fake_cuda_left();

	ok(n.allocations == 1 && n.bytes == BYTES && n.streams == 1 && n.modules == 1 &&
		   n.contexts == 2 && !n.events && !n.registered,
	   "what is left is counted");
	cuDevicePrimaryCtxRelease_v2(1);
	ok(cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED, "a released context is gone");
}

/* On a device of its own, for nothing else works on it any more. */
static void misaligned(void)
{
	CUcontext third;
	CUmodule module;
	CUfunction f;
	CUdeviceptr at;
	bool ready = !cuDevicePrimaryCtxRetain(&third, 2) && !cuCtxSetCurrent(third) &&
		     !cuMemAlloc_v2(&at, BYTES) &&
		     !cuModuleLoadData(&module, device_kernels_ptx) &&
		     !cuModuleGetFunction(&f, module, kernel_symbol(DEVICE_SCALE_F32));

	ok(ready && !scale(f, at, COUNT, NULL) && !cuCtxSynchronize(), "a kernel runs");
	ok(ready && !scale(f, at + 2, COUNT - 1, NULL) &&
		   cuCtxSynchronize() == CUDA_ERROR_MISALIGNED_ADDRESS &&
		   cuMemFree_v2(at) == CUDA_ERROR_MISALIGNED_ADDRESS,
	   "one at a wrong alignment is an error of its own, which stays");
}

int main(void)
{
	alarm(120);
	callers();
	memory();
	streams();
	multiprocessors();
	kernels();
	capture();
	capture_implicit();
	small_handles();
	late_load();
	faults();
	left();
	misaligned();
	return tap_done();
}
