/* family.h - ranks as processes, children of a test. */
#ifndef FAMILY_H
#define FAMILY_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ringup.h"

enum { FAMILY_MAX = 8, FAMILY_CARD = 4096 };

/* What parent and children share. */
struct family {
	pthread_barrier_t barrier;
	int size;
	int note[FAMILY_MAX]; /* for the test's own use */
	unsigned char all[FAMILY_MAX * FAMILY_CARD];
};

static struct family *family;
static int family_rank;

static int family_exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)ctx;
	memcpy(family->all + len * (size_t)family_rank, mine, len);
	pthread_barrier_wait(&family->barrier);
	memcpy(all, family->all, len * (size_t)family->size);
	pthread_barrier_wait(&family->barrier);
	return 0;
}

static int family_join(struct ringup **r)
{
	struct ringup_init how = { .rank = family_rank,
				   .size = family->size,
				   .exchange = family_exchange };

	return ringup_init(&how, r);
}

/* family_run - @body in @size processes, which exit with what it returns; writes
 * their wait statuses.  A hang ends after some minutes. */
static void family_run(int size, int (*body)(void), int *status)
{
	pthread_barrierattr_t a;
	pid_t pid[FAMILY_MAX];
	int r;

	fflush(stdout);
	family = mmap(NULL, sizeof(*family), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	family->size = size;
	pthread_barrierattr_init(&a);
	pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&family->barrier, &a, (unsigned)size);
	for (r = 0; r < size; r++) {
		pid[r] = fork();
		if (pid[r])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(250);
		family_rank = r;
		r = body();
		fflush(stdout);
		_exit(r);
	}
	for (r = 0; r < size; r++)
		waitpid(pid[r], &status[r], 0);
}

static void family_end(void)
{
	munmap(family, sizeof(*family));
	family = NULL;
}

#endif
