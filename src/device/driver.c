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
static struct driver driver;
static bool is_open;
static uint32_t forks; /* when it was started: a child of fork() cannot use it */

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
	return 0;
}

static int driver_start(struct driver *d, struct err *e)
{
	int count = 0, rc = d->init(0);

	if (!rc)
		rc = d->count(&count);
	if (rc)
		return driver_failed(d, rc, "cuInit", e);
	return count ? 0 : fail(e, RINGUP_ENOBACKEND, "the NVIDIA driver finds no GPU");
}

const struct driver *driver_get(struct err *e)
{
	bool stale;
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!is_open) {
		rc = driver_load(&driver, e);
		if (!rc)
			rc = driver_start(&driver, e);
		is_open = !rc;
		forks = forks_count();
	}
	stale = !rc && forks != forks_count();
	pthread_mutex_unlock(&lock);
	if (stale)
		rc = fail(e, RINGUP_ESYSTEM,
			  "this forked child cannot use the GPU that its parent has used; "
			  "spawn it, or fork before the first use");
	return rc ? NULL : &driver;
}

/* After these errors every call in the process fails: the context is lost. */
static bool is_final(int rc)
{
	static const short lost[] = { 214, 700, 702, 710, 713, 714, 715, 716, 717, 718, 719 };

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
		if (lost[i] == rc)
			return true;
	return false;
}

int driver_failed(const struct driver *d, int rc, const char *what, struct err *e)
{
	const char *text = NULL;

	if (d->error_text(rc, &text) || !text)
		text = "no description";
	return fail(e, rc == 2 ? RINGUP_ENOMEM : RINGUP_ESYSTEM, "%s: CUDA error %d, %.80s%s",
		    what, rc, text,
		    is_final(rc) ? "; this process can no longer use the GPU; restart it" : "");
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
