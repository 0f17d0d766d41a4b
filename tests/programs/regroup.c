/* regroup.c - a rank of an elastic job: adds up, and meets the others again when it must. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "asks.h"
#include "ringup.h"

/*
 * usage: regroup DIR.  Adds up until the file DIR/stop is there.  Of each generation it prints
 * a line, after the first sum, with the state that rank 0 gave all: the number of its sums;
 * with DIR/trace it adds the time.  The file DIR/quit.R makes rank
 * R end with the status that is in it; with DIR/twice each tries to join twice, and with
 * DIR/child a child of each tries to join.  While DIR/late is there, a process that starts
 * waits, and says so.
 */
static const char *dir;

static int has(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

static void quit_if_asked(int rank)
{
	char name[32], path[4096];
	int status = 1;
	FILE *f;

	snprintf(name, sizeof(name), "quit.%d", rank);
	if (!has(name))
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	if (f && fscanf(f, "%d", &status) != 1)
		status = 1;
	if (f)
		fclose(f);
	unlink(path);
	exit(status);
}

static void wait_if_late(void)
{
	if (has("late"))
		printf("late pid %d\n", (int)getpid());
	fflush(stdout);
	while (has("late"))
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

/* What one step tells all: how many there are, who wants to stop, who has seen hosts change. */
struct votes {
	double one, stop, changed;
};

static int step(struct ringup *r, struct votes *sum)
{
	struct votes mine = { 1, has("stop"), ringup_hosts_changed(r) != 0 };
	struct ringup_reduce how =
		ASK_REDUCE("votes", &mine, sum, 3, .dtype = RINGUP_F64, .redop = RINGUP_SUM);

	return ringup_allreduce(ringup_world(r), &how, NULL);
}

static void join_again(void)
{
	struct ringup *other;
	int rc = ringup_init(NULL, &other);

	printf("again: %d %s\n", rc, ringup_error());
	if (!rc)
		ringup_fini(other);
}

static void child_join(void)
{
	struct ringup *r;
	pid_t child = fork();
	int rc;

	if (!child) {
		rc = ringup_init(NULL, &r);
		printf("child %d: %d %s\n", (int)getpid(), rc, ringup_error());
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* The state that the ranks have in common: how often they have added up. */
static double state;

static int sync_state(struct ringup *r)
{
	struct ringup_bcast how = ASK_BCAST("state", &state, &state, 1, .dtype = RINGUP_F64);
	int rc = ringup_broadcast(ringup_world(r), &how, NULL);

	if (!rc)
		ringup_state_synced(1);
	return rc;
}

/* Returns 0 when all want to stop, 1 to meet again, negative for an error that lasts. */
static int generation(struct ringup *r)
{
	int rank = ringup_rank(ringup_world(r)), size = ringup_size(ringup_world(r)), first = 1,
	    rc;
	struct votes sum;

	for (rc = sync_state(r);; rc = 0) {
		if (!rc)
			rc = step(r, &sum);
		if (rc == RINGUP_EPEER || rc == RINGUP_ESHUTDOWN || rc == RINGUP_EABORTED)
			return 1;
		if (rc) {
			fprintf(stderr, "sum: %s\n", ringup_error());
			return -1;
		}
		if (first)
			printf("generation %d rank %d of %d local %d of %d sum %g state %g pid "
			       "%d\n",
			       ringup_generation(r), rank, size, ringup_local_rank(r),
			       ringup_local_size(r), sum.one, state, (int)getpid());
		if (first && has("twice"))
			join_again();
		if (first && has("child")) {
			fflush(stdout);
			child_join();
		}
		state++;
		first = 0;
		fflush(stdout);
		if (sum.stop > 0)
			return 0;
		if (sum.changed > 0)
			return 1;
		quit_if_asked(rank);
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	}
}

int main(int argc, char **argv)
{
	struct ringup *r;
	int rc;

	if (argc < 2)
		return 2;
	dir = argv[1];
	wait_if_late();
	do {
		if (ringup_init(NULL, &r)) {
			fprintf(stderr, "init: %s\n", ringup_error());
			return 3;
		}
		ringup_state_synced(0);
		rc = generation(r);
		ringup_fini(r);
	} while (rc > 0);
	return rc < 0 ? 4 : 0;
}
