/* primary.c - a GPU's primary context, with this library's kernels loaded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "device/primary.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ringup.h"

enum { LOG_BYTES = 1024, CAPABILITY = 7 };

static struct primary *primaries; /* under driver_lock() */

int primary_enter(const struct primary *p, struct gpu_visit *v, struct err *e)
{
	const struct driver *d = p->driver;
	int rc;

	v->mode = DRIVER_CAPTURE_RELAXED;
	rc = d->capture_mode(&v->mode);
	if (!rc)
		rc = d->current(&v->context);
	if (!rc && v->context != p->context)
		rc = d->make_current(p->context);
	return rc ? driver_failed(d, rc, "cuCtxSetCurrent", e) : 0;
}

void primary_leave(const struct primary *p, const struct gpu_visit *v)
{
	int mode = v->mode;

	if (v->context != p->context)
		(void)p->driver->make_current(v->context);
	(void)p->driver->capture_mode(&mode);
}

/* ---- kernels ---- */

/* A kernel is loaded at its first launch at the latest: this one moves nothing. */
static int launch_nothing(const struct driver *d, driver_handle kernel, driver_handle stream)
{
	struct device_move m;
	void *params[] = { &m };

	kernel_move_begin(&m, 1);
	memset(m.piece, 0, sizeof(m.piece[0]));
	m.pieces = 1;
	m.piece[0].tile_end = 1;
	return d->launch(kernel, 1, 1, 1, DEVICE_THREADS, 1, 1, 0, stream, params, NULL);
}

static int load_functions(struct primary *p)
{
	const struct driver *d = p->driver;
	driver_handle stream = NULL;
	int rc = d->stream_new(&stream, DRIVER_STREAM_APART, 0);

	for (int k = 0; k < DEVICE_KERNEL_COUNT && !rc; k++) {
		rc = d->module_function(&p->kernel[k], p->module,
					kernel_symbol((enum device_kernel)k));
		if (!rc && (!d->function_load || d->function_load(p->kernel[k])))
			rc = launch_nothing(d, p->kernel[k], stream);
	}
	if (stream)
		(void)d->stream_free(stream);
	return rc;
}

/* In one line, as part of a message. */
static void flatten(char *text)
{
	size_t len = strlen(text);

	while (len && strchr(" \n\t", text[len - 1]))
		text[--len] = 0;
	for (; *text; text++)
		if (*text == '\n' || *text == '\t')
			*text = ' ';
}

/* The driver compiles the kernels for its GPU, and keeps the result on disk. */
static int load_kernels(struct primary *p, struct err *e)
{
	char log[LOG_BYTES] = "";
	int options[] = { DRIVER_JIT_LOG, DRIVER_JIT_LOG_BYTES };
	void *values[] = { log, (void *)(uintptr_t)sizeof(log) };
	const struct driver *d = p->driver;
	struct err why;
	int rc = d->module_load(&p->module, device_kernels_ptx, 2, options, values);

	if (!rc)
		rc = load_functions(p);
	if (!rc)
		return 0;
	driver_failed(d, rc, p->module ? "cuModuleGetFunction" : "cuModuleLoadDataEx", &why);
	log[sizeof(log) - 1] = 0;
	flatten(log);
	return fail(e, why.code,
		    "GPU %d: the driver cannot compile this library's kernels: %.100s%s%.70s",
		    p->number, why.text, *log ? ": " : "", log);
}

/* ---- life ---- */

static int check_capability(const struct primary *p, struct err *e)
{
	const struct driver *d = p->driver;
	int major = 0, minor = 0, rc = d->attribute(&major, DRIVER_MAJOR, p->device);

	rc = rc ? rc : d->attribute(&minor, DRIVER_MINOR, p->device);
	if (rc)
		return driver_failed(d, rc, "cuDeviceGetAttribute", e);
	return major >= CAPABILITY
		       ? 0
		       : fail(e, RINGUP_ENOBACKEND,
			      "GPU %d has compute capability %d.%d, but RINGUP_BACKEND=nccl "
			      "needs %d.0 or later (Volta); unset RINGUP_BACKEND",
			      p->number, major, minor, CAPABILITY);
}

/* What fails here need not fail: copies work without kernels, streams without a priority. */
static int primary_prepare(struct primary *p, struct err *e)
{
	int least = 0;
	struct gpu_visit v;
	int rc = primary_enter(p, &v, e);

	if (rc)
		return rc;
	if (p->driver->priorities(&least, &p->priority))
		p->priority = 0;
	if (load_kernels(p, &p->why))
		log_warn("%s; using plain copies instead", p->why.text);
	primary_leave(p, &v);
	return 0;
}

static int primary_open(struct primary *p, struct err *e)
{
	const struct driver *d = p->driver;
	int rc = d->device(&p->device, p->number);

	if (rc)
		return driver_failed(d, rc, "cuDeviceGet", e);
	rc = check_capability(p, e);
	if (rc)
		return rc;
	rc = d->retain(&p->context, p->device);
	if (rc)
		return driver_failed(d, rc, "cuDevicePrimaryCtxRetain", e);
	rc = primary_prepare(p, e);
	if (rc)
		(void)d->release(p->device);
	return rc;
}

int primary_get(const struct driver *d, int number, struct primary **pp, struct err *e)
{
	struct primary *p;
	int rc = 0;

	for (p = primaries; p && p->number != number; p = p->next)
		;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return fail(e, RINGUP_ENOMEM, "no memory for GPU %d", number);
		p->driver = d;
		p->number = number;
		rc = primary_open(p, e);
		if (rc) {
			free(p);
			return rc;
		}
		p->next = primaries;
		primaries = p;
	}
	p->users++;
	*pp = p;
	return 0;
}

bool primary_put(struct primary *p)
{
	struct primary **at = &primaries;

	if (--p->users)
		return false;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	return true;
}

void primary_close(struct primary *p)
{
	struct gpu_visit v;
	struct err e;

	if (p->module && !primary_enter(p, &v, &e)) {
		(void)p->driver->module_unload(p->module);
		primary_leave(p, &v);
	}
	(void)p->driver->release(p->device);
	free(p);
}
