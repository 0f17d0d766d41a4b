/* device.c - for tests: a back end of a "device" with memory, queues and a thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/wait.h"
#include "base/err.h"
#include "coll/reduce.h"
#include "wire/segment.h"
#include "wire/wake_fd.h"

enum { SLOTS = 4, STREAM_ROOM = 64, YIELDS = 20 };

/* ---- memory ---- */

/* No address of a process has this bit. */
#define FAR_BIT ((uintptr_t)1 << 62)

void *device_malloc(size_t bytes)
{
	return (void *)((uintptr_t)malloc(bytes ? bytes : 1) | FAR_BIT);
}

void device_free(void *at)
{
	free(device_host(at));
}

void *device_host(const void *at)
{
	return (void *)((uintptr_t)at & ~FAR_BIT);
}

int device_is(const void *at)
{
	return ((uintptr_t)at & FAR_BIT) != 0;
}

/* ---- streams ---- */

struct fill {
	float *at, value;
	size_t count;
	const int *gate;
};

struct device_stream {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	struct fill fill[STREAM_ROOM];
	uint64_t put, done;
	bool stop;
};

static void *stream_main(void *arg)
{
	struct device_stream *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct fill f;
		size_t i;

		while (s->done == s->put && !s->stop)
			pthread_cond_wait(&s->news, &s->lock);
		if (s->done == s->put)
			break;
		f = s->fill[s->done % STREAM_ROOM];
		pthread_mutex_unlock(&s->lock);
		while (f.gate && !__atomic_load_n(f.gate, __ATOMIC_ACQUIRE))
			sched_yield();
		for (i = 0; i < f.count; i++)
			f.at[i] = f.value;
		pthread_mutex_lock(&s->lock);
		s->done++;
		pthread_cond_broadcast(&s->news);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

struct device_stream *device_stream_new(void)
{
	struct device_stream *s = calloc(1, sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->news, NULL);
	pthread_create(&s->thread, NULL, stream_main, s);
	return s;
}

void device_stream_free(struct device_stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->news);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void device_fill(struct device_stream *s, void *at, size_t count, float value, const int *gate)
{
	pthread_mutex_lock(&s->lock);
	while (s->put - s->done == STREAM_ROOM)
		pthread_cond_wait(&s->news, &s->lock);
	s->fill[s->put++ % STREAM_ROOM] = (struct fill){ device_host(at), value, count, gate };
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
}

static void stream_wait(struct device_stream *s, uint64_t mark)
{
	pthread_mutex_lock(&s->lock);
	while (s->done < mark)
		pthread_cond_wait(&s->news, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t stream_mark(struct device_stream *s)
{
	uint64_t mark;

	pthread_mutex_lock(&s->lock);
	mark = s->put;
	pthread_mutex_unlock(&s->lock);
	return mark;
}

void device_sync(struct device_stream *s)
{
	stream_wait(s, stream_mark(s));
}

/* ---- the back end ---- */

enum job_state { JOB_FREE, JOB_QUEUED, JOB_DONE, JOB_FAILED };

/* One plan in flight, with its data on the device. */
struct job {
	enum job_state state;
	uint64_t serial, mark;
	const struct plan *plan;
	struct plan here;
	struct piece *piece;
	struct err why;
};

struct device {
	const struct topo *topo;
	const struct backend *mover; /* that moves data between ranks */
	void *mover_self;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	bool has_thread, stop, idle;
	bool aborted; /* atomic */
	int bell;     /* an eventfd: the thread has finished something */
	struct pollfd poll[2];
	struct wake_fd wake_fd;
	struct job job[SLOTS];
	uint64_t put, taken; /* plans that have begun, and that the thread has taken */
	int in_flight;
};

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t count_begun;
static int count_most;

void device_counts(uint64_t *begun, int *most)
{
	pthread_mutex_lock(&count_lock);
	*begun = count_begun;
	*most = count_most;
	pthread_mutex_unlock(&count_lock);
}

static void count(int in_flight)
{
	pthread_mutex_lock(&count_lock);
	count_begun++;
	count_most = in_flight > count_most ? in_flight : count_most;
	pthread_mutex_unlock(&count_lock);
}

/* Elements at out of a piece. */
static uint64_t out_count(const struct device *d, const struct plan *p, const struct piece *t)
{
	size_t n = (size_t)d->topo->size, i;
	uint64_t all = 0;

	switch (p->kind) {
	case PLAN_ALLGATHER:
		for (i = 0; i < n; i++)
			all += p->counts[i];
		return all;
	case PLAN_REDUCESCATTER:
		return p->counts[d->topo->rank];
	case PLAN_ALLTOALL:
		for (i = 0; i < n; i++)
			all += p->matrix[i * n + (size_t)d->topo->rank];
		return all;
	case PLAN_ALLREDUCE:
	case PLAN_BROADCAST:
	case PLAN_BARRIER:
		break;
	}
	return t->count;
}

/* What is the host's is copied to the device, whose own is used where it is. */
static void copy_in(struct device *d, struct job *j)
{
	const struct plan *p = j->plan;
	size_t size = reduce_dtype_bytes(p->dtype);
	int i;

	j->here = *p;
	j->piece = calloc((size_t)p->pieces + 1, sizeof(*j->piece));
	j->here.piece = j->piece;
	for (i = 0; i < p->pieces; i++) {
		const struct piece *t = &p->piece[i];
		uint64_t in = t->count * size, out = out_count(d, p, t) * size;

		j->piece[i] = *t;
		if (t->memory == RINGUP_CUDA) {
			j->piece[i].in = t->in ? device_host(t->in) : NULL;
			j->piece[i].out = t->out ? device_host(t->out) : NULL;
			continue;
		}
		j->piece[i].in = NULL;
		j->piece[i].out = NULL;
		if (t->in && (j->piece[i].in = malloc(in ? in : 1)))
			memcpy((void *)(uintptr_t)j->piece[i].in, t->in, in);
		if (t->out)
			j->piece[i].out = malloc(out ? out : 1);
	}
}

static void copy_out(struct device *d, struct job *j, bool well)
{
	const struct plan *p = j->plan;
	size_t size = reduce_dtype_bytes(p->dtype);
	int i;

	for (i = 0; i < p->pieces; i++) {
		const struct piece *t = &p->piece[i];

		if (t->memory == RINGUP_CUDA)
			continue;
		/* The root of a broadcast keeps what it has. */
		if (well && t->out &&
		    !(p->kind == PLAN_BROADCAST && p->root == d->topo->rank && t->in == t->out))
			memcpy(t->out, j->piece[i].out, out_count(d, p, t) * size);
		free((void *)(uintptr_t)j->piece[i].in);
		free(j->piece[i].out);
	}
	free(j->piece);
	j->piece = NULL;
}

static bool is_aborted(const struct device *d)
{
	return __atomic_load_n(&d->aborted, __ATOMIC_ACQUIRE);
}

/* Streams first: all that is on them when the plan begins. */
static void wait_streams(const struct plan *p, uint64_t mark)
{
	int i;

	for (i = 0; i < p->pieces; i++)
		if (p->piece[i].stream)
			stream_wait(p->piece[i].stream, mark);
}

/* The other ranks are late: leave the processor to them, at first for a moment only. */
static void nap(int turn)
{
	static const struct timespec some = { 0, 50000 };

	if (turn < YIELDS)
		sched_yield();
	else
		nanosleep(&some, NULL);
}

static int carry_out(struct device *d, struct job *j)
{
	int turn = 0, rc;

	wait_streams(j->plan, j->mark);
	copy_in(d, j);
	rc = d->mover->start(d->mover_self, &j->here, &j->why);
	while (!rc && !is_aborted(d)) {
		rc = d->mover->step(d->mover_self, &j->here, &j->why);
		if (!rc)
			nap(turn++);
	}
	copy_out(d, j, rc > 0);
	return rc;
}

static void ring(struct device *d)
{
	uint64_t one = 1;

	while (write(d->bell, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void *device_main(void *arg)
{
	struct device *d = arg;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		struct job *j;
		int rc;

		d->idle = true;
		pthread_cond_broadcast(&d->news);
		while (!d->stop && (d->taken == d->put || is_aborted(d)))
			pthread_cond_wait(&d->news, &d->lock);
		if (d->stop)
			break;
		j = &d->job[d->taken++ % SLOTS];
		d->idle = false;
		pthread_mutex_unlock(&d->lock);
		rc = carry_out(d, j);
		pthread_mutex_lock(&d->lock);
		j->state = rc > 0 ? JOB_DONE : JOB_FAILED;
		ring(d);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* The back end that would serve without this one. */
static int open_mover(struct device *d, const struct topo *t, struct err *e)
{
	extern const struct backend backend_self, backend_node, backend_tcp;
	static const struct backend *const movers[] = { &backend_self, &backend_node,
							&backend_tcp };
	size_t i;

	for (i = 0; i < sizeof(movers) / sizeof(movers[0]); i++) {
		d->mover = movers[i];
		d->mover_self = calloc(1, movers[i]->size);
		if (!movers[i]->open(d->mover_self, t, e))
			return 0;
		movers[i]->close(d->mover_self);
		free(d->mover_self);
		d->mover_self = NULL;
	}
	return e->code;
}

/* All ranks of the group have the same back end, which they tell each other. */
static int agree_on_mover(const struct device *d, const struct topo *t, struct err *e)
{
	char mine[8] = { 0 }, *all;
	int r, rc = 0;

	if (!t->exchange || t->size == 1)
		return 0;
	memcpy(mine, d->mover->name, strlen(d->mover->name));
	all = calloc((size_t)t->size, sizeof(mine));
	if (t->exchange(t->exchange_ctx, mine, sizeof(mine), all))
		rc = fail(e, RINGUP_EPEER, "the ranks of the device cannot exchange");
	for (r = 0; r < t->size && !rc; r++)
		if (memcmp(all + (size_t)r * sizeof(mine), mine, sizeof(mine)))
			rc = fail(e, RINGUP_ENOBACKEND, "rank %d has another one", r);
	free(all);
	return rc;
}

static int device_open(void *self, const struct topo *t, struct err *e)
{
	struct device *d = self;
	int rc = open_mover(d, t, e);

	d->topo = t;
	d->bell = -1;
	if (!rc)
		rc = agree_on_mover(d, t, e);
	if (!rc && t->segment)
		rc = wake_fd_open(&d->wake_fd, e);
	if (rc)
		return rc;
	d->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->news, NULL);
	d->has_thread = !pthread_create(&d->thread, NULL, device_main, d);
	return d->has_thread && d->bell >= 0
		       ? 0
		       : fail(e, RINGUP_ESYSTEM, "no thread for a device");
}

static bool device_can(const void *self, const struct plan *p)
{
	const struct device *d = self;

	return d->mover->can(d->mover_self, p);
}

static int device_start(void *self, const struct plan *p, struct err *e)
{
	struct device *d = self;
	struct job *j = &d->job[p->slot];
	int i;

	pthread_mutex_lock(&d->lock);
	if (j->state != JOB_FREE || p->serial != d->put || p->slot != (int)(d->put % SLOTS)) {
		pthread_mutex_unlock(&d->lock);
		return fail(e, RINGUP_EINVAL, "plan %llu comes into slot %d, which is not its",
			    (unsigned long long)p->serial, p->slot);
	}
	*j = (struct job){ .state = JOB_QUEUED, .serial = p->serial, .plan = p };
	for (i = 0; i < p->pieces; i++)
		if (p->piece[i].stream)
			j->mark = stream_mark(p->piece[i].stream);
	d->put++;
	count(++d->in_flight);
	pthread_cond_broadcast(&d->news);
	pthread_mutex_unlock(&d->lock);
	return 0;
}

/* Of several in flight the last is told first that it is done. */
static bool is_held_back(const struct device *d, const struct job *j)
{
	const struct job *next = &d->job[(j->serial + 1) % SLOTS];

	return next->serial == j->serial + 1 &&
	       (next->state == JOB_QUEUED || next->state == JOB_DONE);
}

static int device_step(void *self, const struct plan *p, struct err *e)
{
	struct device *d = self;
	struct job *j = &d->job[p->slot];
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	if (j->state == JOB_FAILED) {
		*e = j->why;
		rc = e->code ? e->code
			     : fail(e, RINGUP_EABORTED, "the device was told to stop");
	} else if (j->state == JOB_DONE && !is_held_back(d, j)) {
		j->state = JOB_FREE;
		d->in_flight--;
		rc = 1;
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static bool device_ready(void *self)
{
	struct device *d = self;
	bool any = __atomic_load_n(d->topo->abort, __ATOMIC_RELAXED);
	int i;

	pthread_mutex_lock(&d->lock);
	for (i = 0; i < SLOTS; i++)
		any |= d->job[i].state == JOB_FAILED ||
		       (d->job[i].state == JOB_DONE && !is_held_back(d, &d->job[i]));
	pthread_mutex_unlock(&d->lock);
	return any;
}

static bool device_wait(void *self, struct wait_on *w)
{
	struct device *d = self;
	uint64_t rung;

	(void)!read(d->bell, &rung, sizeof(rung));
	if (device_ready(d))
		return false;
	d->poll[0] = (struct pollfd){ d->bell, POLLIN, 0 };
	w->waitset = d->topo->segment ? &d->topo->segment->waitset : NULL;
	w->rank = WAITSET_ANY;
	w->ready = device_ready;
	w->self = d;
	w->fd = d->poll;
	w->fds = 1;
	w->wake_fd = &d->wake_fd;
	return true;
}

static void device_abort(void *self)
{
	struct device *d = self;

	__atomic_store_n(&d->aborted, true, __ATOMIC_RELEASE);
	pthread_mutex_lock(&d->lock);
	while (!d->idle)
		pthread_cond_wait(&d->news, &d->lock);
	d->mover->abort(d->mover_self);
	pthread_mutex_unlock(&d->lock);
}

static void device_close(void *self)
{
	struct device *d = self;

	if (d->has_thread) {
		pthread_mutex_lock(&d->lock);
		d->stop = true;
		__atomic_store_n(&d->aborted, true, __ATOMIC_RELEASE);
		pthread_cond_broadcast(&d->news);
		pthread_mutex_unlock(&d->lock);
		pthread_join(d->thread, NULL);
		pthread_cond_destroy(&d->news);
		pthread_mutex_destroy(&d->lock);
	}
	if (d->bell > 0)
		close(d->bell);
	wake_fd_close(&d->wake_fd);
	if (d->mover_self) {
		d->mover->close(d->mover_self);
		free(d->mover_self);
	}
	memset(d, 0, sizeof(*d));
}

#define DEVICE_FIELDS                                                                          \
	.summary = "a thread that stands for a device, in tests",                              \
	.size = sizeof(struct device), .memory = MEMORY_OF_HOST | MEMORY_CUDA, .slots = SLOTS, \
	.open = device_open, .can = device_can, .start = device_start, .step = device_step,    \
	.wait = device_wait, .abort = device_abort, .close = device_close

/* As "tcp", which a test asks for, each rank is a host of its own. */
static const struct backend backend_device = { .name = "device", DEVICE_FIELDS };
static const struct backend backend_device_tcp = { .name = "tcp", DEVICE_FIELDS };

/* ---- instead of backends.c's list ---- */

extern const struct backend backend_self, backend_node, backend_mpi, backend_tcp;

const struct backend *const backends[] = {
	&backend_device, &backend_device_tcp, &backend_self, &backend_node,
	&backend_mpi,    &backend_tcp,        NULL
};
