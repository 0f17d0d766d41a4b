/* test_unwaited.c - what nobody waits for, or looks at, goes on and is in nobody's way. */
#include <stdbool.h>

#include "base/clock.h"

#include "asks.h"
#include "ranks.h"
#include "rounds.h"

enum { FEW = 4, MANY = 50000, LATE_MS = 120000, PIECE_MS = 100 };

static int stage; /* what the ranks tell each other, beside the library */

static void reach(void)
{
	__atomic_fetch_add(&stage, 1, __ATOMIC_SEQ_CST);
}

/* Without a call into the library. */
static bool await(int wanted)
{
	int64_t enough = clock_deadline(LATE_MS);

	while (__atomic_load_n(&stage, __ATOMIC_SEQ_CST) < wanted && clock_ns() < enough)
		clock_sleep_ms(1);
	return __atomic_load_n(&stage, __ATOMIC_SEQ_CST) >= wanted;
}

static int gather(struct ringup_group *g, uint64_t rows, struct ringup_op **opp, void **out)
{
	static float in[MANY];
	static uint64_t counts[RANKS_MAX][RANKS_MAX];
	struct ringup_gather a = ASK_GATHER("rows", in, rows, 1, out, counts[ringup_rank(g)],
					    .dtype = RINGUP_F32);

	return ringup_allgather(g, &a, opp);
}

static int sum(struct ringup_group *g, const char *name, float *v, struct ringup_op **opp)
{
	struct ringup_reduce a = ASK_REDUCE(name, v, v, FEW, .dtype = RINGUP_F32);

	return ringup_allreduce(g, &a, opp);
}

/* From then on the rows are small to all. */
static void get_known(struct ringup_group *g, int rank)
{
	void *out = NULL;
	int k;

	for (k = 0; k < 3; k++) {
		check(!gather(g, FEW, NULL, &out), "known by now", rank);
		ringup_free(out);
	}
}

/* A small one is started, and then another rank brings more than its line takes. */
static void mind_changed_later(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op;
	void *out = NULL;

	get_known(g, rank);
	if (rank == size - 1) {
		check(await(size - 1), "all have started", rank);
		check(!gather(g, MANY, NULL, &out), "more rows", rank);
		reach();
	} else {
		check(!gather(g, FEW, &op, &out), "start", rank);
		reach();
		check(await(size), "complete where it is waited for", rank);
		check(!ringup_wait(op, -1), "wait", rank);
	}
	ringup_free(out);
}

/* The other way round: the one with more rows is there first, and waits when all are there. */
static void mind_changed_before(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op;
	void *out = NULL;

	get_known(g, rank);
	if (rank == size - 1) {
		check(!gather(g, MANY, &op, &out), "start with more rows", rank);
		reach();
		check(await(size), "all have started", rank);
		check(!ringup_wait(op, -1), "wait", rank);
		reach();
	} else {
		check(await(1), "another has started", rank);
		check(!gather(g, FEW, &op, &out), "start", rank);
		reach();
		check(await(size + 1), "complete where it is waited for", rank);
		check(!ringup_wait(op, -1), "wait", rank);
	}
	ringup_free(out);
}

/* Somebody changes his mind while this rank's only thread drives something else. */
static void mind_changed_meanwhile(struct ringup *r, int rank, int size)
{
	const int times = rounds_few(200, 80);
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op, *other;
	int64_t enough = clock_deadline(LATE_MS);
	float v[FEW];
	void *out;
	int k;

	for (k = 0; k < times; k++) {
		out = NULL;
		get_known(g, rank);
		if (rank == size - 1) {
			check(!gather(g, MANY, NULL, &out), "more rows", rank);
			check(!sum(g, "other", v, NULL), "the other one", rank);
		} else {
			check(!gather(g, FEW, &op, &out), "start", rank);
			check(!sum(g, "other", v, &other), "start the other one", rank);
			while (!ringup_poll(other) && clock_ns() < enough)
				;
			check(!ringup_wait(op, -1) && !ringup_wait(other, -1), "wait", rank);
		}
		ringup_free(out);
	}
	check(clock_ns() < enough, "at once", rank);
}

/* Complete everywhere, and one has not looked: its group may go, and so may it. */
static void not_looked_at(struct ringup *r, int rank, int size)
{
	static const int all[] = { 0, 1, 2 }, others[] = { 1, 2 };
	struct ringup_group *g, *h;
	struct ringup_op *op = NULL, *left = NULL;
	static float last[RANKS_MAX][FEW]; /* may be written until he has left */
	float v[FEW], *w = last[rank];
	int k;

	check(!ringup_group_add(r, all, 3, &g) && !ringup_group_add(r, others, 2, &h), "groups",
	      rank);
	for (k = 0; k < 3; k++)
		check(!sum(g, "there", v, NULL) && !sum(ringup_world(r), "here", w, NULL),
		      "known by now", rank);
	v[0] = w[0] = 1;
	if (rank == 0) {
		check(!sum(g, "there", v, &op) && !sum(ringup_world(r), "here", w, &left),
		      "start", rank);
	} else {
		check(!sum(g, "there", v, NULL) && !sum(ringup_world(r), "here", w, NULL),
		      "complete", rank);
		reach();
	}
	check(await(size - 1), "complete for the others", rank);
	check(!ringup_group_remove(g), "nothing is in flight there", rank);
	if (op) {
		check(!ringup_wait(op, -1) && v[0] == 3, "the result is there", rank);
		/* And leaves; what it has not waited for is complete. */
		reach();
		return;
	}
	check(await(size), "one leaves", rank);
	clock_sleep_ms(50);
	check(!sum(h, "without him", v, NULL), "that ends nothing for others", rank);
}

/* Longer than a rank may wait for a processor. */
enum { STALL_MS = 4000 };
#define STALL_TEXT "4000"

/* Complete, not looked at for longer than a stall may last. */
static void no_stall(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op;
	float v[FEW];
	int k;

	for (k = 0; k < 3; k++)
		check(!sum(g, "small", v, NULL), "known by now", rank);
	v[0] = 1;
	if (rank) {
		check(!sum(g, "small", v, NULL), "complete", rank);
		check(await(1), "the other has waited", rank);
		return;
	}
	check(!sum(g, "small", v, &op), "start", rank);
	clock_sleep_ms(2 * STALL_MS);
	check(!ringup_wait(op, -1) && v[0] == (float)size, "no stall", rank);
	reach();
}

/* A stall that ends the job ends waiting, too, and more waiting. */
static void stall_ends(struct ringup *r, int rank, int size)
{
	struct ringup_reduce a = { .name = "missed", .dtype = RINGUP_F32, .count = FEW };
	struct ringup_op *op = NULL;
	int64_t enough = clock_deadline(LATE_MS);
	float v[FEW];
	int rc = RINGUP_ETIMEDOUT;

	(void)size;
	a.in = a.out = v;
	if (rank) {
		check(await(1), "the other has heard", rank);
		return;
	}
	check(!ringup_allreduce(ringup_world(r), &a, &op), "start", rank);
	while (rc == RINGUP_ETIMEDOUT && clock_ns() < enough)
		rc = ringup_wait(op, PIECE_MS);
	check(rc == RINGUP_EABORTED && strstr(ringup_error(), "missed has stalled"),
	      "the job has ended", rank);
	reach();
}

/* The lowest rank is the last to join. */
static void last_to_join(struct ringup *r, int rank, int size)
{
	struct ringup_op *op;
	int last = -1;

	if (rank == 0)
		check(await(size - 1), "the others have joined", rank);
	check(!ringup_join(ringup_world(r), &last, &op), "join", rank);
	reach();
	check(!ringup_wait(op, -1) && last == 0, "rank 0 is the last", rank);
}

/* Ranks remove different groups. */
static void other_groups(struct ringup *r, int rank, int size)
{
	struct ringup_group *g[2];
	int *all = calloc((size_t)size, sizeof(*all)), i;

	for (i = 0; i < size; i++)
		all[i] = i;
	check(!ringup_group_add(r, all, size, &g[0]) && !ringup_group_add(r, all, size, &g[1]),
	      "two groups", rank);
	check(ringup_group_remove(g[rank > 0]) == RINGUP_EMISMATCH &&
		      strstr(ringup_error(), "rank 0 removes the group"),
	      "they differ", rank);
	check(!ringup_group_remove(g[1]) && !ringup_group_remove(g[0]), "and now they do not",
	      rank);
	free(all);
}

enum { WAITERS = 4 };

struct waiter {
	struct ringup_op *op;
	int rank;
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	check(!ringup_wait(w->op, -1), "wait", w->rank);
	return NULL;
}

/* A group is removed as soon as all is complete in it that other threads wait for. */
static void removed_beside(struct ringup *r, int rank, int size)
{
	const int times = rounds_few(300, 100);
	static const char *const names[WAITERS] = { "a", "b", "c", "d" };
	static const int both[] = { 0, 1 };
	struct waiter w[WAITERS];
	pthread_t thread[WAITERS];
	struct ringup_group *g;
	float v[WAITERS][FEW] = { { 0 } };
	int k, i, rc;

	(void)size;
	for (k = 0; k < times; k++) {
		check(!ringup_group_add(r, both, 2, &g), "add", rank);
		for (i = 0; i < WAITERS; i++)
			check(!sum(g, names[i], v[i], NULL), "known by now", rank);
		for (i = 0; i < WAITERS; i++) {
			w[i].rank = rank;
			check(!sum(g, names[i], v[i], &w[i].op), "start", rank);
			pthread_create(&thread[i], NULL, wait_for_it, &w[i]);
		}
		do
			rc = ringup_group_remove(g);
		while (rc == RINGUP_EBUSY);
		check(!rc, "remove", rank);
		for (i = 0; i < WAITERS; i++)
			pthread_join(thread[i], NULL);
	}
}

/* ---- more groups at the start than others have ---- */

static void *start_with_groups(void *arg)
{
	static const int both[] = { 0, 1 };
	static const struct ringup_set group = { .ranks = both, .count = 2 };
	struct rank_seat *s = arg;
	struct ringup_init how = { .rank = s->rank,
				   .size = s->room->size,
				   .exchange = rank_exchange,
				   .ctx = s,
				   .groups = &group,
				   .group_count = s->rank };
	struct ringup *r;

	s->room->failed[s->rank] = ringup_init(&how, &r);
	check(strstr(ringup_error(), "rank 0 asks for 0 groups, rank 1 for 1") != NULL,
	      "they differ", s->rank);
	return NULL;
}

static void other_numbers(void)
{
	struct rank_room room = { .size = 2 };
	struct rank_seat seat[2];
	pthread_t thread[2];
	int i;

	pthread_barrier_init(&room.barrier, NULL, 2);
	for (i = 0; i < 2; i++) {
		seat[i] = (struct rank_seat){ &room, i };
		pthread_create(&thread[i], NULL, start_with_groups, &seat[i]);
	}
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&room.barrier);
	ok(room.failed[0] == RINGUP_EMISMATCH && room.failed[1] == RINGUP_EMISMATCH,
	   "one asks for a group at the start, the other for none");
}

static void afresh(const char *what, int size,
		   void (*body)(struct ringup *r, int rank, int size))
{
	stage = 0;
	run(what, size, body);
}

int main(void)
{
	/* A tick each half second would look at what nobody looks at, and hide that. */
	setenv("RINGUP_LIVENESS", "0", 1);
	setenv("RINGUP_STALL_CHECK", "0", 1);
	afresh("a mind changed after a small one has been started", 2, mind_changed_later);
	afresh("a mind changed after a small one has been started", 4, mind_changed_later);
	afresh("a mind changed before", 2, mind_changed_before);
	afresh("a mind changed before", 4, mind_changed_before);
	afresh("a mind changed while another thing is looked at", 2, mind_changed_meanwhile);
	afresh("a mind changed while another thing is looked at", 4, mind_changed_meanwhile);
	unsetenv("RINGUP_LIVENESS");
	unsetenv("RINGUP_STALL_CHECK");
	afresh("not looked at", 3, not_looked_at);
	afresh("the last to join", 2, last_to_join);
	afresh("the last to join", 4, last_to_join);
	afresh("different groups are removed", 3, other_groups);
	afresh("a group is removed beside a thread that waits", 2, removed_beside);
	setenv("RINGUP_STALL_WARN_MS", "0", 1);
	setenv("RINGUP_STALL_ABORT_MS", STALL_TEXT, 1);
	afresh("what is complete does not stall", 2, no_stall);
	afresh("a stall ends who waits again", 2, stall_ends);
	other_numbers();
	return tap_done();
}
