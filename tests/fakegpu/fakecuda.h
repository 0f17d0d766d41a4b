/* fakecuda.h - for tests: the calls of the fake libcuda.so.1, with the numbers of CUDA. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKECUDA_H
#define TESTS_FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A stand-in for CUDA's driver, for machines without a GPU.  Only names, numbers and behaviour
 * are CUDA's; the memory is the host's, and everything runs on the CPU.  It is loaded in place
 * of the driver when its folder is first in LD_LIBRARY_PATH.
 *
 *  - Memory of a device has bit 62 in its address: a host that touches it dies by SIGSEGV.
 *  - A stream is a thread with a queue, so nothing is done before the host goes on.
 *  - A device has FAKE_SMS multiprocessors.  Kernels occupy some and keep them while they wait.
 *  - Kernels are run from their PTX, which is refused if it is wrong; see ptx.h.
 *  - Freeing memory waits for all work of the context, as the driver's does.  So do loading a
 *    module and the first launch of each kernel, as the driver's may.
 *  - cuInit() reads CUDA_VISIBLE_DEVICES.  A child forked after that cannot use CUDA.
 *  - When the process exits, every call says so.
 *  - What is left at exit is counted and printed on stderr.
 *
 * FAKE_CUDA is a list, separated by commas:
 *	devices=N     the number of devices (8)
 *	driver=N      cuDriverGetVersion() (12080)
 *	oom@N         the N-th allocation of device memory fails, and all later ones
 *	sticky@N      the N-th kernel faults: the context is unusable from then on
 *	slow_copy=US  every copy takes that many microseconds longer
 *	slow_kernel=US
 *	slow_query=US every question about an event
 *	jit_fails     no PTX can be compiled
 *	pin_fails     no host memory can be pinned
 *	capability=N  the devices' compute capability (90)
 *	no_func_load  cuFuncLoad() fails, for a driver that does not have it
 *
 * CUDA_DISABLE_PTX_JIT=1 has the same effect, as with the real driver.
 */

enum { FAKE_SMS = 8, FAKE_DEVICES = 8 };

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct fake_context *CUcontext;
typedef struct fake_stream *CUstream;
typedef struct fake_event *CUevent;
typedef struct fake_module *CUmodule;
typedef struct fake_function *CUfunction;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_MISALIGNED_ADDRESS = 716,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
};

/* cuStreamBeginCapture_v2() and cuThreadExchangeStreamCaptureMode(). */
enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };

#define FAKE_API __attribute__((visibility("default")))

FAKE_API CUresult cuInit(unsigned int flags);
FAKE_API CUresult cuDriverGetVersion(int *version);
FAKE_API CUresult cuGetErrorString(CUresult error, const char **text);
FAKE_API CUresult cuGetErrorName(CUresult error, const char **text);
FAKE_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
FAKE_API CUresult cuDeviceGetCount(int *count);
FAKE_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
FAKE_API CUresult cuDeviceGetName(char *name, int len, CUdevice device);
FAKE_API CUresult cuDeviceGetUuid(void *uuid, CUdevice device);
FAKE_API CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice device);
FAKE_API CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice device);
FAKE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
FAKE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
FAKE_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
FAKE_API CUresult cuCtxGetCurrent(CUcontext *context);
FAKE_API CUresult cuCtxSetCurrent(CUcontext context);
FAKE_API CUresult cuCtxGetDevice(CUdevice *device);
FAKE_API CUresult cuCtxSynchronize(void);
FAKE_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
FAKE_API CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr at);
FAKE_API CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
					 CUdeviceptr at);
FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes);
FAKE_API CUresult cuMemFree_v2(CUdeviceptr at);
FAKE_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
FAKE_API CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned int flags);
FAKE_API CUresult cuMemFreeHost(void *at);
FAKE_API CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags);
FAKE_API CUresult cuMemHostUnregister(void *at);
FAKE_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);
FAKE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
				       CUstream s);
FAKE_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s);
FAKE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
				       CUstream s);
FAKE_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
FAKE_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
FAKE_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
				  CUstream s);
FAKE_API CUresult cuLaunchHostFunc(CUstream s, void (*run)(void *), void *arg);
FAKE_API CUresult cuStreamCreate(CUstream *s, unsigned int flags);
FAKE_API CUresult cuStreamCreateWithPriority(CUstream *s, unsigned int flags, int priority);
FAKE_API CUresult cuStreamDestroy_v2(CUstream s);
FAKE_API CUresult cuStreamGetPriority(CUstream s, int *priority);
FAKE_API CUresult cuStreamQuery(CUstream s);
FAKE_API CUresult cuStreamSynchronize(CUstream s);
FAKE_API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags);
FAKE_API CUresult cuStreamGetCtx(CUstream s, CUcontext *context);
FAKE_API CUresult cuStreamIsCapturing(CUstream s, int *status);
FAKE_API CUresult cuStreamBeginCapture_v2(CUstream s, int mode);
FAKE_API CUresult cuStreamEndCapture(CUstream s, void **graph);
FAKE_API CUresult cuThreadExchangeStreamCaptureMode(int *mode);
FAKE_API CUresult cuEventCreate(CUevent *e, unsigned int flags);
FAKE_API CUresult cuEventRecord(CUevent e, CUstream s);
FAKE_API CUresult cuEventQuery(CUevent e);
FAKE_API CUresult cuEventSynchronize(CUevent e);
FAKE_API CUresult cuEventDestroy_v2(CUevent e);
FAKE_API CUresult cuModuleLoadData(CUmodule *module, const void *image);
FAKE_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
				     int *options, void **values);
FAKE_API CUresult cuModuleUnload(CUmodule module);
FAKE_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
FAKE_API CUresult cuFuncLoad(CUfunction function);
FAKE_API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
				 unsigned int grid_z, unsigned int block_x,
				 unsigned int block_y, unsigned int block_z,
				 unsigned int shared, CUstream s, void **parameters,
				 void **extra);

/* ---- between the two fakes, and for tests ---- */

/* fake_cuda_host - where the host finds [@at, @at + @bytes), if the device of the context may
 * touch it; NULL if not.  Memory of another device of this process is reachable, as by peer
 * access. */
FAKE_API void *fake_cuda_host(CUdeviceptr at, size_t bytes);

/* fake_cuda_enqueue - @run(@arg) at its turn on @s, while it holds @sms multiprocessors; @arg
 * is freed.  An error that it returns poisons the context. */
FAKE_API CUresult fake_cuda_enqueue(CUstream s, CUresult (*run)(void *arg), void *arg, int sms);

/* fake_cuda_current - the ordinal of the thread's device, or -1. */
FAKE_API int fake_cuda_current(void);

/* fake_cuda_physical - which of the machine has that ordinal here: CUDA_VISIBLE_DEVICES. */
FAKE_API int fake_cuda_physical(int device);

/* fake_cuda_is_poisoned - of the thread's context; work on its streams is then called to clean
 * up, and does nothing else. */
FAKE_API bool fake_cuda_is_poisoned(void);

struct fake_cuda_left {
	int allocations, streams, events, modules, registered, contexts;
	size_t bytes;
};

/* fake_cuda_left - what has been made and not been released. */
FAKE_API struct fake_cuda_left fake_cuda_left(void);

/* fake_cuda_launched - kernels that have been launched in this process.
 * fake_cuda_pageable - copies between a device and host memory that is not pinned. */
FAKE_API uint64_t fake_cuda_launched(void);
FAKE_API uint64_t fake_cuda_pageable(void);

/* fake_cuda_full - from now on all devices' memory is full, or no longer. */
FAKE_API void fake_cuda_full(bool is);

#endif
