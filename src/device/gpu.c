/* gpu.c - a GPU that this process uses: its stream, events, memory and kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "device/gpu.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "device/driver.h"
#include "device/primary.h"
#include "device/staging.h"
#include "ringup.h"

/* An event that is kept for its next use, or, without an event, room to keep one. */
struct gpu_event {
	driver_handle event;
	struct gpu_event *next;
};

/* Memory of the GPU; work that is queued may still use one that was too small. */
struct gpu_block {
	driver_address at;
	size_t bytes;
	struct gpu_block *next;
};

struct gpu {
	const struct driver *driver;
	struct primary *primary;
	const void *job;
	int users;
	bool abandoned; /* atomic: what is queued may never end */
	driver_handle stream;
	int64_t moved_ns; /* atomic */
	struct staging staging;
	pthread_mutex_t events; /* guards the lists */
	struct gpu_event *idle, *spent;
	struct gpu_block *room; /* those before it were too small */
	struct gpu *next;
};

/* Under driver_lock(): those of jobs, and those that were abandoned and have no job now. */
static struct gpu *gpus, *kept;

int gpu_number(const struct gpu *g)
{
	return g->primary->number;
}

void *gpu_stream(const struct gpu *g)
{
	return g->stream;
}

int gpu_where(const void *at, int *device, struct err *e)
{
	const struct driver *d = driver_get(e);

	return d ? driver_where(d, at, device, e) : e->code;
}

int gpu_count(void)
{
	struct err e;
	const struct driver *d = driver_get(&e);
	int count = 0;

	return d && !d->count(&count) ? count : 0;
}

int gpu_enter(struct gpu *g, struct gpu_visit *v, struct err *e)
{
	return primary_enter(g->primary, v, e);
}

void gpu_leave(struct gpu *g, const struct gpu_visit *v)
{
	primary_leave(g->primary, v);
}

bool gpu_is_over(void)
{
	return driver_is_over();
}

/* ---- life ---- */

/* Before other work of the GPU, since ranks wait for each other. */
static int streams_open(struct gpu *g, const struct driver *d, struct err *e)
{
	int priority = g->primary->priority;
	int rc = d->stream_new(&g->stream, DRIVER_STREAM_APART, priority);

	if (rc)
		return driver_failed(d, rc, "cuStreamCreate", e);
	rc = staging_open(&g->staging, d, priority, e);
	if (rc) {
		staging_close(&g->staging);
		(void)d->stream_free(g->stream);
	}
	return rc;
}

static int gpu_open(struct gpu *g, const struct driver *d, int number, struct err *e)
{
	struct gpu_visit v;
	int rc;

	g->driver = d;
	rc = primary_get(d, number, &g->primary, e);
	if (rc)
		return rc;
	rc = gpu_enter(g, &v, e);
	if (!rc) {
		rc = streams_open(g, d, e);
		gpu_leave(g, &v);
	}
	if (!rc)
		pthread_mutex_init(&g->events, NULL);
	else if (primary_put(g->primary))
		primary_close(g->primary);
	return rc;
}

static void free_events(struct gpu *g, struct gpu_event *list)
{
	struct gpu_event *next;

	for (; list; list = next) {
		next = list->next;
		if (list->event)
			(void)g->driver->event_free(list->event);
		free(list);
	}
}

static void free_blocks(struct gpu *g)
{
	struct gpu_block *b;

	while ((b = g->room)) {
		g->room = b->next;
		(void)g->driver->free(b->at);
		free(b);
	}
}

static void gpu_close(struct gpu *g)
{
	struct gpu_visit v;
	struct err e;

	if (!gpu_enter(g, &v, &e)) {
		free_events(g, g->idle);
		free_events(g, g->spent);
		free_blocks(g);
		staging_close(&g->staging);
		(void)g->driver->stream_free(g->stream);
		gpu_leave(g, &v);
	}
	pthread_mutex_destroy(&g->events);
	free(g);
}

/* Has all that is queued on it run? */
static bool is_dry(struct gpu *g)
{
	struct gpu_visit v;
	struct err e;
	bool dry;

	if (gpu_enter(g, &v, &e))
		return false;
	dry = !g->driver->stream_query(g->stream) && staging_is_idle(&g->staging);
	gpu_leave(g, &v);
	return dry;
}

/* One that was abandoned, and could be used all the same. */
static struct gpu *gpu_take_kept(int number)
{
	struct gpu **at, *g;

	for (at = &kept; *at; at = &(*at)->next)
		if (gpu_number(*at) == number && is_dry(*at))
			break;
	g = *at;
	if (!g)
		return NULL;
	*at = g->next;
	g->abandoned = false;
	return g;
}

static int gpu_new(const struct driver *d, int number, struct gpu **gp, struct err *e)
{
	struct gpu *g = gpu_take_kept(number);
	int rc = 0;

	if (!g) {
		g = calloc(1, sizeof(*g));
		rc = g ? gpu_open(g, d, number, e)
		       : fail(e, RINGUP_ENOMEM, "no memory for GPU %d", number);
		if (rc) {
			free(g);
			g = NULL;
		}
	}
	*gp = g;
	return rc;
}

int gpu_get(int device, const void *job, struct gpu **gp, struct err *e)
{
	const struct driver *d = driver_get(e);
	struct gpu *g;
	int rc = 0;

	*gp = NULL;
	if (!d)
		return e->code;
	driver_lock();
	for (g = gpus; g && (gpu_number(g) != device || g->job != job); g = g->next)
		;
	if (!g)
		rc = gpu_new(d, device, &g, e);
	if (g && !g->users) {
		g->job = job;
		g->next = gpus;
		gpus = g;
	}
	if (g)
		g->users++;
	driver_unlock();
	*gp = g;
	return rc;
}

void gpu_abandon(struct gpu *g)
{
	__atomic_store_n(&g->abandoned, true, __ATOMIC_RELEASE);
}

/* With the lock. */
static void gpu_unlist(struct gpu *g)
{
	struct gpu **at = &gpus;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
}

void gpu_put(struct gpu *g)
{
	struct primary *p = g ? g->primary : NULL;
	bool closes = false, last = false;

	if (!g)
		return;
	driver_lock();
	if (!--g->users) {
		gpu_unlist(g);
		closes = !__atomic_load_n(&g->abandoned, __ATOMIC_ACQUIRE);
		if (!closes) {
			g->next = kept;
			kept = g;
		}
	}
	driver_unlock();
	if (!closes)
		return;
	/* The driver may wait here for all work of the GPU, and others for the lock. */
	gpu_close(g);
	driver_lock();
	last = primary_put(p);
	driver_unlock();
	if (last)
		primary_close(p);
}

/* ---- events ---- */

/* An unused event; NULL: the driver or the memory refuses. */
static driver_handle event_take(struct gpu *g)
{
	struct gpu_event *at;
	driver_handle event = NULL;

	pthread_mutex_lock(&g->events);
	at = g->idle;
	if (at) {
		g->idle = at->next;
		event = at->event;
		at->event = NULL;
		at->next = g->spent;
		g->spent = at;
	}
	pthread_mutex_unlock(&g->events);
	if (!event && g->driver->event_new(&event, DRIVER_EVENT_PLAIN))
		return NULL;
	return event;
}

void gpu_unmark(struct gpu *g, void *event)
{
	struct gpu_event *at;

	pthread_mutex_lock(&g->events);
	at = g->spent;
	if (at)
		g->spent = at->next;
	else
		at = malloc(sizeof(*at));
	if (at) {
		at->event = event;
		at->next = g->idle;
		g->idle = at;
	}
	pthread_mutex_unlock(&g->events);
	if (!at)
		(void)g->driver->event_free(event);
}

/* 1: the stream may be used, 0: it is being captured into a graph, or another one is that the
 * legacy stream waits for. */
static int may_use(const struct gpu *g, void *stream, struct err *e)
{
	int status = 0, rc = g->driver->stream_capturing(stream, &status);

	if (rc == DRIVER_CAPTURE_IMPLICIT)
		return 0;
	return rc ? driver_failed(g->driver, rc, "cuStreamIsCapturing", e) : !status;
}

static int gpu_record(struct gpu *g, void *stream, void **event, struct err *e)
{
	driver_handle h;
	int rc = may_use(g, stream, e);

	if (rc < 0)
		return rc;
	if (!rc)
		return fail(
			e, RINGUP_EINVAL,
			"the stream, or one that CUDA's default stream waits for, is being "
			"captured, but ringup's collectives cannot be part of a CUDA graph; "
			"end the capture first");
	h = event_take(g);
	if (!h)
		return fail(e, RINGUP_ENOMEM, "GPU %d: no memory for an event", gpu_number(g));
	rc = g->driver->event_record(h, stream);
	if (rc) {
		gpu_unmark(g, h);
		return driver_failed(g->driver, rc, "cuEventRecord", e);
	}
	*event = h;
	return 0;
}

int gpu_mark(struct gpu *g, void *stream, void **event, struct err *e)
{
	struct gpu_visit v;
	int rc = gpu_enter(g, &v, e);

	if (rc)
		return rc;
	rc = gpu_record(g, stream, event, e);
	gpu_leave(g, &v);
	return rc;
}

bool gpu_outlives(const void *stream)
{
	return stream && stream != DRIVER_STREAM_OF_THREAD;
}

int gpu_hold(struct gpu *g, void *stream, void *event, struct err *e)
{
	struct gpu_visit v;
	int rc = gpu_enter(g, &v, e), may;

	if (rc)
		return rc;
	may = stream == g->stream ? 1 : may_use(g, stream, e);
	if (may > 0 && (rc = g->driver->stream_wait(stream, event, 0)))
		rc = driver_failed(g->driver, rc, "cuStreamWaitEvent", e);
	gpu_leave(g, &v);
	return may < 0 ? may : rc ? rc : !may;
}

int gpu_reached(struct gpu *g, void *event, struct err *e)
{
	struct gpu_visit v;
	int rc = gpu_enter(g, &v, e);

	if (rc)
		return gpu_is_over() ? 0 : rc;
	rc = g->driver->event_query(event);
	gpu_leave(g, &v);
	if (rc == DRIVER_NOT_READY || rc == DRIVER_ENDED)
		return 0;
	return rc ? driver_failed(g->driver, rc, "a collective on the GPU", e) : 1;
}

void gpu_moves(struct gpu *g)
{
	__atomic_store_n(&g->moved_ns, clock_ns(), __ATOMIC_RELAXED);
}

int64_t gpu_moved(const struct gpu *g)
{
	return __atomic_load_n(&g->moved_ns, __ATOMIC_RELAXED);
}

/* ---- memory ---- */

/* Twice as much as before, if there is so much, since tensors of a job differ in size. */
static int block_new(struct gpu *g, size_t bytes, size_t before, driver_address *at,
		     size_t *has, struct err *e)
{
	size_t more = before < bytes / 2 ? bytes : 2 * before;
	struct gpu_visit v;
	int rc = gpu_enter(g, &v, e);

	if (rc)
		return rc;
	*has = more > bytes ? more : bytes;
	rc = g->driver->alloc(at, *has);
	if (rc && *has > bytes) {
		*has = bytes;
		rc = g->driver->alloc(at, bytes);
	}
	gpu_leave(g, &v);
	if (!rc)
		return 0;
	driver_failed(g->driver, rc, "cuMemAlloc", e);
	return fail_in(e, "%zu bytes of GPU %d, to combine tensors", bytes, gpu_number(g));
}

/*
 * The driver frees memory when all that is queued on the GPU has run.  A thread that makes
 * progress must not wait for that: what has run last may wait for a rank that waits for this
 * one.  So a block that is too small is freed with the GPU.
 */
int gpu_room(struct gpu *g, size_t bytes, void **at, struct err *e)
{
	size_t has = g->room ? g->room->bytes : 0;
	struct gpu_block *b;

	if (bytes > has) {
		b = calloc(1, sizeof(*b));
		if (!b)
			return fail(e, RINGUP_ENOMEM, "no memory to combine tensors");
		if (block_new(g, bytes, has, &b->at, &b->bytes, e)) {
			free(b);
			return e->code;
		}
		b->next = g->room;
		g->room = b;
	}
	*at = g->room ? (void *)(uintptr_t)g->room->at : NULL;
	return 0;
}

/* ---- copies ---- */

int gpu_copy(struct gpu *g, void *to, const void *from, size_t bytes, struct staging_copy *c,
	     struct err *e)
{
	struct gpu_visit v;
	int rc = gpu_enter(g, &v, e);

	if (rc)
		return gpu_is_over() ? 0 : rc;
	rc = staging_move(&g->staging, to, from, bytes, c, e);
	gpu_leave(g, &v);
	return rc;
}

bool gpu_drop_copy(struct gpu *g, const struct staging_copy *c)
{
	struct gpu_visit v;
	struct err e;
	bool over;

	if (gpu_enter(g, &v, &e))
		return !gpu_is_over();
	over = staging_drop(&g->staging, c);
	gpu_leave(g, &v);
	return over;
}

/* ---- kernels ---- */

/* Without kernels plain copies still work, one by one. */
static int launch_copies(struct gpu *g, const struct device_move *m, struct err *e)
{
	for (uint32_t i = 0; i < m->pieces; i++) {
		const struct device_piece *p = &m->piece[i];
		int rc = g->driver->copy((driver_address)(uintptr_t)p->to,
					 (driver_address)(uintptr_t)p->from,
					 (size_t)p->count * m->element, g->stream);

		if (rc)
			return driver_failed(g->driver, rc, "cuMemcpyAsync", e);
	}
	return 0;
}

static int launch(struct gpu *g, enum device_kernel k, struct device_move *m, struct err *e)
{
	const struct primary *p = g->primary;
	void *params[] = { m };
	int rc;

	if (p->why.code && k == DEVICE_COPY)
		return launch_copies(g, m, e);
	if (p->why.code) {
		*e = p->why;
		return e->code;
	}
	rc = g->driver->launch(p->kernel[k], kernel_move_grid(m), 1, 1, DEVICE_THREADS, 1, 1, 0,
			       g->stream, params, NULL);
	return rc ? driver_failed(g->driver, rc, "cuLaunchKernel", e) : 0;
}

int gpu_launch(struct gpu *g, enum device_kernel k, struct device_move *m, struct err *e)
{
	struct gpu_visit v;
	int rc = m->pieces ? gpu_enter(g, &v, e) : 0;

	if (rc || !m->pieces)
		return rc;
	rc = launch(g, k, m, e);
	gpu_leave(g, &v);
	return rc;
}
