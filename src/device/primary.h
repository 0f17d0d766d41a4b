/* primary.h - a GPU's primary context, with this library's kernels loaded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_PRIMARY_H
#define DEVICE_PRIMARY_H

#include <stdbool.h>

#include "base/err.h"
#include "device/driver.h"
#include "device/kernels.h"

/*
 * The context that a GPU has in common for all libraries of a process.  All jobs share it.
 *
 * The driver may wait for all work of the context when it loads a kernel, which it does at the
 * first launch unless it is told earlier.  A collective that runs may wait for another rank,
 * and that for this one.  So all kernels are loaded here, before there is a communicator.
 */
struct primary {
	const struct driver *driver;
	int number, device; /* as the program counts them, and the driver's */
	int users;
	driver_handle context, module;
	driver_handle kernel[DEVICE_KERNEL_COUNT];
	struct err why; /* the kernels do not load: the reason; code 0: they have */
	int priority;   /* the greatest of a stream */
	struct primary *next;
};

/*
 * primary_get - the context of the GPU @number, opened by the first call; primary_put - true if
 * that was the last user, which then calls primary_close().  Both with driver_lock() held.
 *
 * primary_close - releases it: waits for the GPU.  Without the lock.
 */
int primary_get(const struct driver *d, int number, struct primary **pp, struct err *e);
bool primary_put(struct primary *p);
void primary_close(struct primary *p);

/* A visit makes the context current in this thread, and permits calls that another thread's
 * capture of a graph forbids; primary_leave() puts back what was before.  Visits may nest. */
struct gpu_visit {
	void *context;
	int mode;
};

int primary_enter(const struct primary *p, struct gpu_visit *v, struct err *e);
void primary_leave(const struct primary *p, const struct gpu_visit *v);

#endif
