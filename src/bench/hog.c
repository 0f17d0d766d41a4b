/* hog.c - processes that burn processors beside a measurement. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/hog.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

struct hog {
	int count;
	pid_t pid[];
};

/* The @n-th processor from the end of @all; from the last again when there are no more. */
static cpu_set_t nth_last(const cpu_set_t *all, int n)
{
	cpu_set_t one;
	int i, left = n % CPU_COUNT(all);

	for (i = CPU_SETSIZE - 1; i > 0; i--)
		if (CPU_ISSET((size_t)i, all) && left-- == 0)
			break;
	CPU_ZERO(&one);
	CPU_SET((size_t)i, &one);
	return one;
}

static void burn(const cpu_set_t *where, pid_t parent)
{
	volatile uint64_t heat = 0;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(1);
	sched_setaffinity(0, sizeof(*where), where);
	for (;;)
		heat = heat + 1;
}

int hog_start(int count, struct hog **hp, struct err *e)
{
	struct hog *h = calloc(1, sizeof(*h) + (size_t)count * sizeof(h->pid[0]));
	pid_t me = getpid();
	cpu_set_t all, one;

	if (!h)
		return fail(e, RINGUP_ENOMEM, "%d processes", count);
	if (sched_getaffinity(0, sizeof(all), &all)) {
		free(h);
		return fail_os(e, "affinity");
	}
	for (; h->count < count; h->count++) {
		one = nth_last(&all, h->count);
		h->pid[h->count] = fork();
		if (h->pid[h->count] == 0)
			burn(&one, me);
		if (h->pid[h->count] < 0) {
			fail_os(e, "a process to burn a processor");
			hog_stop(h);
			return RINGUP_ESYSTEM;
		}
	}
	*hp = h;
	return 0;
}

void hog_stop(struct hog *h)
{
	int i;

	for (i = 0; h && i < h->count; i++) {
		kill(h->pid[i], SIGKILL);
		while (waitpid(h->pid[i], NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(h);
}
