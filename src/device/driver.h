/* driver.h - CUDA's driver, libcuda.so.1, opened when it is needed: the calls in use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_DRIVER_H
#define DEVICE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Handles and addresses as the driver has them; a stream or event of the runtime is the same.
 */
typedef void *driver_handle;
typedef uint64_t driver_address;

/* Results that mean something to this library; every other one is an error. */
enum {
	DRIVER_OK = 0,
	DRIVER_ENDED = 4, /* the process exits, and the driver has shut down */
	DRIVER_NOT_READY = 600,
	DRIVER_CAPTURE_IMPLICIT = 906, /* the legacy stream, while a stream that it waits for
					* is being captured */
};

/* Numbers of the driver's interface. */
enum {
	DRIVER_EVENT_PLAIN = 2,     /* an event without a time             */
	DRIVER_STREAM_APART = 1,    /* does not wait for the legacy stream */
	DRIVER_CAPTURE_RELAXED = 2, /* no capture forbids this thread calls */
	DRIVER_POINTER_KIND = 2,    /* attributes of an address            */
	DRIVER_POINTER_DEVICE = 9,
	DRIVER_KIND_DEVICE = 2, /* a kind of memory                    */
	DRIVER_MAJOR = 75,      /* attributes of a device: its compute capability */
	DRIVER_MINOR = 76,
	DRIVER_JIT_LOG = 5, /* options of a load: where its errors go, and the size of that */
	DRIVER_JIT_LOG_BYTES = 6,
};

/* CU_STREAM_PER_THREAD: in each thread that names it a stream of its own. */
#define DRIVER_STREAM_OF_THREAD ((driver_handle)2)

/*
 * The calls, by the names that the library exports: name here, symbol there, parameters.  All
 * return 0 or an error.
 */
#define DRIVER_CALLS(X)                                                                    \
	X(init, "cuInit", (unsigned int flags))                                            \
	X(version, "cuDriverGetVersion", (int *version))                                   \
	X(error_text, "cuGetErrorString", (int error, const char **text))                  \
	X(count, "cuDeviceGetCount", (int *count))                                         \
	X(device, "cuDeviceGet", (int *device, int ordinal))                               \
	X(attribute, "cuDeviceGetAttribute", (int *value, int which, int device))          \
	X(retain, "cuDevicePrimaryCtxRetain", (driver_handle * context, int device))       \
	X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                           \
	X(current, "cuCtxGetCurrent", (driver_handle * context))                           \
	X(make_current, "cuCtxSetCurrent", (driver_handle context))                        \
	X(pointer, "cuPointerGetAttributes",                                               \
	  (unsigned int count, int *which, void **out, driver_address at))                 \
	X(alloc, "cuMemAlloc_v2", (driver_address * at, size_t bytes))                     \
	X(free, "cuMemFree_v2", (driver_address at))                                       \
	X(host_pin, "cuMemHostRegister_v2", (void *at, size_t bytes, unsigned int flags))  \
	X(host_unpin, "cuMemHostUnregister", (void *at))                                   \
	X(copy, "cuMemcpyAsync",                                                           \
	  (driver_address to, driver_address from, size_t bytes, driver_handle stream))    \
	X(priorities, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))          \
	X(stream_new, "cuStreamCreateWithPriority",                                        \
	  (driver_handle * stream, unsigned int flags, int priority))                      \
	X(stream_free, "cuStreamDestroy_v2", (driver_handle stream))                       \
	X(stream_query, "cuStreamQuery", (driver_handle stream))                           \
	X(stream_wait, "cuStreamWaitEvent",                                                \
	  (driver_handle stream, driver_handle event, unsigned int flags))                 \
	X(stream_capturing, "cuStreamIsCapturing", (driver_handle stream, int *status))    \
	X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                  \
	X(event_new, "cuEventCreate", (driver_handle * event, unsigned int flags))         \
	X(event_record, "cuEventRecord", (driver_handle event, driver_handle stream))      \
	X(event_query, "cuEventQuery", (driver_handle event))                              \
	X(event_free, "cuEventDestroy_v2", (driver_handle event))                          \
	X(module_load, "cuModuleLoadDataEx",                                               \
	  (driver_handle * module, const void *image, unsigned int options, int *option,   \
	   void **value))                                                                  \
	X(module_unload, "cuModuleUnload", (driver_handle module))                         \
	X(module_function, "cuModuleGetFunction",                                          \
	  (driver_handle * function, driver_handle module, const char *name))              \
	X(launch, "cuLaunchKernel",                                                        \
	  (driver_handle function, unsigned int grid_x, unsigned int grid_y,               \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y,                \
	   unsigned int block_z, unsigned int shared, driver_handle stream, void **params, \
	   void **extra))

struct driver {
#define X(name, symbol, params) int(*name) params;
	DRIVER_CALLS(X)
#undef X
	int (*function_load)(driver_handle function); /* cuFuncLoad; NULL before CUDA 12.3 */
};

/*
 * driver_open - opens the library without starting CUDA, once: RINGUP_ENOBACKEND, with the
 * reason and what to do, if there is no libcuda.so.1 or it lacks a call.
 *
 * driver_get - the driver, opened and started (cuInit) by the first call that succeeds; it
 * stays open.  NULL, with the reason and what to do: as above, it finds no GPU, or the process
 * has forked since.
 *
 * The start of a job calls driver_open() only.  CUDA reads CUDA_VISIBLE_DEVICES once, when it
 * starts, and serves no child of fork() from then on; so it starts with the first GPU tensor,
 * as late as in the program's framework.  Threads: any.
 */
int driver_open(struct err *e);
const struct driver *driver_get(struct err *e);

/* driver_lock - guards what src/device and the back end nccl share between threads;
 * driver_get() takes it.  It is
 * free in a child of fork(), even if another thread held it. */
void driver_lock(void);
void driver_unlock(void);

/* driver_failed - RINGUP_ESYSTEM, with the driver's words for @rc; says so if the device can do
 * nothing more for this process, or if a kernel before @what may be the cause. */
int driver_failed(const struct driver *d, int rc, const char *what, struct err *e);

/* driver_is_over - has a call found that the driver has shut down, since the process exits? */
bool driver_is_over(void);

/* driver_where - the number of the device whose memory is at @at; RINGUP_EINVAL if it is no
 * device's. */
int driver_where(const struct driver *d, const void *at, int *device, struct err *e);

#endif
