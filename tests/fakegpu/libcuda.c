/* libcuda.c - for tests: a stand-in for CUDA's driver, libcuda.so.1; see fakecuda.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/fakecuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fakegpu/faults.h"
#include "fakegpu/ptx.h"

/* No address of a process has this bit. */
#define FAR_BIT ((uint64_t)1 << 62)

enum {
	GRANULE = 256,
	CAPTURE_NONE = -1,
	MEMORY_BYTES = 1 << 30,
	DIRTY_BYTES = 1 << 20,
	PRIORITY = -5
};

/* ---- objects ---- */

struct fake_context {
	int device, retained, physical;
	CUresult poison; /* of all calls after a fault; atomic */
	struct fake_stream *legacy;
	pthread_mutex_t lock;
	pthread_cond_t freed;
	int sms;              /* that are free */
	uint64_t asked, next; /* kernels get them in the order in which they ask */
};

/* Work on a stream: run(arg), or wait until another stream has done so much. */
struct work {
	struct work *next;
	CUresult (*run)(void *arg);
	void *arg;
	int sms;
	struct fake_stream *after;
	uint64_t mark;
};

struct fake_stream {
	struct fake_stream *others;
	struct fake_context *context;
	bool blocking, destroyed, stopped;
	int priority;
	pthread_mutex_t lock;
	pthread_cond_t news;
	struct work *head, **tail;
	uint64_t put, done;
	int capture; /* CAPTURE_NONE, or a mode; atomic */
	bool invalid;
	pthread_t capturer;
};

struct fake_event {
	struct fake_event *others;
	struct fake_context *context;
	struct fake_stream *on; /* NULL: never recorded */
	uint64_t mark;
	struct fake_stream *captured;
};

struct fake_module {
	struct fake_module *others;
	struct fake_context *context;
	struct ptx *ptx;
	struct fake_function *functions;
};

struct fake_function {
	struct fake_function *others;
	struct fake_context *context;
	const struct ptx_kernel *kernel;
	bool loaded; /* atomic */
};

/* Memory of a device, or of the host that a device may use. */
struct range {
	struct range *others;
	struct fake_context *context;
	unsigned char *host;
	size_t bytes;
	bool on_device, owned;
};

static struct {
	pthread_mutex_t lock;
	pid_t pid;
	bool over; /* atomic: the process exits */
	bool full; /* atomic */
	int devices;
	struct fake_context context[FAKE_DEVICES];
	struct fake_stream *streams;
	struct fake_event *events;
	struct fake_module *modules;
	struct range *ranges;
	uint64_t allocated, launched, pageable;
	int streams_left, capturing;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local struct fake_context *current;
static _Thread_local int thread_mode = CAPTURE_GLOBAL;
static _Thread_local struct fake_stream *of_thread[FAKE_DEVICES]; /* handle 2 */

static void lock(void)
{
	pthread_mutex_lock(&all.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&all.lock);
}

static void nap_us(long us)
{
	if (us > 0)
		usleep((useconds_t)us);
}

/* ---- what every call asks first ---- */

static CUresult is_ready(void)
{
	if (__atomic_load_n(&all.over, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_DEINITIALIZED;
	return all.pid && all.pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult context_poison(const struct fake_context *c)
{
	return __atomic_load_n(&c->poison, __ATOMIC_ACQUIRE);
}

static bool is_captured(const struct fake_stream *s)
{
	return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE) != CAPTURE_NONE;
}

static CUresult has_context(void)
{
	CUresult bad = is_ready();

	if (bad)
		return bad;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!__atomic_load_n(&current->retained, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return context_poison(current);
}

/* Is a stream captured in a way that forbids this thread a call that might wait? */
static CUresult is_safe(void)
{
	struct fake_stream *s;
	bool forbidden = false;

	if (!__atomic_load_n(&all.capturing, __ATOMIC_ACQUIRE) ||
	    thread_mode == CAPTURE_RELAXED)
		return CUDA_SUCCESS;
	lock();
	for (s = all.streams; s; s = s->others) {
		bool mine = s->capture != CAPTURE_NONE &&
			    pthread_equal(s->capturer, pthread_self());
		bool bad = mine ? s->capture != CAPTURE_RELAXED
				: s->capture == CAPTURE_GLOBAL && thread_mode == CAPTURE_GLOBAL;

		s->invalid |= bad;
		forbidden |= bad;
	}
	unlock();
	return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static CUresult may_wait(void)
{
	CUresult bad = has_context();

	return bad ? bad : is_safe();
}

/* ---- multiprocessors ---- */

static void sms_take(struct fake_context *c, int sms)
{
	uint64_t mine;

	pthread_mutex_lock(&c->lock);
	mine = c->asked++;
	while (c->next != mine || c->sms < sms)
		pthread_cond_wait(&c->freed, &c->lock);
	c->sms -= sms;
	c->next++;
	pthread_cond_broadcast(&c->freed);
	pthread_mutex_unlock(&c->lock);
}

static void sms_give(struct fake_context *c, int sms)
{
	pthread_mutex_lock(&c->lock);
	c->sms += sms;
	pthread_cond_broadcast(&c->freed);
	pthread_mutex_unlock(&c->lock);
}

/* ---- streams ---- */

static void stream_await(struct fake_stream *s, uint64_t mark)
{
	pthread_mutex_lock(&s->lock);
	while (s->done < mark)
		pthread_cond_wait(&s->news, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t stream_mark(struct fake_stream *s)
{
	uint64_t mark;

	pthread_mutex_lock(&s->lock);
	mark = s->put;
	pthread_mutex_unlock(&s->lock);
	return mark;
}

static bool stream_has_done(struct fake_stream *s, uint64_t mark)
{
	bool is;

	pthread_mutex_lock(&s->lock);
	is = s->done >= mark;
	pthread_mutex_unlock(&s->lock);
	return is;
}

static void work_do(struct fake_stream *s, struct work *w)
{
	struct fake_context *c = s->context;
	CUresult bad = CUDA_SUCCESS;

	if (w->after)
		stream_await(w->after, w->mark);
	else if (w->run && w->sms)
		sms_take(c, w->sms);
	if (w->run)
		bad = w->run(w->arg);
	if (bad)
		__atomic_store_n(&c->poison, bad, __ATOMIC_RELEASE);
	if (!w->after && w->run && w->sms)
		sms_give(c, w->sms);
	free(w->arg);
	free(w);
}

static void *stream_main(void *arg)
{
	struct fake_stream *s = arg;

	current = s->context;
	thread_mode = CAPTURE_RELAXED;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct work *w;

		while (!s->head && !s->destroyed)
			pthread_cond_wait(&s->news, &s->lock);
		if (!s->head)
			break;
		w = s->head;
		s->head = w->next;
		if (!s->head)
			s->tail = &s->head;
		pthread_mutex_unlock(&s->lock);
		work_do(s, w);
		pthread_mutex_lock(&s->lock);
		s->done++;
		pthread_cond_broadcast(&s->news);
	}
	s->stopped = true;
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static struct fake_stream *stream_new(struct fake_context *c, bool blocking)
{
	struct fake_stream *s = calloc(1, sizeof(*s));
	pthread_attr_t detached;
	pthread_t thread;

	s->context = c;
	s->blocking = blocking;
	s->capture = CAPTURE_NONE;
	s->tail = &s->head;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->news, NULL);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &detached, stream_main, s))
		abort();
	pthread_attr_destroy(&detached);
	lock();
	s->others = all.streams;
	all.streams = s;
	unlock();
	return s;
}

/* NULL and 1 are the legacy stream of the thread's context, 2 is the thread's own.  NULL: no
 * such stream. */
static struct fake_stream *stream_of(CUstream handle)
{
	struct fake_stream *s;

	if (handle == NULL || handle == (CUstream)1)
		return current->legacy;
	if (handle == (CUstream)2) {
		if (!of_thread[current->device])
			of_thread[current->device] = stream_new(current, true);
		return of_thread[current->device];
	}
	lock();
	for (s = all.streams; s && s != handle; s = s->others)
		;
	if (s && s->destroyed)
		s = NULL;
	unlock();
	return s;
}

/* The stream of a call, which a device can serve. */
static CUresult stream_find(CUstream handle, struct fake_stream **s)
{
	CUresult bad = has_context();

	if (bad)
		return bad;
	*s = stream_of(handle);
	if (!*s)
		return CUDA_ERROR_INVALID_HANDLE;
	return context_poison((*s)->context);
}

static void stream_put(struct fake_stream *s, struct work new)
{
	struct work *w = malloc(sizeof(*w));

	*w = new;
	w->next = NULL;
	pthread_mutex_lock(&s->lock);
	*s->tail = w;
	s->tail = &w->next;
	s->put++;
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
}

static void stream_put_wait(struct fake_stream *s, struct fake_stream *after)
{
	uint64_t mark = stream_mark(after);

	if (!stream_has_done(after, mark))
		stream_put(s, (struct work){ .after = after, .mark = mark });
}

/* The legacy stream and the blocking ones wait for each other. */
static void stream_order(struct fake_stream *s)
{
	struct fake_stream *legacy = s->context->legacy, *t;

	if (s != legacy && s->blocking)
		stream_put_wait(s, legacy);
	if (s != legacy)
		return;
	/* Streams are only ever added at the front. */
	lock();
	t = all.streams;
	unlock();
	for (; t; t = t->others)
		if (t != s && t->context == s->context && t->blocking)
			stream_put_wait(s, t);
}

/* May the legacy stream be used?  Not while one that it waits for is captured, whose capture is
 * then broken, unless the call only asked. */
static CUresult stream_implicit(struct fake_stream *s, bool breaks)
{
	struct fake_stream *t;
	bool bad = false;

	if (s != s->context->legacy || !__atomic_load_n(&all.capturing, __ATOMIC_ACQUIRE))
		return CUDA_SUCCESS;
	lock();
	for (t = all.streams; t; t = t->others)
		if (t->context == s->context && t->blocking && t->capture != CAPTURE_NONE) {
			t->invalid |= breaks;
			bad = true;
		}
	unlock();
	return bad ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

/* Frees @arg, now or when the work is done. */
static CUresult stream_work(struct fake_stream *s, CUresult (*run)(void *), void *arg, int sms)
{
	CUresult bad = stream_implicit(s, true);

	if (bad) {
		free(arg);
		return bad;
	}
	if (is_captured(s)) {
		free(arg); /* a graph would have it, which nobody launches here */
		return CUDA_SUCCESS;
	}
	stream_order(s);
	stream_put(s, (struct work){ .run = run, .arg = arg, .sms = sms });
	return CUDA_SUCCESS;
}

CUresult fake_cuda_enqueue(CUstream handle, CUresult (*run)(void *), void *arg, int sms)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);

	return bad ? bad : stream_work(s, run, arg, sms);
}

/* ---- the driver and its devices ---- */

static void driver_end(void)
{
	__atomic_store_n(&all.over, true, __ATOMIC_RELEASE);
}

/* As the driver reads it: ordinals up to the first that is none. */
static void devices_find(void)
{
	const char *at = getenv("CUDA_VISIBLE_DEVICES");
	int most = (int)faults_number("FAKE_CUDA", "devices", FAKE_DEVICES);
	char *end;

	most = most < FAKE_DEVICES ? most : FAKE_DEVICES;
	for (all.devices = 0; all.devices < most; all.devices++) {
		long number = at ? strtol(at, &end, 10) : all.devices;

		if (at && (end == at || number < 0 || number >= most))
			break;
		all.context[all.devices].physical = (int)number;
		if (at)
			at = *end == ',' ? end + 1 : "";
	}
}

CUresult cuInit(unsigned int flags)
{
	int i;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	if (all.pid && all.pid != getpid()) {
		unlock();
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	if (!all.pid) {
		devices_find();
		for (i = 0; i < FAKE_DEVICES; i++) {
			all.context[i].device = i;
			all.context[i].sms = FAKE_SMS;
			pthread_mutex_init(&all.context[i].lock, NULL);
			pthread_cond_init(&all.context[i].freed, NULL);
		}
		all.pid = getpid();
		if (atexit(driver_end))
			abort();
	}
	unlock();
	return all.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = (int)faults_number("FAKE_CUDA", "driver", 12080);
	return CUDA_SUCCESS;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE",
	  "an argument is invalid (fake)" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY",
	  "device memory is full (fake)" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED",
	  "no cuInit() in this process (fake)" },
	{ CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED",
	  "the driver shuts down (fake)" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device (fake)" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "no such device (fake)" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
	  "no current context (fake)" },
	{ CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "this is no PTX (fake)" },
	{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
	  "the PTX is too new (fake)" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "no such handle (fake)" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "no such symbol (fake)" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "not done yet (fake)" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
	  "a kernel touched what it may not (fake)" },
	{ CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS",
	  "a kernel's address is not aligned (fake)" },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
	  "the context is destroyed (fake)" },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
	  "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "registered already (fake)" },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	  "not registered (fake)" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "not while a stream is captured (fake)" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "the capture is invalid (fake)" },
	{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
	  "a stream that this one waits for is captured (fake)" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported (fake)" },
	{ CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
	  "another thread began this capture (fake)" },
};

static CUresult error_find(CUresult error, const char **text, bool by_name)
{
	size_t i;

	*text = NULL;
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*text = by_name ? errors[i].name : errors[i].text;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	return error_find(error, text, false);
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
	return error_find(error, text, true);
}

CUresult cuDeviceGetCount(int *count)
{
	*count = all.devices;
	return is_ready();
}

static CUresult device_check(CUdevice device)
{
	CUresult bad = is_ready();

	if (bad)
		return bad;
	return device >= 0 && device < all.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult bad = device_check(ordinal);

	if (!bad)
		*device = ordinal;
	return bad;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	enum { SM_COUNT = 16, BUS = 33, UNIFIED = 41, MAJOR = 75, MINOR = 76 };
	CUresult bad = device_check(device);
	int capability = (int)faults_number("FAKE_CUDA", "capability", 90);

	if (bad)
		return bad;
	*value = attribute == SM_COUNT  ? FAKE_SMS
		 : attribute == BUS     ? all.context[device].physical + 1
		 : attribute == UNIFIED ? 1
		 : attribute == MAJOR   ? capability / 10
		 : attribute == MINOR   ? capability % 10
					: 0;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
	CUresult bad = device_check(device);

	if (!bad)
		snprintf(name, (size_t)len, "fake GPU %d", all.context[device].physical);
	return bad;
}

CUresult cuDeviceGetUuid(void *uuid, CUdevice device)
{
	CUresult bad = device_check(device);
	char text[32];

	if (bad)
		return bad;
	snprintf(text, sizeof(text), "fake gpu      %02d", all.context[device].physical);
	memcpy(uuid, text, 16);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice device)
{
	return cuDeviceGetUuid(uuid, device);
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice device)
{
	CUresult bad = device_check(device);

	if (!bad)
		snprintf(id, (size_t)len, "0000:%02X:00.0",
			 (unsigned int)all.context[device].physical + 1);
	return bad;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult bad = device_check(device);

	*bytes = MEMORY_BYTES;
	return bad;
}

/* ---- contexts ---- */

static pthread_mutex_t retain_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult bad = device_check(device);
	struct fake_context *c;

	if (bad)
		return bad;
	c = &all.context[device];
	pthread_mutex_lock(&retain_lock);
	if (!c->legacy)
		c->legacy = stream_new(c, true);
	__atomic_add_fetch(&c->retained, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&retain_lock);
	*context = c;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult bad = device_check(device);

	if (bad)
		return bad;
	pthread_mutex_lock(&retain_lock);
	if (!__atomic_load_n(&all.context[device].retained, __ATOMIC_RELAXED))
		bad = CUDA_ERROR_INVALID_CONTEXT;
	else
		__atomic_sub_fetch(&all.context[device].retained, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&retain_lock);
	return bad;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	CUresult bad = device_check(device);

	if (bad)
		return bad;
	*flags = 0;
	*active = __atomic_load_n(&all.context[device].retained, __ATOMIC_ACQUIRE) > 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = current;
	return is_ready();
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult bad = is_ready();

	if (!bad && context && (context < all.context || context >= all.context + all.devices))
		bad = CUDA_ERROR_INVALID_CONTEXT;
	if (!bad)
		current = context;
	return bad;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	CUresult bad = has_context();

	if (!bad)
		*device = current->device;
	return bad;
}

int fake_cuda_current(void)
{
	return current ? current->device : -1;
}

int fake_cuda_physical(int device)
{
	return device_check(device) ? -1 : all.context[device].physical;
}

bool fake_cuda_is_poisoned(void)
{
	return context_poison(current) != CUDA_SUCCESS;
}

/* All that is on the streams of the context now. */
static void context_await(struct fake_context *c)
{
	struct fake_stream *s;

	lock();
	s = all.streams;
	unlock();
	for (; s; s = s->others)
		if (s->context == c)
			stream_await(s, stream_mark(s));
}

CUresult cuCtxSynchronize(void)
{
	CUresult bad = may_wait();

	if (bad)
		return bad;
	context_await(current);
	return has_context();
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = PRIORITY;
	return has_context();
}

/* ---- memory ---- */

static void range_add(unsigned char *host, size_t bytes, bool on_device, bool owned)
{
	struct range *r = malloc(sizeof(*r));

	*r = (struct range){ NULL, current, host, bytes, on_device, owned };
	lock();
	r->others = all.ranges;
	all.ranges = r;
	unlock();
}

/* With the lock. */
static struct range **range_find(uint64_t at, bool on_device)
{
	uint64_t host = at & ~FAR_BIT;
	struct range **r;

	for (r = &all.ranges; *r; r = &(*r)->others)
		if ((*r)->on_device == on_device && host >= (uintptr_t)(*r)->host &&
		    host - (uintptr_t)(*r)->host < (*r)->bytes)
			break;
	return r;
}

/* Takes the range that begins at @at from the list. */
static struct range *range_take(uint64_t at, bool on_device)
{
	struct range **where, *r;

	lock();
	where = range_find(at, on_device);
	r = *where;
	if (r && (uintptr_t)r->host == (at & ~FAR_BIT))
		*where = r->others;
	else
		r = NULL;
	unlock();
	return r;
}

void *fake_cuda_host(CUdeviceptr at, size_t bytes)
{
	bool far = (at & FAR_BIT) != 0;
	uint64_t host = at & ~FAR_BIT;
	struct range *r;
	void *found = NULL;

	lock();
	r = *range_find(at, far);
	if (r && bytes <= r->bytes - (host - (uintptr_t)r->host))
		found = (void *)(uintptr_t)host;
	unlock();
	return found;
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
	CUresult bad = may_wait();
	long least = faults_number("FAKE_CUDA", "oom", 0);
	uint64_t number;
	void *host;

	if (bad)
		return bad;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	number = ++all.allocated;
	unlock();
	if ((least > 0 && number >= (uint64_t)least) || bytes > MEMORY_BYTES ||
	    __atomic_load_n(&all.full, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_OUT_OF_MEMORY;
	host = aligned_alloc(GRANULE, (bytes + GRANULE - 1) / GRANULE * GRANULE);
	if (!host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Nobody may count on zeros. */
	memset(host, 0xfa, bytes < DIRTY_BYTES ? bytes : DIRTY_BYTES);
	range_add(host, bytes, true, true);
	*at = (uintptr_t)host | FAR_BIT;
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
	CUresult bad = may_wait();
	struct range *r;

	if (bad || !at)
		return bad;
	lock();
	r = at & FAR_BIT ? *range_find(at, true) : NULL;
	unlock();
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	/* What is queued may still read and write there. */
	context_await(r->context);
	r = range_take(at, true);
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;
	free(r->host);
	free(r);
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	*total = MEMORY_BYTES;
	*free_bytes = MEMORY_BYTES - fake_cuda_left().bytes;
	return has_context();
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
	CUresult bad = may_wait();

	(void)flags;
	if (bad)
		return bad;
	*at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	range_add(*at, bytes, false, true);
	return CUDA_SUCCESS;
}

static CUresult host_forget(void *at, bool owned)
{
	CUresult bad = may_wait();
	struct range *r;

	if (bad)
		return bad;
	r = range_take((uintptr_t)at, false);
	if (!r)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	context_await(r->context);
	if (owned)
		free(r->host);
	free(r);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *at)
{
	return host_forget(at, true);
}

CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
	CUresult bad = may_wait();
	bool known;

	(void)flags;
	if (bad)
		return bad;
	if (!at || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (faults_find("FAKE_CUDA", "pin_fails"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock();
	known = *range_find((uintptr_t)at, false) != NULL;
	unlock();
	if (known)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	range_add(at, bytes, false, false);
	return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *at)
{
	return host_forget(at, false);
}

/* ---- pointers ---- */

static CUresult attribute_of(void *data, int attribute, uint64_t at, const struct range *r)
{
	enum { CONTEXT = 1, TYPE, DEVICE_POINTER, HOST_POINTER, BUFFER = 7, MANAGED, ORDINAL };
	enum { RANGE_START = 11, RANGE_SIZE, MAPPED };
	uint64_t far = r && r->on_device ? FAR_BIT : 0;
	uint64_t start = r ? (uintptr_t)r->host | far : 0, zero = 0, same = r ? at : 0;
	unsigned int type = r ? (r->on_device ? 2 : 1) : 0, no = 0;
	size_t bytes = r ? r->bytes : 0;
	int ordinal = r ? r->context->device : -2;
	struct fake_context *context = r ? r->context : NULL;

	if (attribute == CONTEXT)
		memcpy(data, &context, sizeof(context));
	else if (attribute == TYPE)
		memcpy(data, &type, sizeof(type));
	else if (attribute == DEVICE_POINTER)
		memcpy(data, &same, sizeof(same));
	else if (attribute == HOST_POINTER)
		memcpy(data, r && !r->on_device ? &same : &zero, sizeof(same));
	else if (attribute == BUFFER || attribute == RANGE_START)
		memcpy(data, &start, sizeof(start));
	else if (attribute == MANAGED)
		memcpy(data, &no, sizeof(no));
	else if (attribute == ORDINAL)
		memcpy(data, &ordinal, sizeof(ordinal));
	else if (attribute == RANGE_SIZE)
		memcpy(data, &bytes, sizeof(bytes));
	else if (attribute == MAPPED)
		*(unsigned char *)data = r != NULL;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Memory that the driver does not know gives nulls, and no error. */
CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
				CUdeviceptr at)
{
	CUresult bad = is_ready();
	unsigned int i;

	lock();
	for (i = 0; i < count && !bad; i++)
		bad = attribute_of(data[i], attributes[i], at,
				   *range_find(at, (at & FAR_BIT) != 0));
	unlock();
	return bad;
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr at)
{
	CUresult bad = is_ready();
	struct range *r;

	if (bad)
		return bad;
	lock();
	r = *range_find(at, (at & FAR_BIT) != 0);
	bad = r ? attribute_of(data, attribute, at, r) : CUDA_ERROR_INVALID_VALUE;
	unlock();
	return bad;
}

/* ---- copies ---- */

struct copy {
	uint64_t to, from; /* as the caller named them */
	size_t bytes;
	int value; /* a byte to fill with, or -1 */
	unsigned char staged[];
};

/* Where a copy reads or writes: the device's memory, or any of the host's. */
static void *copy_end(uint64_t at, size_t bytes)
{
	return at & FAR_BIT ? fake_cuda_host(at, bytes) : (void *)(uintptr_t)at;
}

static CUresult copy_run(void *arg)
{
	struct copy *c = arg;
	void *to, *from;

	if (context_poison(current))
		return CUDA_SUCCESS;
	nap_us(faults_number("FAKE_CUDA", "slow_copy", 0));
	to = copy_end(c->to, c->bytes);
	from = c->from ? copy_end(c->from, c->bytes) : c->staged;
	if (!to || !from)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (c->value >= 0)
		memset(to, c->value, c->bytes);
	else
		memmove(to, from, c->bytes);
	return CUDA_SUCCESS;
}

static bool is_pageable(uint64_t at, size_t bytes)
{
	return !(at & FAR_BIT) && !fake_cuda_host(at, bytes);
}

/* A copy from memory that is not registered takes what is there now; one to such memory is done
 * when the call returns. */
static CUresult copy_put(uint64_t to, uint64_t from, size_t bytes, int value, CUstream handle)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);
	bool staged = value < 0 && is_pageable(from, bytes);
	bool is_pageable_to = is_pageable(to, bytes);
	struct copy *c;

	if (bad)
		return bad;
	if (!bytes)
		return CUDA_SUCCESS;
	if (!copy_end(to, bytes) || (value < 0 && !copy_end(from, bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	all.pageable += staged || is_pageable_to;
	unlock();
	c = malloc(sizeof(*c) + (staged ? bytes : 0));
	*c = (struct copy){ to, staged || value >= 0 ? 0 : from, bytes, value };
	if (staged)
		memcpy(c->staged, (void *)(uintptr_t)from, bytes);
	bad = stream_work(s, copy_run, c, 0);
	if (bad || !is_pageable_to)
		return bad;
	bad = is_safe();
	if (!bad)
		stream_await(s, stream_mark(s));
	return bad ? bad : has_context();
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
	return copy_put(to, from, bytes, -1, s);
}

static CUresult copy_checked(uint64_t to, bool to_far, uint64_t from, bool from_far,
			     size_t bytes, CUstream s)
{
	if (((to & FAR_BIT) != 0) != to_far || ((from & FAR_BIT) != 0) != from_far)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_put(to, from, bytes, -1, s);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
	return copy_checked(to, true, from, true, bytes, s);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s)
{
	return copy_checked((uintptr_t)to, false, from, true, bytes, s);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s)
{
	return copy_checked(to, true, (uintptr_t)from, false, bytes, s);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	CUresult bad = may_wait();

	if (!bad)
		bad = cuMemcpyDtoHAsync_v2(to, from, bytes, NULL);
	return bad ? bad : cuStreamSynchronize(NULL);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	CUresult bad = may_wait();

	if (!bad)
		bad = cuMemcpyHtoDAsync_v2(to, from, bytes, NULL);
	/* As the driver: from pageable memory it returns once the data are in a buffer of its
	 * own. */
	return bad || is_pageable((uintptr_t)from, bytes) ? bad : cuStreamSynchronize(NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream s)
{
	if (!(to & FAR_BIT))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_put(to, 0, bytes, value, s);
}

struct host_call {
	void (*run)(void *);
	void *arg;
};

static CUresult host_call_run(void *arg)
{
	struct host_call *c = arg;

	if (!fake_cuda_is_poisoned())
		c->run(c->arg);
	return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, void (*run)(void *), void *arg)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);
	struct host_call *c;

	if (bad)
		return bad;
	c = malloc(sizeof(*c));
	*c = (struct host_call){ run, arg };
	stream_work(s, host_call_run, c, 0);
	return CUDA_SUCCESS;
}

/* ---- streams ---- */

CUresult cuStreamCreateWithPriority(CUstream *s, unsigned int flags, int priority)
{
	CUresult bad = has_context();

	if (bad)
		return bad;
	if (flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*s = stream_new(current, flags == 0);
	(*s)->priority = priority > 0 ? 0 : priority < PRIORITY ? PRIORITY : priority;
	lock();
	all.streams_left++;
	unlock();
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned int flags)
{
	return cuStreamCreateWithPriority(s, flags, 0);
}

/* What is on it is still carried out; its thread then ends. */
CUresult cuStreamDestroy_v2(CUstream handle)
{
	CUresult bad = is_ready();
	struct fake_stream *s;

	if (bad)
		return bad;
	if (!handle || handle == (CUstream)1 || handle == (CUstream)2 || !current)
		return handle ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
	s = stream_of(handle);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	lock();
	all.streams_left--;
	pthread_mutex_lock(&s->lock);
	s->destroyed = true;
	pthread_cond_broadcast(&s->news);
	pthread_mutex_unlock(&s->lock);
	unlock();
	return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);

	if (!bad)
		bad = is_safe();
	if (bad)
		return bad;
	return stream_has_done(s, stream_mark(s)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);

	if (!bad)
		bad = is_safe();
	if (bad)
		return bad;
	stream_await(s, stream_mark(s));
	return has_context();
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);

	if (!bad)
		*priority = s->priority;
	return bad;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);

	if (!bad)
		*context = s->context;
	return bad;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent e, unsigned int flags)
{
	struct fake_stream *s = NULL, *on;
	CUresult bad = stream_find(handle, &s);
	uint64_t mark;

	if (!bad)
		bad = stream_implicit(s, true);
	if (bad || flags)
		return bad ? bad : CUDA_ERROR_INVALID_VALUE;
	lock();
	on = e->on;
	mark = e->mark;
	/* Who waits for what is captured is captured, too. */
	if (e->captured && s->capture == CAPTURE_NONE) {
		__atomic_store_n(&s->capture, e->captured->capture, __ATOMIC_RELEASE);
		s->capturer = e->captured->capturer;
		__atomic_add_fetch(&all.capturing, 1, __ATOMIC_RELEASE);
	}
	unlock();
	if (on && !is_captured(s) && on != s && !stream_has_done(on, mark)) {
		stream_order(s);
		stream_put(s, (struct work){ .after = on, .mark = mark });
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, int *status)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);

	if (!bad)
		bad = stream_implicit(s, false);
	if (bad)
		return bad;
	lock();
	*status = is_captured(s) ? 1 + s->invalid : 0;
	unlock();
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, int mode)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);

	if (bad)
		return bad;
	/* The legacy stream cannot be captured. */
	if (s == s->context->legacy || is_captured(s) || mode > CAPTURE_RELAXED)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	lock();
	s->invalid = false;
	s->capturer = pthread_self();
	__atomic_store_n(&s->capture, mode, __ATOMIC_RELEASE);
	__atomic_add_fetch(&all.capturing, 1, __ATOMIC_RELEASE);
	unlock();
	return CUDA_SUCCESS;
}

/* All that joined ends with it. */
CUresult cuStreamEndCapture(CUstream handle, void **graph)
{
	struct fake_stream *s = NULL, *t;
	CUresult bad = stream_find(handle, &s);
	bool invalid;

	if (bad)
		return bad;
	if (!is_captured(s))
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture != CAPTURE_RELAXED && !pthread_equal(s->capturer, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	*graph = NULL;
	lock();
	invalid = s->invalid;
	for (t = all.streams; t; t = t->others)
		if (t->capture != CAPTURE_NONE && pthread_equal(t->capturer, s->capturer)) {
			__atomic_store_n(&t->capture, CAPTURE_NONE, __ATOMIC_RELEASE);
			__atomic_sub_fetch(&all.capturing, 1, __ATOMIC_RELEASE);
		}
	unlock();
	return invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = thread_mode;

	if (*mode < CAPTURE_GLOBAL || *mode > CAPTURE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = before;
	return is_ready();
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *e, unsigned int flags)
{
	CUresult bad = has_context();
	struct fake_event *new;

	(void)flags;
	if (bad)
		return bad;
	new = calloc(1, sizeof(*new));
	new->context = current;
	lock();
	new->others = all.events;
	all.events = new;
	unlock();
	*e = new;
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream handle)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);
	bool captured;
	uint64_t mark;

	if (!bad)
		bad = stream_implicit(s, true);
	if (bad)
		return bad;
	if (e->context != s->context)
		return CUDA_ERROR_INVALID_HANDLE;
	captured = is_captured(s);
	if (!captured)
		stream_order(s);
	mark = stream_mark(s);
	lock();
	e->captured = captured ? s : NULL;
	e->on = captured ? NULL : s;
	e->mark = mark;
	unlock();
	return CUDA_SUCCESS;
}

static CUresult event_find(CUevent e, struct fake_stream **on, uint64_t *mark)
{
	CUresult bad = is_ready();

	if (!bad)
		bad = context_poison(e->context);
	if (!bad)
		bad = is_safe();
	lock();
	*on = e->on;
	*mark = e->mark;
	if (!bad && e->captured) {
		e->captured->invalid = true;
		bad = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	unlock();
	return bad;
}

CUresult cuEventQuery(CUevent e)
{
	struct fake_stream *on;
	uint64_t mark;
	CUresult bad = event_find(e, &on, &mark);

	nap_us(faults_number("FAKE_CUDA", "slow_query", 0));
	if (bad || !on)
		return bad;
	if (!stream_has_done(on, mark))
		return CUDA_ERROR_NOT_READY;
	return context_poison(e->context);
}

CUresult cuEventSynchronize(CUevent e)
{
	struct fake_stream *on;
	uint64_t mark;
	CUresult bad = event_find(e, &on, &mark);

	if (bad || !on)
		return bad;
	stream_await(on, mark);
	return context_poison(e->context);
}

CUresult cuEventDestroy_v2(CUevent e)
{
	CUresult bad = is_ready();
	struct fake_event **at;

	if (bad)
		return bad;
	lock();
	for (at = &all.events; *at && *at != e; at = &(*at)->others)
		;
	if (*at)
		*at = e->others;
	else
		bad = CUDA_ERROR_INVALID_HANDLE;
	unlock();
	if (!bad)
		free(e);
	return bad;
}

/* ---- kernels ---- */

/* JIT options 5 and 6 are a buffer for the compiler's complaint and its size. */
static void module_complain(unsigned int count, const int *options, void **values,
			    const char *text)
{
	char *buffer = NULL;
	size_t size = 0;
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (options[i] == 5)
			buffer = values[i];
		if (options[i] == 6)
			size = (size_t)(uintptr_t)values[i];
	}
	if (buffer && size)
		snprintf(buffer, size, "%s", text);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
			    int *options, void **values)
{
	CUresult bad = may_wait();
	char why[256], text[300];
	struct fake_module *m;
	struct ptx *ptx;

	if (bad)
		return bad;
	if (getenv("CUDA_DISABLE_PTX_JIT") && atoi(getenv("CUDA_DISABLE_PTX_JIT")))
		return CUDA_ERROR_JIT_COMPILATION_DISABLED;
	if (faults_find("FAKE_CUDA", "jit_fails")) {
		module_complain(count, options, values, "ptxas fatal: fake: no compiler");
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	}
	ptx = ptx_load(image, why, sizeof(why));
	if (!ptx) {
		snprintf(text, sizeof(text), "ptxas fatal: fake: %s", why);
		module_complain(count, options, values, text);
		return CUDA_ERROR_INVALID_PTX;
	}
	/* The driver may wait for all work of the context; this one always does. */
	context_await(current);
	m = calloc(1, sizeof(*m));
	m->context = current;
	m->ptx = ptx;
	lock();
	m->others = all.modules;
	all.modules = m;
	unlock();
	*module = m;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleUnload(CUmodule module)
{
	CUresult bad = may_wait();
	struct fake_module **at;
	struct fake_function *f;

	if (bad)
		return bad;
	lock();
	for (at = &all.modules; *at && *at != module; at = &(*at)->others)
		;
	if (*at)
		*at = module->others;
	else
		bad = CUDA_ERROR_INVALID_HANDLE;
	unlock();
	if (bad)
		return bad;
	context_await(module->context);
	while ((f = module->functions)) {
		module->functions = f->others;
		free(f);
	}
	ptx_unload(module->ptx);
	free(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CUresult bad = has_context();
	const struct ptx_kernel *kernel;
	struct fake_function *f;

	if (bad)
		return bad;
	kernel = ptx_kernel(module->ptx, name);
	if (!kernel)
		return CUDA_ERROR_NOT_FOUND;
	f = calloc(1, sizeof(*f));
	f->context = module->context;
	f->kernel = kernel;
	lock();
	f->others = module->functions;
	module->functions = f;
	unlock();
	*function = f;
	return CUDA_SUCCESS;
}

/* By the first launch at the latest, and waiting as a module does. */
static void function_load(struct fake_function *f)
{
	if (__atomic_load_n(&f->loaded, __ATOMIC_ACQUIRE))
		return;
	context_await(f->context);
	__atomic_store_n(&f->loaded, true, __ATOMIC_RELEASE);
}

CUresult cuFuncLoad(CUfunction f)
{
	CUresult bad = may_wait();

	if (bad)
		return bad;
	if (faults_find("FAKE_CUDA", "no_func_load"))
		return CUDA_ERROR_NOT_SUPPORTED;
	function_load(f);
	return CUDA_SUCCESS;
}

struct launch {
	const struct ptx_kernel *kernel;
	uint64_t serial;
	unsigned int grid, block;
	uint64_t parameter[];
};

/* What a kernel of the thread's context may touch, by whole allocations. */
static bool launch_find(void *arg, uint64_t at, bool writes, struct ptx_range *found)
{
	struct range *r;

	(void)arg;
	(void)writes;
	lock();
	r = *range_find(at, (at & FAR_BIT) != 0);
	if (r)
		*found = (struct ptx_range){ (uintptr_t)r->host | (at & FAR_BIT), r->bytes,
					     r->host };
	unlock();
	return r != NULL;
}

static CUresult launch_run(void *arg)
{
	struct launch *l = arg;

	if (context_poison(current))
		return CUDA_SUCCESS;
	nap_us(faults_number("FAKE_CUDA", "slow_kernel", 0));
	if (l->serial == (uint64_t)faults_number("FAKE_CUDA", "sticky", 0))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	return ptx_run(l->kernel, l->grid, l->block, l->parameter, launch_find, NULL);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared, CUstream handle,
			void **parameters, void **extra)
{
	struct fake_stream *s = NULL;
	CUresult bad = stream_find(handle, &s);
	struct launch *l;

	if (bad)
		return bad;
	if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x ||
	    block_x > ptx_block_most(f->kernel) || block_y != 1 || block_z != 1 || shared ||
	    extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (f->context != s->context)
		return CUDA_ERROR_INVALID_HANDLE;
	function_load(f);
	l = malloc(sizeof(*l) + ptx_parameter_bytes(f->kernel));
	*l = (struct launch){ .kernel = f->kernel, .grid = grid_x, .block = block_x };
	memcpy(l->parameter, parameters[0], ptx_parameter_bytes(f->kernel));
	lock();
	l->serial = ++all.launched;
	unlock();
	return stream_work(s, launch_run, l, 1);
}

uint64_t fake_cuda_launched(void)
{
	uint64_t n;

	lock();
	n = all.launched;
	unlock();
	return n;
}

uint64_t fake_cuda_pageable(void)
{
	uint64_t n;

	lock();
	n = all.pageable;
	unlock();
	return n;
}

void fake_cuda_full(bool is)
{
	__atomic_store_n(&all.full, is, __ATOMIC_RELEASE);
}

/* ---- what is left ---- */

struct fake_cuda_left fake_cuda_left(void)
{
	struct fake_cuda_left left = { 0 };
	struct fake_event *e;
	struct fake_module *m;
	struct range *r;
	int i;

	lock();
	for (r = all.ranges; r; r = r->others) {
		left.allocations += r->on_device;
		left.registered += !r->on_device;
		left.bytes += r->on_device ? r->bytes : 0;
	}
	for (e = all.events; e; e = e->others)
		left.events++;
	for (m = all.modules; m; m = m->others)
		left.modules++;
	for (i = 0; i < FAKE_DEVICES; i++)
		left.contexts += __atomic_load_n(&all.context[i].retained, __ATOMIC_ACQUIRE);
	left.streams = all.streams_left;
	unlock();
	return left;
}

__attribute__((destructor)) static void left_print(void)
{
	struct fake_cuda_left n;

	if (!all.pid || all.pid != getpid())
		return;
	n = fake_cuda_left();
	if (n.allocations || n.streams || n.events || n.modules || n.registered || n.contexts)
		fprintf(stderr,
			"fake CUDA: left at exit: %d allocations (%zu bytes), %d streams, %d "
			"events, "
			"%d modules, %d registered ranges, %d retained contexts\n",
			n.allocations, n.bytes, n.streams, n.events, n.modules, n.registered,
			n.contexts);
}
