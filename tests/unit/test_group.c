/* test_group.c - groups of ranks, and collectives of every kind in them. */
/* tests: src/engine src/api/api_group.c */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/call.h"
#include "backend/backend.h"
#include "backend/node_state.h"
#include "engine/progress.h"
#include "host/cores.h"
#include "rounds.h"
#include "tap.h"

#include "asks.h"
#include "ranks.h"

static int sum(struct ringup_group *g, const char *name, float *v, uint64_t n,
	       struct ringup_op **opp)
{
	struct ringup_reduce a = ASK_REDUCE(name, v, v, n, .dtype = RINGUP_F32);

	return ringup_allreduce(g, &a, opp);
}

static bool all_are(const float *v, uint64_t n, float x)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		if (v[i] != x)
			return false;
	return true;
}

/* ---- kinds ---- */

/* Rank r sends (q + r) % 3 * n rows to rank q; row i from r to q holds a number that
 * tells all three. */
static int32_t row_of(int from, int to, uint64_t i)
{
	return (int32_t)((uint64_t)(from * 64 + to) * 1000000 + i);
}

static uint64_t rows_to(int from, int to, uint64_t n, bool even)
{
	return even ? n : (uint64_t)((to + from) % 3) * n;
}

/* @gone: a rank that has joined, and sends nothing; or -1. */
static void exchange_without(struct ringup_group *g, uint64_t n, bool even, int rank, int size,
			     int gone)
{
	uint64_t splits[RANKS_MAX], counts[RANKS_MAX], rows = 0, at = 0, i, bad = 0;
	struct ringup_exchange a = { .bytes = sizeof(struct ringup_exchange),
				     .name = even ? "even" : "uneven",
				     .row = 1,
				     .dtype = RINGUP_I32,
				     .counts = counts };
	int32_t *in, *out = NULL;
	int q;

	for (q = 0; q < size; q++) {
		splits[q] = rows_to(rank, q, n, even);
		rows += splits[q];
	}
	in = malloc((rows + 1) * sizeof(*in));
	for (q = 0; q < size; q++)
		for (i = 0; i < splits[q]; i++)
			in[at++] = row_of(rank, q, i);
	a.in = in;
	a.rows = rows;
	a.splits = even ? NULL : splits;
	a.out = (void **)&out;
	check(!ringup_alltoall(g, &a, NULL), "alltoall", rank);
	for (at = 0, q = 0; q < size && out; q++) {
		uint64_t want = q == gone ? 0 : rows_to(q, rank, n, even);

		bad += counts[q] != want;
		for (i = 0; i < want; i++)
			bad += out[at++] != row_of(q, rank, i);
	}
	check(out && !bad, "alltoall values", rank);
	ringup_free(out);
	free(in);
}

static void exchange(struct ringup_group *g, uint64_t n, bool even, int rank, int size)
{
	exchange_without(g, n, even, rank, size, -1);
}

/* An exchange that is too large to be eager, small enough for one chunk. */
static void exchange_once(struct ringup *r, int rank, int size)
{
	enum { ROWS = 2500, TIMES = 20 };
	const struct group *g = r->world.group;
	const struct node_counters *mine =
		(struct node_counters *)g->segment.counters + g->rank;
	const struct progress *progress = &group_progress(g)[g->rank];
	uint64_t chunks;
	uint32_t notified;
	int i;

	exchange(ringup_world(r), ROWS, true, rank, size);
	notified = __atomic_load_n(&progress->word, __ATOMIC_RELAXED);
	chunks = __atomic_load_n(&mine->out, __ATOMIC_RELAXED);
	for (i = 0; i < TIMES; i++)
		exchange(ringup_world(r), ROWS, true, rank, size);
	check(__atomic_load_n(&mine->out, __ATOMIC_RELAXED) == chunks + TIMES,
	      "one plan for each", rank);
	check(__atomic_load_n(&progress->word, __ATOMIC_RELAXED) == notified,
	      "a rank that waits drives, and no progress thread is woken", rank);
	/* Nobody leaves before all have looked. */
	exchange(ringup_world(r), ROWS, true, rank, size);
}

/* @gone: as above; it gives zeros. */
static void scatter_without(struct ringup_group *g, uint64_t rows, uint64_t row, int rank,
			    int size, int gone)
{
	int there = gone < 0 ? size : size - 1;
	int ranks = size * (size - 1) / 2 - (gone < 0 ? 0 : gone);
	uint64_t n = (uint64_t)size, first, mine, i, bad = 0, count = rows * row;
	int32_t *in = malloc((count + 1) * sizeof(*in)), *out = malloc((count + 1) * 4);
	struct ringup_scatter a =
		ASK_SCATTER("scatter", in, rows, row, out, .dtype = RINGUP_I32);

	mine = rows / n + ((uint64_t)rank < rows % n);
	first = rows / n * (uint64_t)rank +
		((uint64_t)rank < rows % n ? (uint64_t)rank : rows % n);
	for (i = 0; i < count; i++)
		in[i] = (int32_t)i + rank;
	check(!ringup_reducescatter(g, &a, NULL), "reducescatter", rank);
	for (i = 0; i < mine * row; i++)
		bad += out[i] != (int32_t)(first * row + i) * there + ranks;
	check(!bad, "reducescatter values", rank);
	free(in);
	free(out);
}

static void scatter(struct ringup_group *g, uint64_t rows, uint64_t row, int rank, int size)
{
	scatter_without(g, rows, row, rank, size, -1);
}

static void kinds_in(struct ringup_group *g)
{
	static const uint64_t lengths[] = { 0, 1, 3, 40, 1000, 40000 };
	int rank = ringup_rank(g), size = ringup_size(g), k, again;

	for (k = 0; k < 6; k++)
		/* Small ones are known the third time. */
		for (again = 0; again < (k < 4 ? 4 : rounds_of(4)); again++) {
			exchange(g, lengths[k], true, rank, size);
			exchange(g, lengths[k], false, rank, size);
			scatter(g, lengths[k], 1, rank, size);
			scatter(g, lengths[k], 3, rank, size);
		}
}

static void kinds(struct ringup *r, int rank, int size)
{
	(void)rank;
	(void)size;
	kinds_in(ringup_world(r));
}

static void adasum(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	double v[5], one[4] = { 0 };
	struct ringup_reduce a =
		ASK_REDUCE("same", v, v, 5, .dtype = RINGUP_F64, .redop = RINGUP_ADASUM);
	int i;

	/* Equal vectors come out as they went in, orthogonal ones as their sum. */
	for (i = 0; i < 5; i++)
		v[i] = i + 1;
	check(!ringup_allreduce(g, &a, NULL) && v[4] == 5 && v[0] == 1, "equal", rank);
	one[rank % 4] = 3;
	a = (struct ringup_reduce)ASK_REDUCE(NULL, one, one, 4, .dtype = RINGUP_F64,
					     .redop = RINGUP_ADASUM);
	check(!ringup_allreduce(g, &a, NULL), "orthogonal", rank);
	for (i = 0; i < size && size <= 4; i++)
		check(one[i] == 3, "orthogonal values", rank);
	a.dtype = RINGUP_I32;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "integers", rank);
}

/* ---- several tensors that go together ---- */

static void together(struct ringup *r, int rank, int size)
{
	enum { N = 300 };
	struct ringup_group *g = ringup_world(r);
	struct ringup_reduce a[N];
	float *v[N];
	struct ringup_op *op, *alone;
	float lonely = 1;
	int i, round;

	for (i = 0; i < N; i++)
		v[i] = malloc((size_t)(i * 7 + 1) * sizeof(float));
	for (round = 0; round < rounds_of(3); round++) {
		for (i = 0; i < N; i++) {
			int k;

			for (k = 0; k < i * 7 + 1; k++)
				v[i][k] = (float)(rank + i);
			a[i] = (struct ringup_reduce)ASK_REDUCE(i ? NULL : "many", v[i], v[i],
								(uint64_t)(i * 7),
								.dtype = RINGUP_F32);
		}
		/* Another operation, in another order on each rank. */
		if (rank % 2)
			check(!sum(g, "alone", &lonely, 1, &alone), "alone", rank);
		check(!ringup_allreduce_many(g, a, N, &op), "many", rank);
		if (rank % 2 == 0)
			check(!sum(g, "alone", &lonely, 1, &alone), "alone", rank);
		check(!ringup_wait(op, -1) && !ringup_wait(alone, -1), "wait", rank);
		for (i = 0; i < N; i++)
			check(all_are(v[i], (uint64_t)(i * 7),
				      (float)(size * (size - 1) / 2 + i * size)),
			      "values", rank);
	}
	if (size > 1) {
		/* The same number of elements, cut differently. */
		a[0].count = rank ? 2 : 1;
		a[1].count = rank ? 1 : 2;
		check(ringup_allreduce_many(g, a, 2, NULL) == RINGUP_EMISMATCH, "cut", rank);
	}
	for (i = 0; i < N; i++)
		free(v[i]);
}

/* ---- groups ---- */

static void overlapping(struct ringup *r, int rank, int size)
{
	enum { COUNT = 3000 };
	const int rounds = rounds_few(50, 24);
	struct ringup_group *g[RANKS_MAX];
	struct ringup_op *op[RANKS_MAX];
	static float v[RANKS_MAX][RANKS_MAX][COUNT];
	int i, k, round;

	/* Neighbours in a circle: each rank is in two groups. */
	for (i = 0; i < size; i++) {
		int pair[] = { (i + 1) % size, i };

		check(!ringup_group_add(r, pair, 2, &g[i]), "add", rank);
		check(ringup_group_id(g[i]) == i + 1 && ringup_group_get(r, i + 1) == g[i],
		      "number", rank);
		check((ringup_rank(g[i]) >= 0) == (rank == i || rank == (i + 1) % size),
		      "member", rank);
		check(ringup_size(g[i]) == 2, "size", rank);
	}
	for (round = 0; round < rounds; round++) {
		uint64_t n = round % 3 ? COUNT : 2;
		int mine[2] = { rank, (rank + size - 1) % size };

		for (k = 0; k < 2; k++) {
			i = mine[(k + round + rank) % 2];
			for (uint64_t c = 0; c < n; c++)
				v[rank][i][c] = (float)(rank + 1);
			check(!sum(g[i], round % 2 ? "x" : NULL, v[rank][i], n, &op[i]),
			      "start", rank);
		}
		for (k = 0; k < 2; k++) {
			i = mine[(k + round) % 2];
			check(!ringup_wait(op[i], -1), "wait", rank);
			check(all_are(v[rank][i], n, (float)(i + 1 + (i + 1) % size + 1)),
			      "sum of two", rank);
		}
	}
	/* Blocking calls, each rank beginning with another group. */
	for (round = 0; round < rounds; round++)
		for (k = 0; k < 2; k++) {
			i = (rank % 2 ? k : 1 - k) ? rank : (rank + size - 1) % size;
			if (size % 2)
				continue; /* an odd circle has no such order */
			v[rank][i][0] = (float)rank;
			check(!sum(g[i], "one", v[rank][i], 1, NULL), "blocking", rank);
		}
	for (i = 0; i < size; i++)
		check(!ringup_group_remove(g[i]), "remove", rank);
	check(ringup_group_get(r, 1) == NULL, "gone", rank);
}

/* Processor time of this thread, in ms. */
static int64_t used_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What a rank may use of its processor while it looks, before it rests.  The number of looks is
 * set; ThreadSanitizer makes one up to forty times as slow: 210 to 430 ms in all.  Who never
 * rests uses SLOW_MS, or a third less where two processors are for three. */
enum { LOOKING_MS = ROUNDS_TSAN ? 640 : 300 };

/* Rank 1 has submitted, and then does nothing for a while, nor does its progress thread: for
 * another thread has the baton, it believes.  Whoever has begun with the plan has to rest. */
static void wait_for_late(struct ringup_group *g, int rank)
{
	enum { COUNT = 1 << 16, SLOW_MS = 1000 };
	float *v = calloc(COUNT, sizeof(*v));
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "w",
				   .in = v,
				   .out = v,
				   .count = COUNT };
	struct ringup_op *op;
	uint32_t *baton, no;
	int64_t used;

	a.dtype = RINGUP_F32;
	check(!ringup_allreduce(g, &a, NULL), "once", rank);
	if (rank == 1) {
		baton = &g->group->comm.engine->baton;
		do
			no = 0;
		while (!__atomic_compare_exchange_n(baton, &no, 1, false, __ATOMIC_ACQUIRE,
						    __ATOMIC_RELAXED));
		check(!ringup_allreduce(g, &a, &op), "start", rank);
		usleep(SLOW_MS * 1000);
		__atomic_store_n(baton, 0, __ATOMIC_RELEASE);
		check(!ringup_wait(op, -1), "wait", rank);
	} else {
		used = used_ms();
		check(!ringup_allreduce(g, &a, NULL), "again", rank);
		used = used_ms() - used;
		if (used >= LOOKING_MS)
			printf("# rank %d: %lld ms\n", rank, (long long)used);
		check(used < LOOKING_MS, "rests meanwhile", rank);
	}
	free(v);
}

static void waiting(struct ringup *r, int rank, int size)
{
	int ranks[RANKS_MAX], i;
	struct ringup_group *g;

	wait_for_late(ringup_world(r), rank);
	for (i = 0; i < size; i++)
		ranks[i] = i;
	check(!ringup_group_add(r, ranks, size, &g), "add", rank);
	wait_for_late(g, rank);
	check(!ringup_group_remove(g), "remove", rank);
}

/* Three groups of two, each rank blocked in the one that another one waits for. */
static void circle(struct ringup *r, int rank, int size)
{
	static const int pairs[3][2] = { { 0, 1 }, { 1, 2 }, { 0, 2 } };
	enum { COUNT = 200000 / ROUNDS_LESS };
	struct ringup_group *g[3];
	struct ringup_op *op[3] = { 0 };
	float *v[3];
	int i, k, round;

	(void)size;
	for (i = 0; i < 3; i++) {
		v[i] = malloc(COUNT * sizeof(float));
		check(!ringup_group_add(r, pairs[i], 2, &g[i]), "add", rank);
	}
	for (round = 0; round < rounds_few(20, 12); round++) {
		for (k = 0; k < 3; k++) {
			i = (k + rank + round) % 3;
			if (ringup_rank(g[i]) < 0)
				continue;
			for (int c = 0; c < COUNT; c++)
				v[i][c] = (float)(rank + c % 5);
			check(!sum(g[i], "c", v[i], COUNT, &op[i]), "start", rank);
		}
		for (k = 0; k < 3; k++) {
			i = (2 * k + rank) % 3;
			if (ringup_rank(g[i]) < 0)
				continue;
			check(!ringup_wait(op[i], -1), "wait", rank);
			check(v[i][4] == (float)(pairs[i][0] + pairs[i][1] + 8), "value", rank);
		}
	}
	/* Whoever leaves ends the job for all groups. */
	check(!ringup_barrier(ringup_world(r), "end", NULL), "end", rank);
	for (i = 0; i < 3; i++)
		free(v[i]);
}

static void every_kind(struct ringup *r, int rank, int size)
{
	int some[RANKS_MAX], i, n = 0;
	struct ringup_group *g;

	for (i = size - 1; i >= 0; i -= 2)
		some[n++] = i;
	check(!ringup_group_add(r, some, n, &g), "add", rank);
	if (ringup_rank(g) >= 0) {
		check(ringup_group_member(g, ringup_rank(g)) == rank, "member", rank);
		kinds_in(g);
		check(!ringup_barrier(g, "b", NULL), "barrier", rank);
	} else {
		check(ringup_barrier(g, NULL, NULL) == RINGUP_EINVAL, "stranger", rank);
	}
	check(!ringup_barrier(ringup_world(r), NULL, NULL), "world", rank);
}

/* Rows that no memory holds are refused here, though this rank has none of them. */
static void no_such_rows(struct ringup_group *w, int rank)
{
	uint64_t counts[RANKS_MAX];
	void *out = NULL;
	struct ringup_gather a = { .bytes = sizeof(struct ringup_gather),
				   .name = "rows",
				   .row = UINT64_C(1) << 60,
				   .out = &out,
				   .counts = counts };
	struct ringup_exchange x = { .bytes = sizeof(struct ringup_exchange),
				     .name = "rows",
				     .row = UINT64_C(1) << 61,
				     .out = &out,
				     .counts = counts };

	check(ringup_allgather(w, &a, NULL) == RINGUP_EINVAL, "such a row", rank);
	check(ringup_alltoall(w, &x, NULL) == RINGUP_EINVAL, "nor to all", rank);
	a.row = 3;
	check(!ringup_allgather(w, &a, NULL), "none of small rows", rank);
	ringup_free(out);
}

static void refused(struct ringup *r, int rank, int size)
{
	int twice[] = { 0, 0 }, none[] = { size }, mine[] = { rank };
	struct ringup_group *g = NULL;
	struct ringup_op *op;
	float v = 1;

	no_such_rows(ringup_world(r), rank);
	check(ringup_group_add(r, twice, 2, &g) == RINGUP_EINVAL, "twice", rank);
	check(ringup_group_add(r, none, 1, &g) == RINGUP_EINVAL, "no such rank", rank);
	check(ringup_group_add(r, mine, 0, &g) == RINGUP_EINVAL, "nobody", rank);
	if (size > 1) {
		check(ringup_group_add(r, mine, 1, &g) == RINGUP_EMISMATCH && !g,
		      "different groups", rank);
		check(strstr(ringup_error(), "rank 0 asks for a group of rank 0 of ") &&
			      strstr(ringup_error(), ", rank 1 for rank 1 of "),
		      "both sides are told", rank);
	}
	check(ringup_group_remove(ringup_world(r)) == RINGUP_EINVAL, "the world", rank);
	check(!ringup_group_add(r, (int[]){ 0 }, 1, &g) && g, "then a good one", rank);
	if (rank == 0)
		check(!sum(g, "s", &v, 1, NULL) && v == 1, "alone", rank);
	check(!ringup_group_remove(g), "remove", rank);
	if (size < 2)
		return;
	check(!ringup_group_add(r, (int[]){ 0, 1 }, 2, &g), "two", rank);
	if (rank == 0)
		check(!sum(g, "late", &v, 1, &op), "start", rank);
	check(ringup_group_remove(g) == RINGUP_EBUSY, "in flight", rank);
	if (rank == 1)
		check(!sum(g, "late", &v, 1, &op), "start", rank);
	if (rank < 2)
		check(!ringup_wait(op, -1), "wait", rank);
	check(!ringup_group_remove(g), "remove", rank);
}

/* What has been complete when its group went is waited for later; what is asked for then is
 * not in its way. */
static void remembered(struct ringup *r, int rank, int size)
{
	enum { OPS = 70 };
	struct ringup_group *g, *world = ringup_world(r);
	struct ringup_op *op[OPS], *many, *odd, *other;
	float v[OPS], w[2] = { 1, 1 }, x = 1;
	struct ringup_reduce a[2] = {
		ASK_REDUCE("many", w, w, 1, .dtype = RINGUP_F32),
		ASK_REDUCE(NULL, w + 1, w + 1, 1, .dtype = RINGUP_F32),
	};
	int both[] = { size - 2, size - 1 }, i;
	char name[24];

	check(!ringup_group_add(r, both, 2, &g), "add", rank);
	if (ringup_rank(g) >= 0) {
		for (i = 0; i < OPS; i++) {
			v[i] = (float)i;
			snprintf(name, sizeof(name), "%d", i);
			check(!sum(g, name, &v[i], 1, &op[i]), "start", rank);
		}
		check(!ringup_allreduce_many(g, a, 2, &many), "many", rank);
		check(!sum(g, "odd", &x, rank == size - 1 ? 0 : 1, &odd), "differ", rank);
		for (i = 0; i < OPS || !ringup_poll(many) || !ringup_poll(odd); i++)
			while (i < OPS && !ringup_poll(op[i]))
				;
	}
	check(!ringup_group_remove(g), "remove", rank);
	check(!sum(world, "other", &x, 1, &other), "start", rank);
	if (rank >= size - 2) {
		for (i = 0; i < OPS; i++)
			check(ringup_poll(op[i]) && !ringup_wait(op[i], -1) &&
				      v[i] == (float)(2 * i),
			      "complete before", rank);
		check(!ringup_wait(many, -1) && w[1] == 2, "many", rank);
		check(ringup_wait(odd, -1) == RINGUP_EMISMATCH, "a disagreement", rank);
		snprintf(name, sizeof(name), "rank %d", size - 2);
		check(strstr(ringup_error(), name) &&
			      strstr(ringup_error(), "an allreduce (sum) of 0 f32"),
		      "as the world counts", rank);
	}
	check(!ringup_wait(other, -1) && x == (float)size, "other", rank);
	for (i = 0; i < OPS; i++)
		check(!sum(world, "after", &v[i], 1, NULL), "after", rank);
}

/* Groups come, are used and go while sums of the world are on their way. */
static void come_and_go(struct ringup *r, int rank, int size)
{
	enum { TIMES = 12, COUNT = 400000 };
	struct ringup_group *world = ringup_world(r), *g;
	float *v = malloc(COUNT * sizeof(*v)), w;
	int ranks[RANKS_MAX], i, k;
	struct ringup_op *op;

	for (i = 0; i < size; i++)
		ranks[i] = i;
	for (i = 0; i < TIMES; i++) {
		for (k = 0; k < COUNT; k++)
			v[k] = 1;
		check(!sum(world, "long", v, COUNT, &op), "a long sum", rank);
		check(!ringup_group_add(r, ranks, size, &g), "a group", rank);
		w = 1;
		check(!sum(g, "short", &w, 1, NULL) && w == (float)size, "its sum", rank);
		check(!ringup_group_remove(g), "gone", rank);
		check(!ringup_wait(op, -1) && all_are(v, COUNT, (float)size), "the long sum",
		      rank);
	}
	free(v);
}

static int tried; /* that a rank starts something after it has joined; atomic */

/* A rank that has joined the world asks for no group there. */
static void after_join(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = NULL;
	struct ringup_op *join;
	int last, rc;

	if (rank == 0) {
		check(!ringup_join(ringup_world(r), &last, &join), "join", rank);
		check(ringup_group_add(r, (int[]){ 0, 1 }, 2, &g) == RINGUP_EBUSY, "has joined",
		      rank);
		__atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
		check(!ringup_wait(join, -1), "wait", rank);
	} else {
		/* It may not have joined yet; then it is not asked. */
		rc = ringup_group_add(r, (int[]){ 0, 1 }, 2, &g);
		check(rc == RINGUP_EMISMATCH && strstr(ringup_error(), "rank 0 has joined"),
		      "the others hear that", rank);
		/* Once all have joined, rank 0 would be asked like the others. */
		while (!__atomic_load_n(&tried, __ATOMIC_ACQUIRE))
			usleep(1000);
		check(!ringup_join(ringup_world(r), &last, NULL), "join", rank);
	}
	check(size > 0 && !ringup_group_add(r, (int[]){ 0, 1 }, 2, &g), "after it", rank);
}

/* The last rank leaves: the others go on in a group of their own. */
static void without_one(struct ringup *r, int rank, int size)
{
	int ranks[RANKS_MAX], i;
	struct ringup_group *world = ringup_world(r), *g;
	struct ringup_op *op;
	float v[600], w = 1;

	for (i = 0; i < size - 1; i++)
		ranks[i] = i;
	check(!ringup_group_add(r, ranks, size - 1, &g), "add", rank);
	if (rank == size - 1)
		return;
	v[0] = 1;
	check(!sum(g, "in flight", v, 1, rank ? NULL : &op), "in flight", rank);
	check(sum(world, "all", &w, 1, NULL) == RINGUP_ESHUTDOWN, "a rank is missing", rank);
	check(strstr(ringup_error(), "has left the job") != NULL, "and it is told", rank);
	check(rank || !ringup_wait(op, -1), "what was in flight", rank);
	for (i = 0; i < 100; i++) {
		for (int k = 0; k < 600; k++)
			v[k] = 1;
		check(!sum(g, i % 2 ? "few" : "many", v, i % 2 ? 1 : 600, NULL), "sum", rank);
		check(all_are(v, i % 2 ? 1 : 600, (float)(size - 1)), "values", rank);
	}
}

static int count_connections(void)
{
	struct sockaddr_storage peer;
	socklen_t len;
	int fd, n = 0;

	for (fd = 3; fd < 1024; fd++) {
		len = sizeof(peer);
		n += !getpeername(fd, (struct sockaddr *)&peer, &len) &&
		     peer.ss_family == AF_INET;
	}
	return n;
}

/* A child of a rank keeps no connection of the world, nor of groups. */
static void forked(struct ringup *r, int rank, int size)
{
	static const int ranks[] = { 0, 1 };
	struct ringup_group *g;
	int status = -1;
	pid_t pid;

	check(!ringup_group_add(r, ranks, 2, &g), "add", rank);
	check(!ringup_barrier(ringup_world(r), NULL, NULL), "barrier", rank);
	if (rank == 0) {
		check(count_connections() >= size, "there are connections", rank);
		pid = fork();
		if (!pid) {
			ringup_abort(r, "no rank of this job");
			_exit(count_connections() ? 1 : 0);
		}
		check(waitpid(pid, &status, 0) == pid && !status,
		      "the child has none, and is not heard", rank);
	}
	check(!ringup_barrier(ringup_world(r), NULL, NULL), "barrier", rank);
}

/* What a child may ask for: nothing of it reaches the job, nor harms the child. */
static int as_child(struct ringup *r, struct ringup_op *op)
{
	struct ringup_group *g;
	float v = 1;
	int bad = 0;

	ringup_abort(r, "no rank of this job");
	bad += ringup_wait(op, -1) != RINGUP_ESHUTDOWN;
	bad += sum(ringup_world(r), "known", &v, 1, NULL) != RINGUP_ESHUTDOWN;
	bad += !strstr(ringup_error(), "a forked child is not a rank");
	bad += ringup_group_add(r, (int[]){ 0 }, 1, &g) != RINGUP_ESHUTDOWN;
	bad += ringup_group_remove(ringup_group_get(r, 1)) != RINGUP_ESHUTDOWN;
	bad += ringup_rank(ringup_world(r)) != 0;
	ringup_fini(r);
	return bad;
}

static void child(struct ringup *r, int rank, int size)
{
	static const int ranks[] = { 0, 1 };
	struct ringup_group *world = ringup_world(r), *g;
	struct ringup_op *op = NULL;
	float v = 1, w = 1;
	int status = -1, i;
	pid_t pid;

	check(!ringup_group_add(r, ranks, 2, &g), "add", rank);
	for (i = 0; i < 4; i++)
		check(!sum(world, "known", &v, 1, NULL), "sum", rank);
	if (rank == 0) {
		check(!sum(world, "late", &w, 1, &op), "start", rank);
		pid = fork();
		if (!pid)
			_exit(as_child(r, op));
		check(waitpid(pid, &status, 0) == pid && !status, "a child's calls", rank);
	}
	check(!ringup_barrier(world, NULL, NULL), "barrier", rank);
	if (rank)
		check(!sum(world, "late", &w, 1, &op), "start", rank);
	check(!ringup_wait(op, -1) && w == (float)size, "the parent's", rank);
}

/* ---- join ---- */

/* Rank r has r + 1 rounds of work, then joins; rank size-1 is the last. */
static void join_with(struct ringup *r, int rank, int size, uint64_t n)
{
	struct ringup_group *g = ringup_world(r);
	float *v = malloc((n + 1) * sizeof(*v)), *out;
	uint64_t counts[RANKS_MAX];
	int round, q, last = -1;

	for (round = 0; round <= rank; round++) {
		float want = 0, least = (float)round;
		struct ringup_reduce a =
			ASK_REDUCE("min", v, v, n, .dtype = RINGUP_F32, .redop = RINGUP_MIN);
		struct ringup_gather all =
			ASK_GATHER("all", v, 1, 1, (void **)&out, counts, .dtype = RINGUP_F32);

		for (q = round; q < size; q++)
			want += (float)(q + 1);
		for (uint64_t i = 0; i < n; i++)
			v[i] = (float)(rank + 1);
		check(!sum(g, round % 2 ? "j" : NULL, v, n, NULL), "sum", rank);
		check(all_are(v, n, want), "sum of those who are left", rank);
		for (uint64_t i = 0; i < n; i++)
			v[i] = (float)rank;
		check(!ringup_allreduce(g, &a, NULL), "min", rank);
		check(all_are(v, n, least), "minimum of those who are left", rank);
		v[0] = (float)rank;
		check(!ringup_allgather(g, &all, NULL), "gather", rank);
		for (q = 0; q < size; q++)
			check(counts[q] == (q >= round), "rows of those who are left", rank);
		check(out[size - 1 - round] == (float)(size - 1), "last row", rank);
		ringup_free(out);
		check(!ringup_barrier(g, "bar", NULL), "barrier", rank);
	}
	check(!ringup_join(g, &last, NULL), "join", rank);
	check(last == size - 1, "who was last", rank);
	v[0] = 1;
	check(!sum(g, "after", v, 1, NULL) && v[0] == (float)size, "after the join", rank);
	free(v);
}

static void join_small(struct ringup *r, int rank, int size)
{
	join_with(r, rank, size, 4);
	join_with(r, rank, size, 4);
}

static void join_large(struct ringup *r, int rank, int size)
{
	join_with(r, rank, size, 70001 / ROUNDS_LESS);
}

/* Many together, a broadcast from who is there and from who is not. */
static void join_others(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float v[6] = { 1, 2, 3, 4, 5, 6 };
	struct ringup_reduce a[2] = {
		ASK_REDUCE("pair", v, v, 2, .dtype = RINGUP_F32),
		ASK_REDUCE(NULL, v + 2, v + 2, 4, .dtype = RINGUP_F32),
	};
	struct ringup_bcast b = ASK_BCAST("b", v, v, 6, .dtype = RINGUP_F32, .root = 1);
	struct ringup_op *op;
	int last;

	if (size < 2)
		return;
	if (rank == 0) {
		check(!ringup_join(g, &last, &op), "join", rank);
		check(!ringup_wait(op, -1), "wait", rank);
	} else {
		check(!ringup_allreduce_many(g, a, 2, NULL), "many", rank);
		check(v[5] == 6 * (float)(size - 1), "many values", rank);
		check(!ringup_broadcast(g, &b, NULL), "broadcast", rank);
		b.root = 0;
		check(ringup_broadcast(g, &b, NULL) == RINGUP_EMISMATCH &&
			      strstr(ringup_error(), "rank 0 wants a join"),
		      "broadcast from a rank that has joined", rank);
		exchange(g, 0, true, rank, size);
		scatter(g, 0, 1, rank, size);
		check(!ringup_join(g, &last, NULL), "join", rank);
	}
	check(last > 0, "last", rank);
}

/* What is no sum while rank 0 has joined, of tensors of @n: refused, and nothing is out of
 * step. */
static void join_refuses(struct ringup_group *g, uint64_t n, int rank, int size)
{
	float *v = calloc(n, sizeof(*v)), *out = NULL;
	uint64_t counts[RANKS_MAX];
	struct ringup_gather all =
		ASK_GATHER("all", v, 1, n, (void **)&out, counts, .dtype = RINGUP_F32);
	struct ringup_gather both[2] = { all, all };
	struct ringup_reduce a[2] = {
		ASK_REDUCE("pair", v, v, 1, .dtype = RINGUP_F32),
		ASK_REDUCE(NULL, v + 1, v + 1, n - 1, .dtype = RINGUP_F32),
	};
	struct ringup_bcast b = ASK_BCAST("b", v, v, n, .dtype = RINGUP_F32, .root = 1);
	struct ringup_scatter s = ASK_SCATTER("s", v, n, 1, v, .dtype = RINGUP_F32);
	int round;

	for (round = 0; round < 2; round++) {
		check(ringup_allgather(g, &all, NULL) == RINGUP_EMISMATCH, "gather", rank);
		check(!!strstr(ringup_error(), "RINGUP_JOIN=all"), "and why", rank);
		check(ringup_allgather_many(g, both, 2, NULL) == RINGUP_EMISMATCH, "many",
		      rank);
		check(!!strstr(ringup_error(), "RINGUP_JOIN=all"), "and why", rank);
		check(ringup_broadcast(g, &b, NULL) == RINGUP_EMISMATCH, "broadcast", rank);
		check(ringup_reducescatter(g, &s, NULL) == RINGUP_EMISMATCH, "scatter", rank);
		for (uint64_t i = 0; i < n; i++)
			v[i] = 1;
		check(!ringup_allreduce_many(g, a, 2, NULL), "sums", rank);
		check(all_are(v, n, (float)(size - 1)), "of those who are left", rank);
		check(!ringup_barrier(g, "bar", NULL), "barrier", rank);
	}
	free(v);
}

static void join_sums(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float one = 1;
	int round, last = -1;

	for (round = 0; round < 2 && size > 1; round++) {
		if (rank)
			join_refuses(g, round ? 70001 / ROUNDS_LESS : 4, rank, size);
		check(!ringup_join(g, &last, NULL) && last > 0, "join", rank);
		one = 1;
		check(!sum(g, "after", &one, 1, NULL) && one == (float)size, "after", rank);
	}
}

/* What is in flight when a rank joins, its name used again by the others; and tensors
 * that go together beside one that is alone. */
static void join_flying(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float one = 1, two = 1, again = 1, v[6] = { 1, 1, 1, 1, 1, 1 };
	struct ringup_reduce a[2] = {
		ASK_REDUCE("pair", v, v, 2, .dtype = RINGUP_F32),
		ASK_REDUCE(NULL, v + 2, v + 2, 2, .dtype = RINGUP_F32),
	};
	struct ringup_op *op[2];
	int last = -1;

	/* Agreed before, so that it goes eagerly. */
	check(!sum(g, "again", &again, 1, NULL), "sum", rank);
	check(!sum(g, "again", &one, 1, &op[0]), "a sum in flight", rank);
	if (rank == 0) {
		check(!ringup_join(g, &last, &op[1]), "join", rank);
		usleep(20000);
		check(!ringup_wait(op[1], -1), "wait for the join", rank);
		check(!ringup_wait(op[0], -1) && one == (float)size, "what was in flight",
		      rank);
		return;
	}
	check(!ringup_wait(op[0], -1) && one == (float)size, "what was in flight", rank);
	check(!sum(g, "again", &two, 1, NULL) && two == (float)(size - 1), "used again", rank);
	check(!ringup_allreduce_many(g, a, 2, &op[0]), "many", rank);
	check(!sum(g, "beside", v + 4, 2, &op[1]), "beside them", rank);
	check(!ringup_wait(op[0], -1) && all_are(v, 4, (float)(size - 1)), "many values", rank);
	check(!ringup_wait(op[1], -1) && all_are(v + 4, 2, (float)(size - 1)), "one", rank);
	check(!ringup_join(g, &last, NULL), "join", rank);
}

/* Every rank leaves something in flight under a name of its own, and joins at once: what
 * it has submitted before comes before, also if it is the last to join.  The same names
 * then go on, of all ranks. */
static void join_behind(struct ringup *r, int rank, int size)
{
	enum { NAMES = 3 };
	const int rounds = rounds_few(30, 12);
	static const uint64_t lengths[NAMES] = { 1, 300, 70001 };
	struct ringup_group *g = ringup_world(r);
	float *v[NAMES];
	struct ringup_op *op[NAMES], *join;
	char name[32];
	uint64_t i;
	int round, k, q, last;

	for (k = 0; k < NAMES; k++)
		v[k] = malloc(lengths[k] * sizeof(float));
	for (round = 0; round < rounds; round++) {
		if (rank == round % size)
			usleep(1000 * (useconds_t)(round % 3));
		for (k = 0; k < NAMES; k++) {
			for (i = 0; i < lengths[k]; i++)
				v[k][i] = 1;
			snprintf(name, sizeof(name), "behind.%d.%d", rank, k);
			check(!sum(g, name, v[k], lengths[k], &op[k]), "in flight", rank);
		}
		check(!ringup_join(g, &last, &join), "join", rank);
		for (k = 0; round % 2 && k < NAMES; k++)
			check(!ringup_wait(op[k], -1), "what was in flight", rank);
		check(!ringup_wait(join, -1), "wait for the join", rank);
		for (k = 0; !(round % 2) && k < NAMES; k++)
			check(!ringup_wait(op[k], -1), "what was in flight", rank);
		for (k = 0; k < NAMES; k++)
			check(all_are(v[k], lengths[k], 1), "this rank's alone", rank);
		for (q = 0; q < size; q++) {
			snprintf(name, sizeof(name), "behind.%d.0", q);
			v[0][0] = 1;
			check(!sum(g, name, v[0], 1, NULL) && v[0][0] == (float)size,
			      "after the join", rank);
		}
	}
	for (k = 0; k < NAMES; k++)
		free(v[k]);
}

static void join_ends(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *join, *op;
	float v = 1;
	int last;

	if (rank == 0 && size > 1) {
		check(!ringup_join(g, &last, &join), "join", rank);
		check(sum(g, "too late", &v, 1, NULL) == RINGUP_EBUSY &&
			      strstr(ringup_error(), "has joined"),
		      "nothing after the join", rank);
		check(sum(g, "too late", &v, 1, &op) == RINGUP_EBUSY, "nor that", rank);
		__atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
		check(!ringup_wait(join, -1), "wait for the join", rank);
	} else {
		while (size > 1 && !__atomic_load_n(&tried, __ATOMIC_ACQUIRE))
			usleep(1000);
		check(!ringup_join(g, &last, NULL), "join", rank);
	}
	check(!sum(g, "too late", &v, 1, NULL) && v == (float)size, "after the join", rank);
}

/* ---- join in a group ---- */

/* Ranks of @g give 1, 2 ... by their places, and @gone nothing. */
static void reduce_without(struct ringup_group *g, uint64_t n, enum ringup_redop redop,
			   float want)
{
	int me = ringup_rank(g);
	float *v = malloc(n * sizeof(*v));
	char name[16];
	struct ringup_reduce a = ASK_REDUCE(name, v, v, n, .dtype = RINGUP_F32, .redop = redop);
	uint64_t i;

	snprintf(name, sizeof(name), "%d.%d", (int)redop, (int)n);
	for (i = 0; i < n; i++)
		v[i] = (float)(me + 1);
	check(!ringup_allreduce(g, &a, NULL), "allreduce", me);
	if (!all_are(v, n, want))
		printf("# %s: %g, not %g\n", name, v[0], want);
	check(all_are(v, n, want), "of those who are left", me);
	free(v);
}

static void reductions_without(struct ringup_group *g, uint64_t n, int gone)
{
	int size = ringup_size(g), q;
	float total = 0, most = 0, least = (float)size, product = 1;

	for (q = 0; q < size; q++) {
		if (q == gone)
			continue;
		total += (float)(q + 1);
		product *= (float)(q + 1);
		most = (float)(q + 1);
		least = least < most ? least : most;
	}
	reduce_without(g, n, RINGUP_SUM, total);
	reduce_without(g, n, RINGUP_AVERAGE, total / (float)size);
	reduce_without(g, n, RINGUP_MIN, least);
	reduce_without(g, n, RINGUP_MAX, most);
	reduce_without(g, n, RINGUP_PRODUCT, product);
}

/* The block of each rank is @n rows of its place, all of them twice. */
static void gather_without(struct ringup_group *g, uint64_t n, int gone)
{
	int me = ringup_rank(g), size = ringup_size(g), i, q;
	int32_t *in = malloc((n + 1) * sizeof(*in)), *out[2] = { NULL, NULL };
	uint64_t counts[2][RANKS_MAX], k, at, bad = 0;
	struct ringup_gather a[2];

	for (k = 0; k < n; k++)
		in[k] = me;
	for (i = 0; i < 2; i++)
		a[i] = (struct ringup_gather)ASK_GATHER(i ? NULL : "blocks", in, n, 1,
							(void **)&out[i], counts[i],
							.dtype = RINGUP_I32);
	check(!ringup_allgather_many(g, a, 2, NULL), "gather", me);
	for (i = 0; i < 2 && out[i]; i++)
		for (at = 0, q = 0; q < size; q++) {
			bad += counts[i][q] != (q == gone ? 0 : n);
			for (k = 0; k < counts[i][q] && !bad; k++)
				bad += out[i][at++] != q;
		}
	check(out[0] && out[1] && !bad, "blocks of those who are left", me);
	ringup_free(out[0]);
	ringup_free(out[1]);
	free(in);
}

/* From everybody; the one who has joined is told by its number in the world. */
static void broadcast_without(struct ringup_group *g, uint64_t n, int gone)
{
	int me = ringup_rank(g), q, rc;
	float *v = malloc(n * sizeof(*v));
	char name[16], joined[32];
	struct ringup_bcast b = { .bytes = sizeof(struct ringup_bcast),
				  .name = name,
				  .in = v,
				  .out = v,
				  .count = n };
	uint64_t i;

	b.dtype = RINGUP_F32;
	snprintf(joined, sizeof(joined), "rank %d %sa join", ringup_group_member(g, gone),
		 gone ? "" : "wants ");
	for (b.root = 0; b.root < ringup_size(g); b.root++) {
		snprintf(name, sizeof(name), "from %d", b.root);
		for (i = 0; i < n; i++)
			v[i] = (float)me;
		rc = ringup_broadcast(g, &b, NULL);
		q = b.root == gone ? me : b.root;
		check(b.root == gone ? rc == RINGUP_EMISMATCH && strstr(ringup_error(), joined)
				     : !rc,
		      "broadcast", me);
		check(all_are(v, n, (float)q), "what was sent", me);
	}
	free(v);
}

/* All that a group does, without one of its ranks. */
static void all_without(struct ringup_group *g, uint64_t n, int gone)
{
	int me = ringup_rank(g), size = ringup_size(g);

	reductions_without(g, n, gone);
	gather_without(g, n, gone);
	broadcast_without(g, n, gone);
	exchange_without(g, n, true, me, size, gone);
	exchange_without(g, n, false, me, size, gone);
	scatter_without(g, n, 3, me, size, gone);
	check(!ringup_barrier(g, "b", NULL), "barrier", me);
}

static void sum_world(struct ringup *r, uint64_t n, const char *what)
{
	struct ringup_group *world = ringup_world(r);
	float *v = malloc(n * sizeof(*v));
	uint64_t i;

	for (i = 0; i < n; i++)
		v[i] = 1;
	check(!sum(world, "world", v, n, NULL) && all_are(v, n, (float)ringup_size(world)),
	      what, ringup_rank(world));
	free(v);
}

/* The world goes on, though a rank has joined in @g: also groups come, but @g cannot go. */
static void world_beside(struct ringup *r, struct ringup_group *g, int rank, int size)
{
	struct ringup_group *other;
	int all[RANKS_MAX], i;

	for (i = 0; i < size; i++)
		all[i] = i;
	sum_world(r, 3, "a small sum of the world");
	sum_world(r, 70001, "a large one");
	check(ringup_group_remove(g) == RINGUP_EBUSY, "a join is in flight", rank);
	check(!ringup_group_add(r, all, size, &other), "another group", rank);
	check(!ringup_barrier(other, NULL, NULL), "and it works", rank);
	check(!ringup_group_remove(other), "remove", rank);
}

/* One rank of a group after the other joins in it first; those who stay go on. */
static void join_in_group(struct ringup *r, int rank, int size, const int *ranks, int count)
{
	struct ringup_group *g;
	struct ringup_op *join = NULL;
	int gone, me, last = -1;

	check(!ringup_group_add(r, ranks, count, &g), "add", rank);
	me = ringup_rank(g);
	for (gone = 0; gone < count; gone++) {
		if (me == gone) {
			check(!ringup_join(g, &last, &join), "join", rank);
			check(ringup_barrier(g, "late", NULL) == RINGUP_EBUSY,
			      "nothing after it", rank);
		} else if (me >= 0) {
			all_without(g, 3, gone);
			all_without(g, 30000, gone);
		}
		world_beside(r, g, rank, size);
		if (me >= 0 && me != gone)
			check(!ringup_join(g, &last, &join), "join", rank);
		if (me < 0)
			continue;
		check(!ringup_wait(join, -1), "all have joined", rank);
		check(last >= 0 && last < count && last != gone, "who was last", rank);
		all_without(g, 3, -1);
		all_without(g, 30000, -1);
	}
	check(!ringup_barrier(ringup_world(r), NULL, NULL), "the end", rank);
	check(!ringup_group_remove(g), "remove", rank);
}

static void join_in_pair(struct ringup *r, int rank, int size)
{
	join_in_group(r, rank, size, (int[]){ 0, size - 1 }, 2);
	join_in_group(r, rank, size, (int[]){ 1, 2 }, 2);
}

static void join_in_three(struct ringup *r, int rank, int size)
{
	join_in_group(r, rank, size, (int[]){ 0, 2, 3 }, 3);
}

/* What the kernel says of this thread: how often it has slept, and whether it was kept waiting
 * for a processor, by strangers or because its own had gone to another rank. */
struct pace {
	long slept, robbed;
	int64_t kept_ns;
};

static struct pace pace_of(int stat)
{
	struct pace p = { 0 };
	struct rusage u;
	char text[96] = "";
	ssize_t n = pread(stat, text, sizeof(text) - 1, 0);

	getrusage(RUSAGE_THREAD, &u);
	p.slept = u.ru_nvcsw;
	p.robbed = u.ru_nivcsw;
	if (n <= 0 || sscanf(text, "%*s %" SCNd64, &p.kept_ns) != 1)
		p.robbed = -1;
	return p;
}

enum { PACE_LAPS = 40, PACE_TIMES = 10, PACE_RANKS = 2, KEPT_NS = 200000, WOKEN_NS = 1000000 };
static int laps[PACE_RANKS][PACE_LAPS]; /* times slept; -1: the lap does not count; atomic */

static int lap_of(int rank, int lap)
{
	return __atomic_load_n(&laps[rank][lap], __ATOMIC_RELAXED);
}

/*
 * A plan waits for its chunks, and none of those waits is long enough to sleep: as long as all
 * ranks have a processor.  Laps in which one of them had to wait for one do not count.
 */
static void keeps_pace(struct ringup *r, int rank, int size)
{
	enum { COUNT = 1 << 14 };
	float *v = calloc(COUNT, sizeof(*v));
	struct ringup_bcast a = { .bytes = sizeof(struct ringup_bcast),
				  .name = "pace",
				  .in = v,
				  .out = v,
				  .count = COUNT };
	int stat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC), lap, i,
	    laps_slept, rc = 0;
	struct pace before, after;
	long slept = 0, times = 0;
	bool is_kept;

	a.dtype = RINGUP_F32;
	check(!ringup_broadcast(ringup_world(r), &a, NULL), "once", rank);
	after = pace_of(stat);
	for (lap = 0; lap < PACE_LAPS; lap++) {
		before = after;
		for (i = 0; i < PACE_TIMES && !rc; i++)
			rc = ringup_broadcast(ringup_world(r), &a, NULL);
		after = pace_of(stat);
		laps_slept = (int)(after.slept - before.slept);
		is_kept = after.kept_ns - before.kept_ns > KEPT_NS + WOKEN_NS * laps_slept;
		if (after.robbed != before.robbed || after.robbed < 0 || is_kept)
			laps_slept = -1;
		__atomic_store_n(&laps[rank][lap], laps_slept, __ATOMIC_RELAXED);
	}
	check(!rc, "broadcasts", rank);
	check(!ringup_barrier(ringup_world(r), NULL, NULL), "barrier", rank);
	for (lap = 0; lap < PACE_LAPS; lap++)
		if (lap_of(rank, lap) >= 0 && lap_of((rank + 1) % size, lap) >= 0) {
			times += PACE_TIMES;
			slept += lap_of(rank, lap);
		}
	printf("# rank %d of %d slept %ld times in %ld of %d broadcasts\n", rank, size, slept,
	       times, PACE_LAPS * PACE_TIMES);
	check(slept <= times / 8, "hardly ever sleeps", rank);
	check(!ringup_barrier(ringup_world(r), NULL, NULL), "barrier", rank);
	if (stat >= 0)
		close(stat);
	free(v);
}

/* May every rank have a processor? */
static bool has_room(int size)
{
	unsigned char may[CORES_MASK_BYTES];
	int quota = cores_quota("");

	cores_mask(may);
	return cores_count(may) >= size && (!quota || quota >= size);
}

/* Whether waiting costs processor time. */
static void rests(void)
{
	run("who waits for one that is late rests", 2, waiting);
	run("who waits for one that is late rests", 4, waiting);
	if (has_room(2))
		run("who goes on soon does not sleep", 2, keeps_pace);
	else
		ok(1, "who goes on soon does not sleep # SKIP fewer than two processors");
}

int main(void)
{
	int size;

	for (size = 1; size <= 5; size++) {
		run("all-to-all and reduce-scatter", size, kinds);
		run("tensors that go together", size, together);
		run("a group of every other rank", size, every_kind);
		run("what is refused", size, refused);
		run("small tensors while ranks join", size, join_small);
		run("large tensors while ranks join", size, join_large);
		run("other collectives while a rank has joined", size, join_others);
		run("operations in flight while a rank joins", size, join_flying);
		run("operations in flight when the last rank joins", size, join_behind);
		tried = 0;
		run("nothing starts between a join and its end", size, join_ends);
		setenv("RINGUP_JOIN", "sums", 1);
		run("what is no sum while a rank has joined", size, join_sums);
		unsetenv("RINGUP_JOIN");
	}
	for (size = 2; size <= 5; size++)
		run("a large all-to-all is one plan", size, exchange_once);
	run("what a child of fork() may ask for", 3, child);
	for (size = 2; size <= 4; size++) {
		run("what nobody has waited for when its group goes", size, remembered);
		tried = 0;
		run("no group from who has joined", size, after_join);
	}
	run("Adasum", 1, adasum);
	run("Adasum", 2, adasum);
	run("Adasum", 4, adasum);
	run("groups that come and go", 3, come_and_go);
	run("groups that overlap", 3, overlapping);
	run("groups that overlap", 4, overlapping);
	/* A device of the tests polls in a thread of its own. */
	if (backend_find("device"))
		ok(1, "who waits rests # SKIP a device's thread does not");
	else
		rests();
	run("groups in a circle", 3, circle);
	run("a group without the rank that leaves", 3, without_one);
	run("a group without the rank that leaves", 5, without_one);
	run("one rank joins in a group of two", 3, join_in_pair);
	run("one rank joins in a group of two", 4, join_in_pair);
	run("one rank joins in a group of three", 4, join_in_three);

	/* The same, as if each rank were on a host of its own. */
	setenv("RINGUP_BACKEND", "tcp", 1);
	for (size = 2; size <= 4; size++) {
		run("hosts: all-to-all and reduce-scatter", size, kinds);
		run("hosts: a group of every other rank", size, every_kind);
		run("hosts: what is refused", size, refused);
		run("hosts: tensors that go together", size, together);
		run("hosts: small tensors while ranks join", size, join_small);
		run("hosts: large tensors while ranks join", size, join_large);
		run("hosts: other collectives while a rank has joined", size, join_others);
		run("hosts: operations in flight while a rank joins", size, join_flying);
		run("hosts: operations in flight when the last rank joins", size, join_behind);
		setenv("RINGUP_JOIN", "sums", 1);
		run("hosts: what is no sum while a rank has joined", size, join_sums);
		unsetenv("RINGUP_JOIN");
		run("hosts: what nobody has waited for when its group goes", size, remembered);
		tried = 0;
		run("hosts: no group from who has joined", size, after_join);
	}
	run("hosts: Adasum", 3, adasum);
	run("hosts: groups that overlap", 3, overlapping);
	run("hosts: groups that overlap", 4, overlapping);
	run("hosts: groups that come and go", 3, come_and_go);
	run("hosts: groups in a circle", 3, circle);
	run("hosts: what a child of fork() keeps", 3, forked);
	run("hosts: what a child of fork() may ask for", 3, child);
	run("hosts: a group without the rank that leaves", 3, without_one);
	run("hosts: a group without the rank that leaves", 5, without_one);
	run("hosts: one rank joins in a group of two", 3, join_in_pair);
	run("hosts: one rank joins in a group of three", 4, join_in_three);
	return tap_done();
}
