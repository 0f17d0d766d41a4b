/* test_growth.c - F46: a job starts and ends again and again, and nothing grows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <malloc.h>
#include <stdbool.h>
#include <unistd.h>

#include "family.h"
#include "ranks.h"
#include "tap.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { INSTRUMENTED = 1 };
#else
enum { INSTRUMENTED = 0 };
#endif

enum {
	ONCE = 2,     /* descriptors that a process opens when it first needs them, and keeps */
	JOBS = 1000,  /* and as many groups, in the long form */
	FEW = 120,    /* else; what is lost by the piece shows at once */
	WARM_UP = 15, /* jobs before the first look: caches fill, and stay     */
	GROWTH = 2 << 20, /* bytes of pages: one a job would be twice as much, of 1,000; what
			   * threads have freed, and malloc() keeps, has come to 0.9 MiB */
	LEAK = 128,       /* bytes a job that malloc() has handed out */
};

static int jobs;

/* What a process holds. */
struct held {
	int descriptors, threads, mappings;
	long resident, used; /* bytes: of pages; that malloc() has handed out */
};

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void look(struct held *h)
{
	FILE *f = fopen("/proc/self/maps", "r");
	struct mallinfo2 m = mallinfo2();
	long pages = 0;
	int c;

	h->used = (long)(m.uordblks + m.hblkhd);
	/* What has been freed counts no more, though the allocator may have kept it. */
	malloc_trim(0);
	h->mappings = 0;
	while (f && (c = getc(f)) != EOF)
		h->mappings += c == '\n';
	if (f)
		fclose(f);
	f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	h->resident = pages * sysconf(_SC_PAGESIZE);
	h->descriptors = entries("/proc/self/fd");
	h->threads = entries("/proc/self/task");
}

/* Threads that have ended may be listed for a moment. */
static void settle(const struct held *before, struct held *now)
{
	int tries;

	for (tries = 0; tries < 200; tries++) {
		look(now);
		if (now->threads <= before->threads)
			return;
		usleep(5000);
	}
}

static int has_grown(const char *who, const struct held *a, const struct held *b)
{
	if (b->descriptors <= a->descriptors + ONCE && b->threads <= a->threads &&
	    b->mappings <= a->mappings + 4 && b->resident <= a->resident + GROWTH &&
	    b->used <= a->used + (long)LEAK * jobs)
		return 0;
	printf("# %s: %d descriptors, %d threads, %d mappings, %ld KiB, %ld bytes in use; then "
	       "%d, %d, %d, %ld, %ld\n",
	       who, a->descriptors, a->threads, a->mappings, a->resident / 1024, a->used,
	       b->descriptors, b->threads, b->mappings, b->resident / 1024, b->used);
	return 1;
}

/* A small sum, a large one, one without a name. */
static int work(struct ringup_group *g)
{
	static _Thread_local float large[30000];
	float one = 1;
	struct ringup_reduce a = {
		.name = "small", .in = &one, .out = &one, .count = 1, .dtype = RINGUP_F32
	};
	int rc = ringup_allreduce(g, &a, NULL);

	a.name = NULL;
	if (!rc)
		rc = ringup_allreduce(g, &a, NULL);
	a = (struct ringup_reduce){
		.name = "large", .in = large, .out = large, .count = 30000, .dtype = RINGUP_F32
	};
	if (!rc)
		rc = ringup_allreduce(g, &a, NULL);
	if (rc)
		printf("# allreduce: %s\n", ringup_error());
	return rc;
}

/* ---- ranks as processes ---- */

static int job(void)
{
	struct ringup *r;

	if (family_join(&r)) {
		printf("# init: %s\n", ringup_error());
		return 1;
	}
	if (work(ringup_world(r)))
		return 1;
	ringup_fini(r);
	return 0;
}

static int many_jobs(void)
{
	struct held before, after;
	int i;

	alarm(1500);
	for (i = 0; i < WARM_UP; i++)
		if (job())
			return 1;
	look(&before);
	for (i = 0; i < jobs; i++)
		if (job())
			return 1;
	settle(&before, &after);
	return has_grown("a rank", &before, &after);
}

/* One job, in which groups come and go. */
static int many_groups(void)
{
	static const int both[] = { 0, 1 };
	struct held before, after;
	struct ringup_group *g;
	struct ringup *r;
	int i, rc = 0;

	alarm(1500);
	if (family_join(&r))
		return 1;
	for (i = 0; i < WARM_UP + jobs && !rc; i++) {
		if (i == WARM_UP)
			look(&before);
		rc = ringup_group_add(r, both, 2, &g);
		if (!rc && family_rank < 2)
			rc = work(g);
		if (!rc)
			rc = ringup_group_remove(g);
	}
	if (rc)
		printf("# groups: %s\n", ringup_error());
	else
		settle(&before, &after);
	ringup_fini(r);
	return rc || has_grown("a rank with groups", &before, &after);
}

static void as_processes(int size, int (*body)(void), const char *what)
{
	int status[FAMILY_MAX], r, bad = 0;

	family_run(size, body, status);
	for (r = 0; r < size; r++)
		bad += status[r] != 0;
	family_end();
	ok(!bad, "%d ranks as processes, %s", size, what);
}

/* ---- ranks as threads ---- */

static int failures;

static void sum_up(struct ringup *r, int rank, int size)
{
	(void)rank;
	(void)size;
	if (work(ringup_world(r)))
		__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

static void as_threads(int size)
{
	struct held before, after;
	int i, bad = 0;

	for (i = 0; i < WARM_UP; i++)
		bad += ranks_run(size, sum_up);
	look(&before);
	for (i = 0; i < jobs && !bad; i++)
		bad += ranks_run(size, sum_up);
	settle(&before, &after);
	ok(!bad && !failures && !has_grown("all ranks", &before, &after),
	   "%d ranks as threads, %d jobs", size, jobs);
}

int main(void)
{
	const char *is_long = getenv("RINGUP_TEST_LONG");
	char what[64];

	/* An arena comes when two threads happen to want memory at once, not by what leaks. */
	mallopt(M_ARENA_MAX, 1);
	jobs = is_long && !strcmp(is_long, "1") ? JOBS : FEW;
	if (INSTRUMENTED) {
		puts("1..0 # SKIP a sanitizer takes notes, and those grow");
		return 0;
	}
	snprintf(what, sizeof(what), "%d jobs", jobs);
	as_processes(1, many_jobs, what);
	as_processes(2, many_jobs, what);
	as_processes(4, many_jobs, what);
	setenv("RINGUP_BACKEND", "tcp", 1);
	snprintf(what, sizeof(what), "%d jobs over sockets", jobs);
	as_processes(2, many_jobs, what);
	unsetenv("RINGUP_BACKEND");
	snprintf(what, sizeof(what), "%d groups", jobs);
	as_processes(3, many_groups, what);
	as_threads(1);
	as_threads(2);
	as_threads(4);
	return tap_done();
}
