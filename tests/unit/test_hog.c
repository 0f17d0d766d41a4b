/* test_hog.c - a hog burns its processor, and is gone when it is told to. */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/hog.h"
#include "tap.h"

static double children_s(void)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6;
}

/* Is @child, made as the @n-th, on the @n-th processor from the end of @all alone?  After
 * the first comes the last again. */
static int is_placed(pid_t child, int n, const cpu_set_t *all)
{
	int i = CPU_SETSIZE, left = (n - 1) % CPU_COUNT(all) + 1;
	cpu_set_t set;

	while (left)
		left -= CPU_ISSET((size_t)--i, all) != 0;
	return !sched_getaffinity(child, sizeof(set), &set) && CPU_COUNT(&set) == 1 &&
	       CPU_ISSET((size_t)i, &set);
}

/* How many children stand where they have to. */
static int placed(void)
{
	char path[64];
	int pid, n = 0, good = 0;
	cpu_set_t all;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "r");
	if (!f || sched_getaffinity(0, sizeof(all), &all))
		return -1;
	while (fscanf(f, "%d", &pid) == 1)
		good += is_placed(pid, ++n, &all);
	fclose(f);
	return good;
}

/* Wait until all children have burnt some ms; have they? */
static bool burns(void)
{
	int64_t enough = clock_deadline(60000);
	struct timespec t;
	clockid_t clock;
	char path[64];
	int pid, left = 1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	while (left && clock_left_ms(enough)) {
		clock_sleep_ms(1);
		f = fopen(path, "r");
		for (left = !f; f && fscanf(f, "%d", &pid) == 1;)
			left += clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t) ||
				(!t.tv_sec && t.tv_nsec < 10000000);
		if (f)
			fclose(f);
	}
	return !left;
}

int main(void)
{
	double before = children_s();
	struct hog *h = NULL;
	struct err e = { 0 };

	ok(hog_start(3, &h, &e) == 0, "three hogs: %s", e.text);
	ok(waitpid(-1, NULL, WNOHANG) == 0, "they run");
	ok(placed() == 3, "each on its processor, from the last backwards");
	ok(burns(), "each burns it");
	hog_stop(h);
	ok(waitpid(-1, NULL, WNOHANG) < 0, "they are gone");
	ok(children_s() - before > 0, "and have used a processor for %.0f ms",
	   (children_s() - before) * 1e3);
	hog_stop(NULL);
	return tap_done();
}
