/* test_bundle.c - several operations under one name: all of them, or none. */
/* tests: src/engine/bundle.c src/engine/plan.c src/engine/op_signature.c */
#include <stdbool.h>
#include <stdint.h>

#include "api/call.h"
#include "asks.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/ledger.h"
#include "ranks.h"
#include "rounds.h"

enum { MANY = 700 };

/* Elements of every type in turn, so that what runs as one does not lie together. */
static const enum ringup_dtype types[] = { RINGUP_F32, RINGUP_I32, RINGUP_F64, RINGUP_U8 };

static enum ringup_dtype type_of(int i)
{
	return types[i % 4];
}

static void set(void *p, enum ringup_dtype t, uint64_t n, int x)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		switch (t) {
		case RINGUP_F32:
			((float *)p)[i] = (float)x;
			break;
		case RINGUP_F64:
			((double *)p)[i] = x;
			break;
		case RINGUP_I32:
			((int32_t *)p)[i] = x;
			break;
		default:
			((uint8_t *)p)[i] = (uint8_t)x;
		}
}

static bool all_are(const void *p, enum ringup_dtype t, uint64_t n, int x)
{
	uint64_t bytes = n * reduce_dtype_bytes(t);
	void *same = malloc(bytes + 1);
	bool are;

	set(same, t, n, x);
	are = !bytes || !memcmp(p, same, bytes);
	free(same);
	return are;
}

/* A number of each rank's that fits into a byte, and their sum and greatest. */
static int number(int rank, int i)
{
	return rank + i % 7;
}

static int sum_of(int first, int size, int i)
{
	int r, sum = 0;

	for (r = first; r < size; r++)
		sum += number(r, i);
	return sum;
}

/* ---- reductions ---- */

static uint64_t count_of(int i)
{
	return i % 50 == 7 ? 20000 / ROUNDS_LESS : (uint64_t)(i % 11);
}

/* @n of them, of ranks from @first on. */
static void reductions(struct ringup_group *g, int n, int first, int rank, int size, bool wait)
{
	struct ringup_reduce *a = calloc((size_t)n, sizeof(*a));
	struct ringup_op *op = NULL;
	int i;

	for (i = 0; i < n; i++) {
		a[i] = (struct ringup_reduce)ASK_REDUCE(
			i ? NULL : "reductions", NULL, NULL, count_of(i), .dtype = type_of(i),
			.redop = i % 5 == 3 ? RINGUP_MAX : RINGUP_SUM);
		a[i].out = malloc(count_of(i) * 8 + 1);
		a[i].in = a[i].out;
		set(a[i].out, a[i].dtype, a[i].count, number(rank, i));
	}
	check(!ringup_allreduce_many(g, a, n, wait ? &op : NULL), "reductions", rank);
	check(!wait || !ringup_wait(op, -1), "wait", rank);
	for (i = 0; i < n; i++) {
		check(all_are(a[i].out, a[i].dtype, a[i].count,
			      i % 5 == 3 ? number(size - 1, i) : sum_of(first, size, i)),
		      "reduced", rank);
		free(a[i].out);
	}
	free(a);
}

static void reduce_mixed(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	int round;

	for (round = 0; round < 3; round++)
		reductions(g, MANY, 0, rank, size, round % 2);
	reductions(g, 1, 0, rank, size, false);
}

/* Equal vectors come out of an Adasum as they went in. */
static void adasum_among(struct ringup *r, int rank, int size)
{
	double v[5], w[3] = { 1, 2, 3 };
	struct ringup_reduce a[2] = {
		ASK_REDUCE(NULL, w, w, 3, .dtype = RINGUP_F64),
		ASK_REDUCE(NULL, v, v, 5, .dtype = RINGUP_F64, .redop = RINGUP_ADASUM),
	};
	int i;

	for (i = 0; i < 5; i++)
		v[i] = i + 1;
	check(!ringup_allreduce_many(ringup_world(r), a, 2, NULL), "Adasum", rank);
	check(v[0] == 1 && v[4] == 5 && w[2] == 3 * size, "both", rank);
}

/* ---- allgathers and reduce-scatters ---- */

/* @much: of the third, which then fits into no line. */
static uint64_t rows_of(int rank, int i, bool much)
{
	return (uint64_t)((rank + i) % 3 * (i == 2 && much ? 3000 : 1));
}

static int total_rows(int first, int size, int i, bool much)
{
	int r, sum = 0;

	for (r = first; r < size; r++)
		sum += (int)rows_of(r, i, much);
	return sum;
}

/* All blocks of member @i, those of ranks below @first being empty. */
static bool gathered(const unsigned char *p, const uint64_t *counts, int i, int first, int size,
		     bool much)
{
	int r;

	for (r = 0; r < size; r++) {
		uint64_t rows = r < first ? 0 : rows_of(r, i, much),
			 n = rows * (uint64_t)(i + 1);

		if (counts[r] != rows || !all_are(p, type_of(i), n, number(r, i)))
			return false;
		p += n * reduce_dtype_bytes(type_of(i));
	}
	return true;
}

static void gathers(struct ringup_group *g, int first, int rank, int size, bool much)
{
	enum { N = 5 };
	struct ringup_gather a[N];
	uint64_t counts[N][RANKS_MAX];
	void *in[N], *out[N], *into = malloc(100);
	int i;

	for (i = 0; i < N; i++) {
		uint64_t n = rows_of(rank, i, much) * (uint64_t)(i + 1);

		in[i] = malloc(n * 8 + 1);
		set(in[i], type_of(i), n, number(rank, i));
		a[i] = (struct ringup_gather)ASK_GATHER(
			i ? NULL : "gathers", in[i], rows_of(rank, i, much), (uint64_t)(i + 1),
			&out[i], counts[i], .dtype = type_of(i), .into = i == 3 ? into : NULL,
			.into_bytes = 100);
	}
	check(!ringup_allgather_many(g, a, N, NULL), "gathers", rank);
	/* Of the fourth, a row is four bytes. */
	check((out[3] == into) == (total_rows(first, size, 3, much) <= 25), "into", rank);
	for (i = 0; i < N; i++) {
		check(gathered(out[i], counts[i], i, first, size, much), "gathered", rank);
		free(in[i]);
		if (out[i] != into)
			ringup_free(out[i]);
	}
	free(into);
}

static void scatters(struct ringup_group *g, int first, int rank, int size, bool much)
{
	enum { N = 4, ROWS = 11 };
	struct ringup_scatter a[N];
	uint64_t mine = (uint64_t)(ROWS / size + (rank < ROWS % size));
	void *in[N], *out[N];
	int i;

	for (i = 0; i < N; i++) {
		uint64_t row = i == 1 && much ? 5000 : (uint64_t)i;

		in[i] = malloc(ROWS * row * 8 + 1);
		out[i] = malloc(mine * row * 8 + 1);
		set(in[i], type_of(i), ROWS * row, number(rank, i));
		a[i] = (struct ringup_scatter)ASK_SCATTER(i ? NULL : "scatters", in[i], ROWS,
							  row, out[i], .dtype = type_of(i));
	}
	check(!ringup_reducescatter_many(g, a, N, NULL), "scatters", rank);
	for (i = 0; i < N; i++) {
		check(all_are(out[i], type_of(i), mine * a[i].row, sum_of(first, size, i)),
		      "scattered", rank);
		free(in[i]);
		free(out[i]);
	}
}

static void move_mixed(struct ringup *r, int rank, int size)
{
	int round;

	for (round = 0; round < 3; round++) {
		gathers(ringup_world(r), 0, rank, size, true);
		scatters(ringup_world(r), 0, rank, size, true);
	}
}

/* ---- small ones ---- */

static uint64_t batches_of(struct ringup_group *g)
{
	return __atomic_load_n(&g->group->comm.batches, __ATOMIC_RELAXED);
}

/* The second time on, by lines: none of them comes into a batch, unless somebody has too much
 * for its line. */
static void small(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	enum { ROUNDS = 7, MUCH = 4 };
	bool has_slots = size > 1 && g->group->comm.small == SMALL_EAGER;
	uint64_t before;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		before = batches_of(g);
		reductions(g, 7, 0, rank, size, round % 2);
		scatters(g, 0, rank, size, false);
		check(!has_slots || !round || batches_of(g) == before, "eager", rank);
		gathers(g, 0, rank, size, round == MUCH);
		check(!has_slots || !round || (batches_of(g) == before) == (round != MUCH),
		      "eager, if it fits", rank);
	}
	/* And then one of them has no more to do. */
	for (round = 0; round < 2 && rank > 0; round++) {
		reductions(g, 7, 1, rank, size, round);
		scatters(g, 1, rank, size, false);
		gathers(g, 1, rank, size, false);
	}
	check(!ringup_join(g, &round, NULL), "join", rank);
	reductions(g, 7, 0, rank, size, true);
}

/* ---- together ---- */

/* The last rank is late: until then nothing of the others' has been touched, what they do
 * meanwhile goes on, and two bundles may be started in any order. */
static void all_or_nothing(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float v[2][2] = { { 1, 1 }, { 1, 1 } };
	int32_t w[2] = { 1, 1 };
	struct ringup_reduce a[2][2] = {
		{ ASK_REDUCE("a", v[0], v[0], 2, .dtype = RINGUP_F32),
		  ASK_REDUCE(NULL, &w[0], &w[0], 1, .dtype = RINGUP_I32) },
		{ ASK_REDUCE("b", v[1], v[1], 2, .dtype = RINGUP_F32),
		  ASK_REDUCE(NULL, &w[1], &w[1], 1, .dtype = RINGUP_I32) },
	};
	struct ringup_op *op[2];
	int i, k;

	check(!ringup_barrier(g, "all here", NULL), "barrier", rank);
	for (i = 0; i < 2 && rank < size - 1; i++) {
		k = (i + rank) % 2;
		check(!ringup_allreduce_many(g, a[k], 2, &op[k]), "start", rank);
	}
	/* It needs the others, so they have got there by the time it is complete. */
	check(!ringup_barrier(g, "all begun", NULL), "barrier", rank);
	if (rank < size - 1)
		check(!ringup_poll(op[0]) && !ringup_poll(op[1]) && v[0][0] == 1 && w[0] == 1 &&
			      w[1] == 1,
		      "nothing yet", rank);
	check(!ringup_barrier(g, "all seen", NULL), "barrier", rank);
	for (i = 1; i >= 0 && rank == size - 1; i--)
		check(!ringup_allreduce_many(g, a[i], 2, &op[i]), "start late", rank);
	for (i = 0; i < 2; i++) {
		check(!ringup_wait(op[i], -1), "wait", rank);
		check(v[i][1] == (float)size && w[i] == size, "values", rank);
	}
}

/* What ranks say who do not agree about the tensors @a. */
static void refused(struct ringup_group *g, struct ringup_reduce *a, int n, const char *why,
		    int rank)
{
	check(ringup_allreduce_many(g, a, n, NULL) == RINGUP_EMISMATCH &&
		      strstr(ringup_error(), why),
	      why, rank);
}

/* The last rank wants something else: all are told what, and nothing has been touched. */
static void disagree(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	bool odd = rank == size - 1;
	float v[3][4] = { { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } };
	struct ringup_reduce a[3], first = {
		.bytes = sizeof(first), .name = "odd", .count = 4, .dtype = RINGUP_F32
	};
	char why[200];
	int i;

	if (size < 2)
		return;
	for (i = 0; i < 3; i++) {
		a[i] = first;
		a[i].in = a[i].out = v[i];
	}
	a[2].count = odd ? 3 : 2;
	snprintf(why, sizeof(why),
		 "odd[2]: rank 0 wants an allreduce (sum) of 2 f32, rank %d an allreduce (sum) "
		 "of 3 f32",
		 size - 1);
	refused(g, a, 3, why, rank);
	a[2].count = 2;
	a[0].dtype = odd ? RINGUP_I32 : RINGUP_F32;
	a[1].redop = odd ? RINGUP_MAX : RINGUP_SUM;
	snprintf(why, sizeof(why),
		 "odd[0]: rank 0 wants an allreduce (sum) of 4 f32, rank %d an allreduce (sum) "
		 "of 4 i32",
		 size - 1);
	refused(g, a, 3, why, rank);
	a[0].dtype = RINGUP_F32;
	refused(g, a, 3, "odd[1]: rank 0 wants an allreduce (sum) of 4 f32", rank);
	a[1].redop = RINGUP_SUM;
	refused(g, a, odd ? 2 : 3, "odd: rank 0 wants a group of 3 tensors", rank);
	if (odd)
		check(ringup_allreduce(g, a, NULL) == RINGUP_EMISMATCH &&
			      strstr(ringup_error(), "an allreduce (sum) of 4 f32"),
		      "one alone", rank);
	else
		refused(g, a, 3, "an allreduce (sum) of 4 f32", rank);
	for (i = 0; i < 3; i++)
		check(all_are(v[i], RINGUP_F32, 4, 1), "touched", rank);
	check(!ringup_allreduce_many(g, a, 3, NULL) && v[2][1] == (float)size && v[2][2] == 1,
	      "the next", rank);
}

/* A gather of one row of n bytes of `in`, into out[i] and counts[i]. */
#define GATHER(i, n)                                                                    \
	{                                                                               \
		.bytes = sizeof(struct ringup_gather), .in = in, .rows = 1, .row = (n), \
		.out = &out[i], .counts = counts[i]                                     \
	}

/* The same of gathers, whose results stay what they were; without a name. */
static void disagree_rows(struct ringup *r, int rank, int size)
{
	uint8_t in[8] = { 0 };
	void *out[2] = { NULL, NULL };
	uint64_t counts[2][RANKS_MAX];
	struct ringup_gather a[2] = { GATHER(0, 2), GATHER(1, 2) };

	a[1].row += rank == size - 1;
	if (size < 2)
		return;
	check(ringup_allgather_many(ringup_world(r), a, 2, NULL) == RINGUP_EMISMATCH &&
		      strstr(ringup_error(), "one without a name[1]: rank 0 wants an allgather "
					     "of rows of 2 u8"),
	      "rows", rank);
	check(!out[0] && !out[1], "results", rank);
}

/* Arguments that no rank can mean. */
static void invalid(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float v[2] = { 1, 1 };
	struct ringup_reduce a[2] = {
		ASK_REDUCE("invalid", v, v, 1, .dtype = RINGUP_F32),
		{ .bytes = sizeof(struct ringup_reduce),
		  .in = v + 1,
		  .count = 1,
		  .dtype = RINGUP_F32 },
	};

	(void)size;
	check(ringup_allreduce_many(g, a, 0, NULL) == RINGUP_EINVAL, "none", rank);
	check(ringup_allreduce_many(g, NULL, 1, NULL) == RINGUP_EINVAL, "nowhere", rank);
	check(ringup_allgather_many(g, NULL, 1, NULL) == RINGUP_EINVAL, "nowhere", rank);
	check(ringup_reducescatter_many(g, NULL, 1, NULL) == RINGUP_EINVAL, "nowhere", rank);
	check(ringup_allreduce_many(g, a, 2, NULL) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "in number 1"),
	      "a bad member", rank);
}

/* ---- with others that are not there ---- */

static void joined(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float v[2] = { 1, 1 };
	struct ringup_reduce a[2] = {
		ASK_REDUCE("beside", v, v, 1, .dtype = RINGUP_F32),
		ASK_REDUCE(NULL, v + 1, v + 1, 1, .dtype = RINGUP_F32),
	};
	int last = -1, round;

	if (size < 2)
		return;
	for (round = 0; round < 2 && rank > 0; round++) {
		reductions(g, MANY, 1, rank, size, round);
		gathers(g, 1, rank, size, true);
		scatters(g, 1, rank, size, true);
	}
	if (rank > 0 && size > 2) {
		a[1].redop = rank == 2 ? RINGUP_MIN : RINGUP_SUM;
		refused(g, a, 2,
			"beside[1]: rank 1 wants an allreduce (sum) of 1 f32, rank 2 an "
			"allreduce (min)",
			rank);
	}
	check(!ringup_join(g, &last, NULL) && last > 0, "join", rank);
	/* And with it, again. */
	reductions(g, 20, 0, rank, size, true);
}

static void in_a_group(struct ringup *r, int rank, int size)
{
	struct ringup_group *g;
	int ranks[RANKS_MAX], n = 0, i;

	for (i = 0; i < size; i += 2)
		ranks[n++] = i;
	check(!ringup_group_add(r, ranks, n, &g), "add", rank);
	if (rank % 2 == 0) {
		reductions(g, 100, 0, rank / 2, n, false);
		gathers(g, 0, rank / 2, n, true);
		scatters(g, 0, rank / 2, n, true);
	}
	check(!ringup_group_remove(g), "remove", rank);
}

/* The last rank leaves without it: the others are told, and have no results. */
static void left(struct ringup *r, int rank, int size)
{
	uint8_t in[8] = { 0 };
	void *out[2] = { NULL, NULL };
	uint64_t counts[2][RANKS_MAX];
	struct ringup_gather a[2] = { GATHER(0, 2), GATHER(1, 3) };
	struct ringup_op *op;

	if (size < 2 || rank == size - 1)
		return;
	if (!ringup_allgather_many(ringup_world(r), a, 2, &op))
		check(ringup_wait(op, -1) == RINGUP_ESHUTDOWN, "wait", rank);
	check(!out[0] && !out[1], "results", rank);
}

int main(void)
{
	static const struct {
		const char *what;
		void (*body)(struct ringup *r, int rank, int size);
	} tests[] = {
		{ "reductions of many types", reduce_mixed },
		{ "gathers and scatters of many types", move_mixed },
		{ "small ones, again and again", small },
		{ "nothing before all are there", all_or_nothing },
		{ "the member that ranks disagree about", disagree },
		{ "gathers that ranks disagree about", disagree_rows },
		{ "what nobody can mean", invalid },
		{ "a rank that has joined", joined },
		{ "every other rank", in_a_group },
		{ "a rank that leaves", left },
	};
	enum { TESTS = sizeof(tests) / sizeof(tests[0]) };
	int size, i;

	for (size = 1; size <= 5; size++)
		for (i = 0; i < TESTS; i++)
			run(tests[i].what, size, tests[i].body);
	run("an Adasum among others", 4, adasum_among);
	/* The same, as if each rank were on a host of its own. */
	setenv("RINGUP_BACKEND", "tcp", 1);
	for (size = 2; size <= 4; size++)
		for (i = 0; i < TESTS; i++)
			run(tests[i].what, size, tests[i].body);
	run("an Adasum among others", 2, adasum_among);
	return tap_done();
}
