/* test_arenas.c - memory of other ranks is mapped no longer than the job lasts. */
/* tests: src/wire/segment.c src/wire/share.c src/engine/memory.c */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ringup.h"
#include "tap.h"

/* This process is rank 0 of one job after the other, each with another process for rank 1. */
enum { ROUNDS = 4, COUNT = 1 << 18 };

static int me, peer;

static int whole_read(char *p, size_t n)
{
	ssize_t k;

	for (; n; p += k, n -= (size_t)k) {
		k = read(peer, p, n);
		if (k <= 0)
			return -1;
	}
	return 0;
}

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)ctx;
	memcpy((char *)all + (size_t)me * len, mine, len);
	if (write(peer, mine, len) != (ssize_t)len)
		return -1;
	return whole_read((char *)all + (size_t)(1 - me) * len, len);
}

/* How many arenas are mapped here? */
static int arenas(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "ringup-arena") != NULL;
	if (f)
		fclose(f);
	return n;
}

/* @farewell: rank 1 leaves in order, or it ends at once. */
static int be_a_rank(int rank, bool farewell, int *during)
{
	struct ringup_init how = { .rank = rank, .size = 2, .exchange = exchange };
	struct ringup_reduce a = {
		.name = "x", .count = COUNT, .dtype = RINGUP_F32, .redop = RINGUP_SUM
	};
	struct ringup *job;
	float *x;
	int rc, i, both[2];

	me = rank;
	rc = ringup_init(&how, &job);
	if (rc)
		return rc;
	x = ringup_alloc(COUNT * sizeof(*x));
	a.in = a.out = x;
	for (i = 0; x && i < 3 && !rc; i++) {
		x[COUNT - 1] = 1;
		rc = ringup_allreduce(ringup_world(job), &a, NULL);
		rc = rc ? rc : x[COUNT - 1] != 2;
	}
	*during = arenas();
	/* All that rank 0 waits for is complete by then. */
	if (exchange(NULL, &rc, sizeof(rc), both) || !farewell)
		_exit(rc ? 1 : 0);
	ringup_free(x);
	ringup_fini(job);
	return rc;
}

int main(void)
{
	int i, during = 0, most = 0, status, ends[2], good = 0, ended = 0, clean = 0;
	pid_t pid;

	for (i = 0; i < ROUNDS; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
			return 1;
		pid = fork();
		peer = ends[pid == 0];
		close(ends[pid != 0]);
		if (pid == 0)
			_exit(be_a_rank(1, i % 2, &during) != 0);
		good += be_a_rank(0, true, &during) == 0;
		close(peer);
		while (waitpid(pid, &status, 0) < 0)
			;
		ended += status == 0;
		clean += arenas() == 1;
		most = during > most ? during : most;
	}
	ok(good == ROUNDS && ended == ROUNDS, "%d jobs of %d are right", good, ROUNDS);
	ok(clean == ROUNDS, "after %d of %d only its own arena is mapped%s", clean, ROUNDS,
	   most > 1 ? "" : " # SKIP ranks cannot map each other's memory here");
	return tap_done();
}
