/* test_bind.c - a process with all its threads goes where it is told to. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/bind.h"
#include "ringup.h"
#include "tap.h"

static int said[2];

static void *tell(void *arg)
{
	pid_t me = gettid();

	(void)arg;
	if (write(said[1], &me, sizeof(me)) == sizeof(me))
		pause();
	return NULL;
}

/* The one processor of thread @t, or -1. */
static int where(pid_t t)
{
	cpu_set_t set;
	int i;

	if (sched_getaffinity(t, sizeof(set), &set) || CPU_COUNT(&set) != 1)
		return -1;
	for (i = 0; !CPU_ISSET((size_t)i, &set); i++)
		;
	return i;
}

static int last_of(const cpu_set_t *all)
{
	int i = CPU_SETSIZE - 1;

	while (!CPU_ISSET((size_t)i, all))
		i--;
	return i;
}

int main(void)
{
	pid_t child, thread = 0;
	struct err e = { 0 };
	pthread_t t;
	cpu_set_t all;
	int first, last;

	if (sched_getaffinity(0, sizeof(all), &all) || pipe(said))
		return 1;
	child = fork();
	if (child == 0) {
		if (!pthread_create(&t, NULL, tell, NULL))
			pause();
		_exit(1);
	}
	ok(read(said[0], &thread, sizeof(thread)) == sizeof(thread), "a child with a thread");
	ok(bind_process(child, 0, &e) == 0, "to the first processor %s", e.text);
	first = where(child);
	ok(first >= 0 && where(thread) == first, "both are there");
	ok(bind_process(child, CPU_COUNT(&all), &e) == 0 && where(child) == first,
	   "after the last comes the first again");
	ok(bind_process(child, 1, &e) == 0 && where(thread) >= 0 &&
		   (CPU_COUNT(&all) == 1) == (where(thread) == first),
	   "to the second, if there is one");
	last = last_of(&all);
	ok(bind_process(child, -1, &e) == 0 && where(child) == last && where(thread) == last,
	   "to the last");
	ok(bind_process(child, -CPU_COUNT(&all), &e) == 0 && where(child) == first,
	   "backwards to the first");
	ok(bind_process(child, -CPU_COUNT(&all) - 1, &e) == 0 && where(child) == last,
	   "before the first comes the last again");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ok(bind_process(child, 0, &e) == RINGUP_ESYSTEM, "nobody: %s", e.text);
	return tap_done();
}
