/* hog.c - processes that keep processors busy beside a measurement. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/hog.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/bind.h"
#include "ringup.h"

struct hog {
	int count;
	pid_t pid[];
};

static void burn(pid_t parent)
{
	volatile uint64_t heat = 0;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(1);
	for (;;)
		heat = heat + 1;
}

static int start_one(struct hog *h, struct err *e)
{
	pid_t me = getpid(), p = fork();

	if (p == 0)
		burn(me);
	if (p < 0)
		return fail_os(e, "a process to burn a processor");
	h->pid[h->count++] = p;
	return bind_process(p, -h->count, e);
}

int hog_start(int count, struct hog **hp, struct err *e)
{
	struct hog *h = calloc(1, sizeof(*h) + (size_t)count * sizeof(h->pid[0]));
	int rc = 0;

	if (!h)
		return fail(e, RINGUP_ENOMEM, "%d processes", count);
	while (h->count < count && !rc)
		rc = start_one(h, e);
	if (rc)
		hog_stop(h);
	else
		*hp = h;
	return rc;
}

void hog_stop(struct hog *h)
{
	for (int i = 0; h && i < h->count; i++) {
		kill(h->pid[i], SIGKILL);
		while (waitpid(h->pid[i], NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(h);
}
