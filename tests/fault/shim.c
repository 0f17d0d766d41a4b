/* shim.c - preloaded into a rank: one call fails, or the wall clock jumps. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/*
 * RINGUP_TEST_FAIL=KIND:N    the Nth call of that kind fails: alloc (malloc, calloc,
 *                            realloc, aligned_alloc), thread (pthread_create), fork,
 *                            mmap, memfd (memfd_create)
 * RINGUP_TEST_FAIL_RANK=R    only in that rank
 * RINGUP_TEST_COUNT=FILE     write there how many calls there were
 * RINGUP_TEST_CLOCK=SECONDS  the wall clock jumps by this after each 50 looks at it,
 *                            forth and back
 */
enum kind { ALLOC, THREAD, FORK, MMAP, MEMFD, KINDS };

static const char *const kinds[KINDS] = { "alloc", "thread", "fork", "mmap", "memfd" };
static long calls[KINDS], fail_at[KINDS], jump, looks;

__attribute__((constructor)) static void begin(void)
{
	const char *fail = getenv("RINGUP_TEST_FAIL"), *rank = getenv("RINGUP_TEST_FAIL_RANK");
	const char *me = getenv("RINGUP_RANK"), *seconds = getenv("RINGUP_TEST_CLOCK");
	int k;

	jump = seconds ? atol(seconds) : 0;
	if (rank && (!me || strcmp(rank, me)))
		return;
	for (k = 0; fail && k < KINDS; k++)
		if (!strncmp(fail, kinds[k], strlen(kinds[k])) && fail[strlen(kinds[k])] == ':')
			fail_at[k] = calls[k] + atol(fail + strlen(kinds[k]) + 1);
}

__attribute__((destructor)) static void end(void)
{
	const char *file = getenv("RINGUP_TEST_COUNT");
	FILE *f = file ? fopen(file, "a") : NULL;
	int k;

	for (k = 0; f && k < KINDS; k++)
		fprintf(f, "%s %ld\n", kinds[k], calls[k]);
	if (f)
		fclose(f);
}

static int fails(enum kind k)
{
	return __atomic_add_fetch(&calls[k], 1, __ATOMIC_RELAXED) ==
	       __atomic_load_n(&fail_at[k], __ATOMIC_RELAXED);
}

/* The libc's own names for its functions: dlsym() itself wants memory. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void *none(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t size)
{
	return fails(ALLOC) ? none() : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails(ALLOC) ? none() : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails(ALLOC) ? none() : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails(ALLOC) ? none() : __libc_memalign(align, size);
}

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&next = real("pthread_create");
	return fails(THREAD) ? EAGAIN : next(t, a, fn, arg);
}

pid_t fork(void)
{
	pid_t (*next)(void);

	*(void **)&next = real("fork");
	if (!fails(FORK))
		return next();
	errno = EAGAIN;
	return -1;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *(*next)(void *, size_t, int, int, int, off_t);

	*(void **)&next = real("mmap");
	if (!fails(MMAP))
		return next(at, len, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

int memfd_create(const char *name, unsigned int flags)
{
	int (*next)(const char *, unsigned int);

	*(void **)&next = real("memfd_create");
	if (!fails(MEMFD))
		return next(name, flags);
	errno = EMFILE;
	return -1;
}

static void move(struct timespec *t)
{
	long n = __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);

	if (n / 50 % 2)
		t->tv_sec += jump;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int (*next)(clockid_t, struct timespec *);
	int rc;

	*(void **)&next = real("clock_gettime");
	rc = next(clock, t);
	if (!rc && clock == CLOCK_REALTIME)
		move(t);
	return rc;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone)
{
	struct timespec t;
	int rc = clock_gettime(CLOCK_REALTIME, &t);

	(void)zone;
	v->tv_sec = t.tv_sec;
	v->tv_usec = t.tv_nsec / 1000;
	return rc;
}

time_t time(time_t *out)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}
