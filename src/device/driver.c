/* driver.c - CUDA's driver, libcuda.so.1, opened when it is needed: the calls in use. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "device/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/forks.h"
#include "ringup.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct forks_hook hook;
static bool is_hooked; /* atomic */

static struct driver driver;
static bool is_open;    /* the library                       */
static bool is_ready;   /* CUDA; atomic                      */
static bool is_touched; /* cuInit() has been called; atomic  */
static uint32_t forks;  /* then: a child of fork() cannot use it */
static bool is_over;    /* atomic                            */

static void lock_renew(void *arg)
{
	(void)arg;
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	is_hooked = false;
}

void driver_lock(void)
{
	if (!__atomic_exchange_n(&is_hooked, true, __ATOMIC_ACQ_REL)) {
		hook.fn = lock_renew;
		forks_add(&hook);
	}
	pthread_mutex_lock(&lock);
}

void driver_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static int driver_load(struct driver *d, struct err *e)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return fail(e, RINGUP_ENOBACKEND,
			    "there is no NVIDIA driver (%.80s); install it, or start the "
			    "container with GPUs",
			    dlerror());
#define X(name, symbol, params)                   \
	*(void **)&d->name = dlsym(lib, symbol);  \
	if (!d->name)                             \
		return fail(e, RINGUP_ENOBACKEND, \
			    "libcuda.so.1 has no %s; the NVIDIA driver is too old", symbol);
	DRIVER_CALLS(X)
#undef X
	*(void **)&d->function_load = dlsym(lib, "cuFuncLoad");
	return 0;
}

/* With the lock. */
static int driver_load_once(struct err *e)
{
	int rc = is_open ? 0 : driver_load(&driver, e);

	is_open = !rc;
	return rc;
}

int driver_open(struct err *e)
{
	int rc;

	driver_lock();
	rc = driver_load_once(e);
	driver_unlock();
	return rc;
}

static int driver_start(const struct driver *d, struct err *e)
{
	int count = 0, rc = d->init(0);

	if (!rc)
		rc = d->count(&count);
	/* 100 is CUDA's own word for it. */
	if (rc && rc != 100)
		return driver_failed(d, rc, "cuInit", e);
	return count ? 0
		     : fail(e, RINGUP_ENOBACKEND,
			    "the NVIDIA driver finds no GPU; give this process one (nvidia-smi "
			    "-L and CUDA_VISIBLE_DEVICES show which it has)");
}

/* With the lock. */
static int driver_start_once(struct err *e)
{
	int rc = driver_load_once(e);

	if (rc || is_ready)
		return rc;
	forks = forks_count();
	__atomic_store_n(&is_touched, true, __ATOMIC_RELEASE);
	rc = driver_start(&driver, e);
	__atomic_store_n(&is_touched, !rc, __ATOMIC_RELEASE);
	__atomic_store_n(&is_ready, !rc, __ATOMIC_RELEASE);
	return rc;
}

const struct driver *driver_get(struct err *e)
{
	int rc = 0;

	if (__atomic_load_n(&is_touched, __ATOMIC_ACQUIRE) && forks != forks_seen()) {
		fail(e, RINGUP_ESYSTEM,
		     "this forked child cannot use the GPU that its parent has used; spawn it, "
		     "or fork before the first use");
		return NULL;
	}
	if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE)) {
		driver_lock();
		rc = driver_start_once(e);
		driver_unlock();
	}
	return rc ? NULL : &driver;
}

/* After these errors every call in the process fails: the context is lost. */
static bool is_final(int rc)
{
	static const short lost[] = { 214, 220, 226, 700, 702, 709, 710, 714,
				      715, 716, 717, 718, 719, 721, 810, 911 };

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
		if (lost[i] == rc)
			return true;
	return false;
}

int driver_failed(const struct driver *d, int rc, const char *what, struct err *e)
{
	const char *text = NULL;

	if (rc == DRIVER_ENDED)
		__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	if (d->error_text(rc, &text) || !text)
		text = "no description";
	/* The driver reports such an error at the next call, whatever that is. */
	return fail(e, rc == 2 ? RINGUP_ENOMEM : RINGUP_ESYSTEM, "%s%s: CUDA error %d, %.80s%s",
		    what, is_final(rc) ? ", or a kernel before it" : "", rc, text,
		    is_final(rc) ? "; this process can no longer use the GPU; restart it" : "");
}

bool driver_is_over(void)
{
	return __atomic_load_n(&is_over, __ATOMIC_ACQUIRE);
}

int driver_where(const struct driver *d, const void *at, int *device, struct err *e)
{
	int which[] = { DRIVER_POINTER_KIND, DRIVER_POINTER_DEVICE };
	unsigned int kind = 0;
	void *out[] = { &kind, device };
	int rc = d->pointer(2, which, out, (driver_address)(uintptr_t)at);

	if (rc)
		return driver_failed(d, rc, "cuPointerGetAttributes", e);
	if (kind != DRIVER_KIND_DEVICE)
		return fail(e, RINGUP_EINVAL,
			    "%p is not GPU memory; pass it as host memory, or copy it", at);
	return 0;
}
