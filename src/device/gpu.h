/* gpu.h - a GPU that this process uses: its stream, events, memory and kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_GPU_H
#define DEVICE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/kernels.h"
#include "device/primary.h"

struct err;
struct gpu;
struct staging_copy;

/*
 * All communicators of a job on one GPU share a struct gpu, and its one stream: what is queued
 * there runs in the order in which it was queued.
 *
 * Every function that takes a struct gpu makes the GPU's primary context current in the calling
 * thread and puts back what was current before, so any thread may call.  While another thread
 * captures a graph the calls are permitted, and are not captured.
 */

/*
 * gpu_get - the GPU that has the number @device, as the job @job has it, opened at the first
 * call, which may wait for work of the GPU: kernels are loaded then.  A GPU that is too old is
 * RINGUP_ENOBACKEND.
 *
 * gpu_put - the last user closes it: its stream, events and memory go, and the driver may wait
 * for all work of the GPU.
 *
 * gpu_abandon - the job has failed, and what is queued may never end: the last gpu_put() calls
 * nothing that waits.  The next job has it, once that has ended; until then it stays.
 */
int gpu_get(int device, const void *job, struct gpu **gp, struct err *e);
void gpu_put(struct gpu *g);
void gpu_abandon(struct gpu *g);

/* gpu_where - the number of the GPU that has the memory at @at; RINGUP_EINVAL: none has. */
int gpu_where(const void *at, int *device, struct err *e);

/* gpu_count - how many this process can see; 0: none, or there is no driver. */
int gpu_count(void);

int gpu_number(const struct gpu *g);
void *gpu_stream(const struct gpu *g);

/* A visit makes several calls at the price of one change of contexts; visits may nest. */
int gpu_enter(struct gpu *g, struct gpu_visit *v, struct err *e);
void gpu_leave(struct gpu *g, const struct gpu_visit *v);

/* gpu_is_over - has the driver shut down, since the process exits?  All calls then fail, and
 * nobody is to hear of it: other ranks learn that the process has ended. */
bool gpu_is_over(void);

/*
 * gpu_mark - an event behind all that is queued on @stream now; gpu_unmark gives it back.
 *
 * A stream that is being captured is refused, with the cure.  CUDA's default stream is
 * CU_STREAM_LEGACY, (void *)1; to CUDA NULL is the same.
 */
int gpu_mark(struct gpu *g, void *stream, void **event, struct err *e);
void gpu_unmark(struct gpu *g, void *event);

/* gpu_outlives - does @stream, of an operation, mean the same in every thread?  NULL and
 * CU_STREAM_PER_THREAD, (void *)2, do not: it is the stream of the thread that names it.  A
 * thread marks its own; no other can hold it, so the operation is complete when it has run. */
bool gpu_outlives(const void *stream);

/* gpu_hold - what is queued on @stream from now on waits for @event: 0; 1 if it does not, since
 * the stream is being captured: call again when that has ended; negative for an error. */
int gpu_hold(struct gpu *g, void *stream, void *event, struct err *e);

/* gpu_reached - 1 when all that is before @event has run, 0 before, negative for an error,
 * which may be that of any earlier work of the process. */
int gpu_reached(struct gpu *g, void *event, struct err *e);

/* gpu_moves - something on the GPU's own stream has been seen to end, just now.
 * gpu_moved - when that was last, by clock_ns(); 0: never.  Threads: any. */
void gpu_moves(struct gpu *g);
int64_t gpu_moved(const struct gpu *g);

/* gpu_room - the GPU's memory for work on its stream, at least @bytes, which all groups use one
 * after the other.  Does not wait for the GPU; by one thread at a time. */
int gpu_room(struct gpu *g, size_t bytes, void **at, struct err *e);

/* gpu_copy, gpu_drop_copy - staging_move() and staging_drop(), of the GPU's memory. */
int gpu_copy(struct gpu *g, void *to, const void *from, size_t bytes, struct staging_copy *c,
	     struct err *e);
bool gpu_drop_copy(struct gpu *g, const struct staging_copy *c);

/* gpu_launch - queues kernel @k on the GPU's stream; without pieces it does nothing. */
int gpu_launch(struct gpu *g, enum device_kernel k, struct device_move *m, struct err *e);

#endif
