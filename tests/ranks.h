/* ranks.h - ranks as threads of one process, for tests of the layers above wire. */
#ifndef RANKS_H
#define RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringup.h"
#include "tap.h"

enum { RANKS_MAX = 16 };

struct rank_room {
	pthread_barrier_t barrier;
	unsigned char *all;
	int size;
	void (*body)(struct ringup *r, int rank, int size);
	int failed[RANKS_MAX];
};

struct rank_seat {
	struct rank_room *room;
	int rank;
};

static int rank_exchange(void *ctx, const void *mine, size_t len, void *all)
{
	struct rank_seat *s = ctx;

	if (s->rank == 0)
		s->room->all = malloc(len * (size_t)s->room->size);
	pthread_barrier_wait(&s->room->barrier);
	memcpy(s->room->all + len * (size_t)s->rank, mine, len);
	pthread_barrier_wait(&s->room->barrier);
	memcpy(all, s->room->all, len * (size_t)s->room->size);
	pthread_barrier_wait(&s->room->barrier);
	if (s->rank == 0)
		free(s->room->all);
	return 0;
}

static void *rank_main(void *arg)
{
	struct rank_seat *s = arg;
	struct ringup_init how = {
		.rank = s->rank, .size = s->room->size, .exchange = rank_exchange, .ctx = s
	};
	struct ringup *r = NULL;

	s->room->failed[s->rank] = ringup_init(&how, &r);
	if (s->room->failed[s->rank]) {
		printf("# rank %d: %s\n", s->rank, ringup_error());
		return NULL;
	}
	s->room->body(r, s->rank, s->room->size);
	ringup_fini(r);
	return NULL;
}

/* ranks_run - run @body as @size ranks; the number that could not start. */
static int ranks_run(int size, void (*body)(struct ringup *r, int rank, int size))
{
	struct rank_room room = { .size = size, .body = body };
	struct rank_seat seat[RANKS_MAX];
	pthread_t thread[RANKS_MAX];
	int i, bad = 0;

	pthread_barrier_init(&room.barrier, NULL, (unsigned)size);
	for (i = 0; i < size; i++) {
		seat[i] = (struct rank_seat){ &room, i };
		pthread_create(&thread[i], NULL, rank_main, &seat[i]);
	}
	for (i = 0; i < size; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < size; i++)
		bad += room.failed[i] != 0;
	pthread_barrier_destroy(&room.barrier);
	return bad;
}

static int wrong; /* what ranks found wrong; atomic */

/* check - called by ranks: what must be so. */
static inline void check(int cond, const char *what, int rank)
{
	if (cond)
		return;
	printf("# rank %d: %s (%s)\n", rank, what, ringup_error());
	__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

/* run - a test: @body as @size ranks, none of which finds anything wrong. */
static inline void run(const char *what, int size,
		       void (*body)(struct ringup *r, int rank, int size))
{
	int bad;

	alarm(250); /* a hang ends the test */
	wrong = 0;
	bad = ranks_run(size, body);
	ok(!bad && !wrong, "%s, %d ranks", what, size);
	fflush(stdout);
}

#endif
