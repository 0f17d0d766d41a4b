/* gpu_ranks.h - for tests: ranks with a GPU each, by the driver that the loader finds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_RANKS_H
#define TESTS_GPU_RANKS_H

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "device/driver.h"
#include "fakegpu/fakecuda.h"
#include "ranks.h"

/*
 * A program that includes this is run by gpu_main() a second time, with the folders of the
 * fakes as the loader's path, and RINGUP_BACKEND=nccl.  GPU_RANKS_NCCL is the version of the
 * fake NCCL.  With RINGUP_TEST_GPU=1 the loader finds the machine's own driver and NCCL
 * instead, and the same program tests them.
 */

/* A rank's GPU, with a stream. */
struct gpu_seat {
	const struct driver *d;
	driver_handle context, stream;
	int number;
	enum ringup_memory memory; /* where gpu_new() has it */
};

static int gpu_near = -1; /* the rank whose data are in the host's memory; -1: none */

static inline void gpu_die(const char *what, int rc)
{
	printf("Bail out! %s: %d\n", what, rc);
	fflush(stdout);
	_exit(1);
}

static inline void gpu_sit(struct gpu_seat *s, int rank)
{
	struct err e;
	int count = 0, rc;

	s->d = driver_get(&e);
	if (!s->d)
		gpu_die(e.text, e.code);
	rc = s->d->count(&count);
	s->number = rank % (count > 0 ? count : 1);
	s->memory = rank == gpu_near ? RINGUP_HOST : RINGUP_CUDA;
	if (rc || (rc = s->d->retain(&s->context, s->number)) ||
	    (rc = s->d->make_current(s->context)) ||
	    (rc = s->d->stream_new(&s->stream, DRIVER_STREAM_APART, 0)))
		gpu_die("no GPU", rc);
}

static inline void gpu_stand(struct gpu_seat *s)
{
	(void)s->d->stream_free(s->stream);
	(void)s->d->make_current(NULL);
	(void)s->d->release(s->number);
}

static inline void *gpu_new(struct gpu_seat *s, size_t bytes)
{
	driver_address at = 0;
	int rc;

	if (s->memory == RINGUP_HOST)
		return malloc(bytes ? bytes : 1);
	rc = s->d->alloc(&at, bytes ? bytes : 1);
	if (rc)
		gpu_die("cuMemAlloc", rc);
	return (void *)(uintptr_t)at;
}

static inline void gpu_drop(struct gpu_seat *s, void *at)
{
	if (s->memory == RINGUP_HOST)
		free(at);
	else
		(void)s->d->free((driver_address)(uintptr_t)at);
}

/* gpu_of - the stream to name with data of gpu_new(). */
static inline void *gpu_of(const struct gpu_seat *s)
{
	return s->memory == RINGUP_HOST ? NULL : s->stream;
}

/* gpu_sync - waits for the seat's stream; false if it is not done in @ms. */
static inline bool gpu_sync(struct gpu_seat *s, int ms)
{
	static const struct timespec turn = { 0, 100000 };
	driver_handle e = NULL;
	int rc = s->d->event_new(&e, DRIVER_EVENT_PLAIN);

	rc = rc ? rc : s->d->event_record(e, s->stream);
	for (int i = 0; !rc && (rc = s->d->event_query(e)) == DRIVER_NOT_READY && i < ms * 10;
	     i++) {
		nanosleep(&turn, NULL);
		rc = 0;
	}
	(void)s->d->event_free(e);
	return !rc;
}

static inline void gpu_put_bytes(struct gpu_seat *s, void *to, const void *from, size_t bytes)
{
	int rc = 0;

	if (bytes && s->memory == RINGUP_HOST)
		memcpy(to, from, bytes);
	else if (bytes)
		rc = s->d->copy((driver_address)(uintptr_t)to, (driver_address)(uintptr_t)from,
				bytes, s->stream);
	if (rc)
		gpu_die("cuMemcpyAsync", rc);
}

static inline bool gpu_get_bytes(struct gpu_seat *s, void *to, const void *from, size_t bytes)
{
	gpu_put_bytes(s, to, from, bytes);
	return gpu_sync(s, 20000);
}

/* gpu_fill - @count floats at @at are @value; gpu_holds - are they? */
static inline void gpu_fill(struct gpu_seat *s, void *at, size_t count, float value)
{
	float *host = calloc(count, sizeof(*host));

	for (size_t i = 0; i < count; i++)
		host[i] = value;
	gpu_put_bytes(s, at, host, count * sizeof(*host));
	free(host);
}

static inline bool gpu_holds(struct gpu_seat *s, void *at, size_t count, float value)
{
	float *host = calloc(count, sizeof(*host));
	bool all = gpu_get_bytes(s, host, at, count * sizeof(*host));

	for (size_t i = 0; i < count && all; i++)
		all = host[i] == value;
	free(host);
	return all;
}

/* gpu_nothing_left - has all that was made on the fake driver been given back?  Of a real one
 * nobody knows. */
static inline bool gpu_nothing_left(void)
{
	struct fake_cuda_left (*left)(void), is;
	int (*comms)(void), (*leaked)(void), n;
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);

	*(void **)&left = cuda ? dlsym(cuda, "fake_cuda_left") : NULL;
	*(void **)&comms = nccl ? dlsym(nccl, "fake_nccl_left") : NULL;
	*(void **)&leaked = nccl ? dlsym(nccl, "fake_nccl_leaked") : NULL;
	if (!left || !comms || !leaked)
		return true;
	is = left();
	is.allocations -= leaked();
	n = is.allocations + is.streams + is.events + is.modules + is.registered + is.contexts +
	    comms();
	if (n)
		printf("# left: %d allocations, %d streams, %d events, %d modules, %d "
		       "registered, %d contexts, %d communicators\n",
		       is.allocations, is.streams, is.events, is.modules, is.registered,
		       is.contexts, comms());
	return !n;
}

/* gpu_main - as described above: returns only in the program that is to run the tests. */
static inline void gpu_main(char **argv)
{
	char self[PATH_MAX], path[PATH_MAX * 3];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (getenv("GPU_RANKS_READY"))
		return;
	self[len > 0 ? len : 0] = 0;
	slash = strrchr(self, '/');
	if (!slash)
		gpu_die("where am I?", 0);
	*slash = 0;
	/* libtool runs a program in its folder .libs. */
	if (slash - self > 6 && !strcmp(slash - 6, "/.libs"))
		slash[-6] = 0;
	snprintf(path, sizeof(path), "%s/cuda:%s/nccl-%s", self, self,
		 getenv("GPU_RANKS_NCCL") ? getenv("GPU_RANKS_NCCL") : "2.28.9");
	if (!getenv("RINGUP_TEST_GPU"))
		setenv("LD_LIBRARY_PATH", path, 1);
	setenv("RINGUP_BACKEND", "nccl", 0);
	setenv("GPU_RANKS_READY", "1", 1);
	execv("/proc/self/exe", argv);
	gpu_die("cannot start again", 0);
}

#endif
