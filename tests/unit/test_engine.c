/* test_engine.c - collectives between ranks: values, order, disagreement, ends. */
/* proves: P9 F24 of docs/RELIABILITY.md */
/* tests: src/engine src/api */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "coll/reduce.h"
#include "rounds.h"
#include "tap.h"

#include "asks.h"
#include "ranks.h"

static int sum_f32(struct ringup_group *g, const char *name, float *v, uint64_t n,
		   struct ringup_op **opp)
{
	struct ringup_reduce a =
		ASK_REDUCE(name, v, v, n, .dtype = RINGUP_F32, .redop = RINGUP_SUM);

	return ringup_allreduce(g, &a, opp);
}

enum { LONG = 40000 / ROUNDS_LESS }; /* rows, too many for a line */

/* Small whole numbers, so that every sum is exact. */
static float value(int rank, uint64_t i, int round)
{
	return (float)((rank + 1) * (int)(i % 97 + 1) + round);
}

static float expected(int size, uint64_t i, int round)
{
	return (float)(size * (size + 1) / 2 * (int)(i % 97 + 1) + round * size);
}

static void sizes(struct ringup *r, int rank, int size)
{
	enum { MANY = ROUNDS_SANITIZED ? 100003 : 1000003 };
	static const uint64_t counts[] = { 0,     1,     2,     3,      15,  16,
					   17,    255,   256,   257,    511, 1000,
					   16384, 16385, 49152, 100000, MANY };
	struct ringup_group *g = ringup_world(r);
	char name[32];
	uint64_t i;
	size_t k;
	int round;

	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		uint64_t n = counts[k], bad = 0;
		float *v = malloc((n + 1) * sizeof(*v));

		snprintf(name, sizeof(name), "t%zu", k);
		for (round = 0; round < (n < 40000 ? 4 : 2); round++) {
			for (i = 0; i < n; i++)
				v[i] = value(rank, i, round);
			check(!sum_f32(g, round % 2 ? NULL : name, v, n, NULL), "allreduce",
			      rank);
			for (i = 0; i < n; i++)
				bad += v[i] != expected(size, i, round);
		}
		check(!bad, name, rank);
		free(v);
	}
}

/* Ranks are threads here, and each maps the seats elsewhere, but finds such buffers where they
 * are: so TSan sees that a buffer is read, and not that its owner has said that it is ready. */
enum { MAPPABLE = !ROUNDS_TSAN };

/* Buffers that others can map, on all ranks, on some, on none, by turns: how a rank begins
 * depends on its own, and what comes out does not. */
static void mappable(struct ringup *r, int rank, int size)
{
	static const uint64_t counts[] = { 1000, 4096, 4097, 6000, 8192, 16384, 16385, 40000 };
	enum { MOST = 40000, ROUNDS = 6 };
	struct ringup_group *g = ringup_world(r);
	float *ours = malloc(MOST * sizeof(*ours)),
	      *shared = ringup_alloc(MOST * sizeof(*shared));
	uint64_t i, bad = 0;
	struct ringup_op *op;
	size_t k;
	int round;

	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
		for (round = 0; round < ROUNDS; round++) {
			/* Round 0: none, 1: all, then rank after rank. */
			bool mine =
				MAPPABLE && (round == 1 || (round > 1 && (rank + round) % 2));
			float *v = mine && shared ? shared : ours;

			for (i = 0; i < counts[k]; i++)
				v[i] = value(rank, i, round);
			check(!sum_f32(g, "mappable", v, counts[k], round % 3 ? NULL : &op),
			      "allreduce", rank);
			if (round % 3 == 0)
				check(!ringup_wait(op, -1), "wait", rank);
			for (i = 0; i < counts[k]; i++)
				bad += v[i] != expected(size, i, round);
		}
	check(!bad, "sums of buffers that some can map", rank);
	ringup_free(shared);
	free(ours);
}

/* More names than there are numbers, and some of them again; by the dozen, so that it
 * takes no longer where ranks have to wait for a processor. */
static void new_names(struct ringup *r, int rank, int size)
{
	enum { STEPS = 12800, TOGETHER = 64 };
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op[TOGETHER];
	float v[TOGETHER];
	char name[32];
	int k, i, bad = 0;

	for (k = 0; k < STEPS; k += TOGETHER) {
		for (i = 0; i < TOGETHER; i++) {
			bool again = k && (k + i) % 3 == 0;

			snprintf(name, sizeof(name), "loss/%d", again ? (k + i) / 2 : k + i);
			v[i] = value(rank, 1, k + i);
			bad += sum_f32(g, name, &v[i], 1, &op[i]) != 0;
		}
		for (i = 0; i < TOGETHER && !bad; i++)
			bad += ringup_wait(op[i], -1) || v[i] != expected(size, 1, k + i);
	}
	check(!bad, "sums under new names", rank);
}

/* Many at once, submitted in another order on every rank. */
static void shuffled(struct ringup *r, int rank, int size)
{
	enum { TENSORS = 60 };
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op[TENSORS];
	float *v[TENSORS];
	char name[32];
	int round, i, t;
	uint64_t j, n, bad = 0;

	for (t = 0; t < TENSORS; t++)
		v[t] = malloc(sizeof(float) * (size_t)(t * t * 7 + 1));
	for (round = 0; round < rounds_few(20, 8); round++) {
		for (i = 0; i < TENSORS; i++) {
			/* 7, 11, 13 ... have no factor in common with 60. */
			static const int steps[] = { 1, 7, 11, 13, 17, 19, 23, 29 };

			t = (i * steps[(rank + round) % 8] + rank) % TENSORS;
			n = (uint64_t)(t * t * 7 + 1);
			for (j = 0; j < n; j++)
				v[t][j] = value(rank, j, round + t);
			snprintf(name, sizeof(name), "grad/%d", t);
			check(!sum_f32(g, name, v[t], n, &op[t]), "submit", rank);
		}
		for (t = 0; t < TENSORS; t++) {
			check(!ringup_wait(op[t], -1), "wait", rank);
			n = (uint64_t)(t * t * 7 + 1);
			for (j = 0; j < n; j++)
				bad += v[t][j] != expected(size, j, round + t);
		}
	}
	check(!bad, "shuffled sums", rank);
	for (t = 0; t < TENSORS; t++)
		free(v[t]);
}

/* Nobody waits: the progress threads have to carry it. */
static void unattended(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op[8];
	float *v = malloc(8 * 40000 * sizeof(*v));
	int t, round, polls;
	uint64_t j, bad = 0;
	char name[16];

	for (round = 0; round < rounds_few(5, 3); round++) {
		for (t = 0; t < 8; t++) {
			for (j = 0; j < 40000; j++)
				v[t * 40000 + j] = value(rank, j, t);
			snprintf(name, sizeof(name), "u%d", t);
			check(!sum_f32(g, name, v + t * 40000, 40000, &op[t]), "submit", rank);
		}
		clock_sleep_ms(20);
		for (t = 0; t < 8; t++) {
			for (polls = 0; !ringup_poll(op[t]) && polls < 60000; polls++)
				clock_sleep_ms(1);
			check(polls < 60000, "poll says done", rank);
			check(!ringup_wait(op[t], 0), "then wait returns at once", rank);
			for (j = 0; j < 40000; j++)
				bad += v[t * 40000 + j] != expected(size, j, t);
		}
	}
	check(!bad, "sums nobody waited for", rank);
	free(v);
}

static void others(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	uint64_t n, i, counts[RANKS_MAX], bad;
	int root, k, q;

	for (k = 0; k < 3; k++) {
		static const uint64_t lengths[] = { 1, 1000, 20001 / ROUNDS_LESS };

		n = lengths[k];
		for (root = 0; root < size; root++) {
			int32_t *v = malloc(n * sizeof(*v));
			struct ringup_bcast b =
				ASK_BCAST("b", v, v, n, .dtype = RINGUP_I32, .root = root);

			for (i = 0; i < n; i++)
				v[i] = rank == root ? (int32_t)(i * 3 + (uint64_t)root) : -1;
			check(!ringup_broadcast(g, &b, NULL), "broadcast", rank);
			for (bad = 0, i = 0; i < n; i++)
				bad += v[i] != (int32_t)(i * 3 + (uint64_t)root);
			check(!bad, "broadcast values", rank);
			free(v);
		}
		for (root = 0; root < 3; root++) {
			/* rank q has n * q rows of 3, so rank 0 has none; the last round nobody
			 */
			uint64_t rows = root == 2 ? 0 : n * (uint64_t)rank, at = 0;
			int64_t *v = malloc((rows * 3 + 1) * sizeof(*v)), *out = NULL;
			struct ringup_gather a =
				ASK_GATHER(root ? NULL : "gather", v, rows, 3, (void **)&out,
					   counts, .dtype = RINGUP_I64);

			for (i = 0; i < rows * 3; i++)
				v[i] = (int64_t)(i * 100 + (uint64_t)rank);
			check(!ringup_allgather(g, &a, NULL), "allgather", rank);
			for (bad = 0, q = 0; q < size && out; q++) {
				uint64_t want = root == 2 ? 0 : n * (uint64_t)q;

				bad += counts[q] != want;
				for (i = 0; i < want * 3; i++)
					bad += out[at++] != (int64_t)(i * 100 + (uint64_t)q);
			}
			check(out && !bad, "allgather values", rank);
			ringup_free(out);
			free(v);
		}
		check(!ringup_barrier(g, k ? "barrier" : NULL, NULL), "barrier", rank);
	}
}

/* @n rows of each rank, or for each; how the two ask is all that differs. */
static int gather_into(struct ringup_group *g, bool exchange, int32_t *in, uint64_t n,
		       int32_t **out, uint64_t *counts, int32_t *into, uint64_t bytes)
{
	struct ringup_gather a =
		ASK_GATHER("into", in, n, 1, (void **)out, counts, .dtype = RINGUP_I32,
			   .into = into, .into_bytes = bytes);
	struct ringup_exchange x =
		ASK_EXCHANGE("exchange into", in, n * (uint64_t)ringup_size(g), 1, (void **)out,
			     counts, .dtype = RINGUP_I32, .into = into, .into_bytes = bytes);

	return exchange ? ringup_alltoall(g, &x, NULL) : ringup_allgather(g, &a, NULL);
}

/* The caller's memory for results: it fits, it does not, and a gather's own block
 * lies there already.  Small ones first the long way, then as eager operations. */
static void into(struct ringup *r, int rank, int size)
{
	static const uint64_t lengths[] = { 5, 5, 5, 5, 5, 5, LONG, LONG, LONG };
	struct ringup_group *g = ringup_world(r);
	uint64_t counts[RANKS_MAX], n, i, bad;
	size_t k;
	int x;

	for (k = 0; k < 2 * sizeof(lengths) / sizeof(lengths[0]); k++) {
		bool exchange = k & 1, fits = k / 2 % 3 != 1, placed = k / 2 % 3 == 2;
		int32_t *in, *room, *mine, *out = NULL;

		n = lengths[k / 2];
		in = malloc(n * (uint64_t)size * sizeof(*in));
		room = calloc(n * (uint64_t)size, sizeof(*room));
		mine = placed && !exchange ? room + n * (uint64_t)rank : in;
		for (i = 0; i < n * (exchange ? (uint64_t)size : 1); i++)
			mine[i] = (int32_t)(i + k) * 10 + rank;
		check(!gather_into(g, exchange, mine, n, &out, counts, room,
				   n * (uint64_t)size * sizeof(*room) - !fits),
		      "with room", rank);
		check(out && (out == room) == fits, "in the room, if it fits", rank);
		for (bad = 0, x = 0; x < size && out; x++)
			for (i = 0; i < n; i++)
				bad += out[(uint64_t)x * n + i] !=
				       (int32_t)(i + (exchange ? n * (uint64_t)rank : 0) + k) *
						       10 +
					       x;
		check(!bad, "values", rank);
		if (out != room)
			ringup_free(out);
		free(room);
		free(in);
	}
}

/* Its own block lies in the room for the result, but not where it goes: the first rank brings
 * more than all others had thought. */
static void elsewhere(struct ringup *r, int rank, int size)
{
	static const uint64_t lengths[] = { 5, 5, 5, 5, LONG };
	struct ringup_group *g = ringup_world(r);
	uint64_t counts[RANKS_MAX], n, own, all, i, bad, at;
	size_t k;
	int x;

	for (k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		int32_t *room, *mine, *out = NULL;

		n = lengths[k];
		own = n + (rank ? 0 : n / 2);
		all = n * (uint64_t)size + n / 2;
		room = calloc(all, sizeof(*room));
		mine = room + n * (uint64_t)rank;
		for (i = 0; i < own; i++)
			mine[i] = (int32_t)(i + k) * 10 + rank;
		check(!gather_into(g, false, mine, own, &out, counts, room,
				   all * sizeof(*room)),
		      "with one's own in the way", rank);
		check(out && (out == room) == !rank, "in the room where nothing is", rank);
		for (at = bad = 0, x = 0; x < size && out; x++)
			for (i = 0; i < n + (x ? 0 : n / 2); i++)
				bad += out[at++] != (int32_t)(i + k) * 10 + x;
		check(!bad, "values that were in the way", rank);
		if (out != room)
			ringup_free(out);
		free(room);
	}
}

/* What is dealt out goes to where the part of this rank was, or to the beginning. */
static void deal_in_place(struct ringup *r, int rank, int size)
{
	static const uint64_t lengths[] = { 1, 1, 1, 1, 5000 };
	struct ringup_group *g = ringup_world(r);
	uint64_t n = (uint64_t)size, rows, i, first, mine, bad;
	size_t k;

	for (k = 0; k < 2 * sizeof(lengths) / sizeof(lengths[0]); k++) {
		int32_t *in, *out;

		rows = lengths[k / 2] * n + 1;
		first = lengths[k / 2] * (uint64_t)rank + (rank > 0);
		mine = lengths[k / 2] + !rank;
		in = malloc((rows * 3 + 1) * sizeof(*in));
		for (i = 0; i < rows * 3; i++)
			in[i] = (int32_t)(i + k) * size + rank;
		out = k & 1 ? in + first * 3 : in;
		check(!ringup_reducescatter(
			      g,
			      &(struct ringup_scatter)ASK_SCATTER("in place", in, rows, 3, out,
								  .dtype = RINGUP_I32),
			      NULL),
		      "in place", rank);
		for (bad = i = 0; i < mine * 3; i++)
			bad += out[i] != (int32_t)(first * 3 + i + k) * size * size +
						 size * (size - 1) / 2;
		check(!bad, "parts in place", rank);
		free(in);
	}
}

static void operations(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	int op, k;

	for (op = 0; op < REDUCE_OPS; op++)
		for (k = 0; k < 2; k++) {
			double v[3] = { rank + 1, -rank, 2 }, sum = size * (size + 1) / 2,
			       product = 1;
			struct ringup_reduce a =
				ASK_REDUCE(k ? "scaled" : "plain", v, v, 3, .dtype = RINGUP_F64,
					   .redop = (enum ringup_redop)op, .pre = k ? 2 : 0,
					   .post = k ? 0.5 : 0);
			double want, f = k ? 2 : 1;
			int i;

			for (i = 1; i <= size; i++)
				product *= i * f;
			want = op == RINGUP_SUM       ? sum * f
			       : op == RINGUP_AVERAGE ? sum * f / size
			       : op == RINGUP_MIN     ? 1 * f
			       : op == RINGUP_MAX     ? size * f
						      : product;
			want *= k ? 0.5 : 1;
			check(!ringup_allreduce(g, &a, NULL), "allreduce", rank);
			if (v[0] != want)
				printf("# op %d scale %d: %g, not %g\n", op, k, v[0], want);
			check(v[0] == want, "operation", rank);
		}
}

/* Rank 0 comes first and does not wait for long: the others come when it has given up. */
static void within(struct ringup *r, int rank, int size)
{
	static const uint64_t counts[] = { 1, 1, 1, 100000, 100000 };
	struct ringup_group *g = ringup_world(r);
	float *x = calloc(100000, sizeof(*x));
	uint64_t i, bad;
	size_t k;

	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		struct ringup_reduce a =
			ASK_REDUCE("within", x, x, counts[k], .dtype = RINGUP_F32);
		struct ringup_op *op = NULL;

		for (i = bad = 0; i < a.count; i++)
			x[i] = value(rank, i, (int)k);
		if (rank) {
			check(!ringup_barrier(g, "late", NULL), "barrier", rank);
			check(!ringup_allreduce_within(g, &a, -1, &op) && !op, "in time", rank);
		} else {
			check(ringup_allreduce_within(g, &a, 1, &op) == RINGUP_ETIMEDOUT && op,
			      "not in time", rank);
			check(!ringup_barrier(g, "late", NULL), "barrier", rank);
			check(op && !ringup_wait(op, -1), "later", rank);
		}
		for (i = 0; i < a.count; i++)
			bad += x[i] != expected(size, i, (int)k);
		check(!bad, "values", rank);
	}
	free(x);
}

/* What was asked for the last time is known, and the next may differ in one thing. */
static void nearly_again(struct ringup *r, int rank, int size)
{
	static const uint64_t shape[10] = { 1, 4, 1, 1, 1, 1, 1, 1, 1, 1 };
	struct ringup_group *g = ringup_world(r);
	char name[8] = "again";
	float in[8] = { 1, 2, 3, 4 }, out[8] = { 0 };
	struct ringup_reduce usual = ASK_REDUCE(name, in, out, 4, .dtype = RINGUP_F32,
						.redop = RINGUP_SUM),
			     a;
	int i;

#define SETTLED()                                                                   \
	do {                                                                        \
		for (i = 0; i < 4; i++)                                             \
			check(!ringup_allreduce(g, &usual, NULL), "as ever", rank); \
		check(out[3] == (float)(4 * size), "its sum", rank);                \
		a = usual;                                                          \
	} while (0)

	SETTLED();
	a.in = NULL;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "no input", rank);
	a.in = in;
	a.out = NULL;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "no output", rank);
	a.out = in + 1;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "half in place", rank);
	a.out = in + 4;
	check(!ringup_allreduce(g, &a, NULL) && in[7] == (float)(4 * size), "side by side",
	      rank);
	a.pre = (double)NAN;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "a scale that is none", rank);
	SETTLED();
	a.pre = a.post = 1;
	check(!ringup_allreduce(g, &a, NULL) && out[3] == (float)(4 * size), "1 is 0", rank);
	a.pre = 2;
	check(!ringup_allreduce(g, &a, NULL) && out[3] == (float)(8 * size), "scaled before",
	      rank);
	check(!ringup_allreduce(g, &a, NULL) && out[3] == (float)(8 * size), "and again", rank);
	SETTLED();
	a.post = 0.5;
	check(!ringup_allreduce(g, &a, NULL) && out[3] == (float)(2 * size), "scaled after",
	      rank);
	SETTLED();
	a.count = 3;
	out[3] = -1;
	check(!ringup_allreduce(g, &a, NULL) && out[3] == -1, "fewer", rank);
	SETTLED();
	a.redop = RINGUP_MAX;
	check(!ringup_allreduce(g, &a, NULL) && out[3] == 4, "another operation", rank);
	SETTLED();
	a.dims = 2;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "a shape that is not there",
	      rank);
	a.shape = shape;
	for (i = 0; i < 3; i++)
		check(!ringup_allreduce(g, &a, NULL), "a shape", rank);
	a.shape = shape + 1;
	check(!ringup_allreduce(g, &a, NULL), "another shape", rank);
	a.shape = shape;
	a.dims = 10;
	for (i = 0; i < 3; i++)
		check(!ringup_allreduce(g, &a, NULL), "a long shape", rank);
	SETTLED();
	a.redop = RINGUP_ADASUM;
	a.dims = 0;
	for (i = 0; i < 3; i++)
		check(!ringup_allreduce(g, &a, NULL) && fabsf(out[3] - 4) < 1e-5f,
		      "what lines do not do, of the same size", rank);
	SETTLED();
	/* The same memory, another name: so nothing else in here has that one. */
	strcpy(name, "other");
	a.count = 2;
	check(!ringup_allreduce(g, &a, NULL), "another name at the same place", rank);
	strcpy(name, "again");
	SETTLED();
	a.count = rank ? 4 : 2;
	if (size > 1)
		check(ringup_allreduce(g, &a, NULL) == RINGUP_EMISMATCH, "rank 0 differs",
		      rank);
	SETTLED();
#undef SETTLED
}

static void mismatch(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float v[600];
	int k, i, rc;

	for (k = 0; k < 12; k++) {
		uint64_t n = rank == size - 1 && k % 3 == 2 ? 12 : 10;

		for (i = 0; i < 600; i++)
			v[i] = (float)rank;
		/* Rounds 0 and 1 agree (the second eagerly), round 2 does not, and so on. */
		rc = sum_f32(g, "odd", v, n, NULL);
		if (k % 3 == 2) {
			check(rc == RINGUP_EMISMATCH, "mismatch is reported", rank);
			check(strstr(ringup_error(),
				     "odd: rank 0 wants an allreduce (sum) of 10 f32, rank") &&
				      strstr(ringup_error(), "an allreduce (sum) of 12 f32"),
			      "with both sides' values", rank);
			check(v[0] == (float)rank, "and no data is touched", rank);
		} else {
			check(!rc && v[0] == (float)(size * (size - 1) / 2), "the next works",
			      rank);
		}
	}
	/* The same mistake twice is found twice; other operations go on meanwhile. */
	for (k = 0; k < 2; k++) {
		struct ringup_op *op;

		check(!sum_f32(g, "twice", v, rank ? 5 : 6, &op), "submit", rank);
		check(!sum_f32(g, "fine", v, 600, NULL), "another operation", rank);
		check(ringup_wait(op, -1) == RINGUP_EMISMATCH, "mismatch", rank);
	}
	/* Different kinds under one name. */
	if (rank) {
		check(sum_f32(g, "kind", v, 6, NULL) == RINGUP_EMISMATCH, "kinds differ", rank);
	} else {
		check(ringup_barrier(g, "kind", NULL) == RINGUP_EMISMATCH, "kinds differ",
		      rank);
	}
}

/* More at once than anybody counts: each hears of its own. */
static void mismatches(struct ringup *r, int rank, int size)
{
	enum { MANY = ROUNDS_SANITIZED ? 100 : 300 };
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op[MANY];
	char name[16], begin[48];
	float v[MANY];
	int i, bad = 0;

	(void)size;
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "wrong/%d", i);
		check(!sum_f32(g, name, &v[i], rank ? 0 : 1, &op[i]), "submit", rank);
	}
	for (i = 0; i < MANY; i++) {
		snprintf(begin, sizeof(begin), "wrong/%d: rank 0 wants an allreduce (sum) of 1",
			 i);
		bad += ringup_wait(op[i], -1) != RINGUP_EMISMATCH ||
		       strncmp(ringup_error(), begin, strlen(begin)) != 0;
	}
	if (bad)
		printf("# %d of %d hear of something else\n", bad, MANY);
	check(!bad, "each hears of its own", rank);
}

static void arguments(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_reduce a = { .name = "" };
	struct ringup_op *op = NULL, *again = NULL;
	float v[RANKS_MAX + 8] = { 1 };
	uint64_t counts[RANKS_MAX];
	void *out;
	struct ringup_scatter part =
		ASK_SCATTER("part", v, (uint64_t)size, 2, v + 1, .dtype = RINGUP_F32);
	struct ringup_exchange rows =
		ASK_EXCHANGE("rows", v + 1, (uint64_t)size, 1, &out, counts,
			     .dtype = RINGUP_F32, .into = v, .into_bytes = 2 * sizeof(*v));
	char name[600];

	check(ringup_allreduce(g, &a, &op) == RINGUP_EINVAL, "empty name", rank);
	memset(name, 'x', sizeof(name));
	name[512] = 0;
	a.name = name;
	check(ringup_allreduce(g, &a, &op) == RINGUP_EINVAL, "long name", rank);
	name[511] = 0;
	a = (struct ringup_reduce){ .name = name, .count = 1, .out = v };
	check(ringup_allreduce(g, &a, &op) == RINGUP_EINVAL, "no in", rank);
	a = (struct ringup_reduce)ASK_REDUCE(name, v, v + 1, 3, .dtype = RINGUP_F32);
	check(ringup_allreduce(g, &a, &op) == RINGUP_EINVAL, "overlap", rank);
	a.dtype = (enum ringup_dtype)99;
	check(ringup_allreduce(g, &a, &op) == RINGUP_EINVAL, "dtype", rank);
	a = (struct ringup_reduce)ASK_REDUCE(name, v, v, 3, .dtype = RINGUP_F32);
	a.redop = (enum ringup_redop)99;
	check(ringup_allreduce(g, &a, &op) == RINGUP_EINVAL, "redop", rank);
	check(ringup_reducescatter(g, &part, &op) == RINGUP_EINVAL, "a part elsewhere", rank);
	check(ringup_alltoall(g, &rows, &op) == RINGUP_EINVAL, "into where in is", rank);
	check(!op, "no handle after a failure", rank);
	rows.rows = 0;
	check(!ringup_alltoall(g, &rows, NULL), "no rows, inside into", rank);
	part.rows = 1;
	part.out = rank ? v + 1 : v;
	check(!ringup_reducescatter(g, &part, NULL), "no part, inside in", rank);
	/* A long name works, and is busy while it is in flight. */
	if (size == 1)
		return;
	if (rank == 0) {
		check(!sum_f32(g, name, v, 8, &op), "submit", rank);
		check(sum_f32(g, name, v, 8, &again) == RINGUP_EBUSY, "busy", rank);
		check(ringup_wait(op, 10) == RINGUP_ETIMEDOUT, "a time limit", rank);
		check(!ringup_barrier(g, "now", NULL), "barrier", rank);
	} else {
		check(!ringup_barrier(g, "now", NULL), "barrier", rank);
		check(!sum_f32(g, name, v, 8, &op), "submit", rank);
	}
	check(!ringup_wait(op, -1), "wait", rank);
}

static void leave_early(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float v[4] = { 1, 2, 3, 4 };
	int rc;

	check(!sum_f32(g, "all", v, 4, NULL), "allreduce", rank);
	if (rank == size - 1)
		return;
	rc = sum_f32(g, "without the last", v, 4, NULL);
	check(rc == RINGUP_ESHUTDOWN, "a rank has left", rank);
	check(strstr(ringup_error(), "has left") != NULL, "and is named", rank);
}

static void aborted(struct ringup *r, int rank, int size)
{
	static int finished;
	struct ringup_group *g = ringup_world(r);
	float v[4] = { 1, 2, 3, 4 };
	int rc;

	check(!sum_f32(g, "all", v, 4, NULL), "allreduce", rank);
	__atomic_fetch_add(&finished, 1, __ATOMIC_SEQ_CST);
	if (rank == size - 1) {
		/* Not before the others have finished what they have. */
		while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < size)
			clock_sleep_ms(1);
		finished = 0;
		ringup_abort(r, "out of coffee");
	}
	rc = sum_f32(g, rank == size - 1 ? "mine" : "yours", v, 4, NULL);
	check(rc == RINGUP_EABORTED, "aborted", rank);
	check(strstr(ringup_error(), "out of coffee") != NULL, "with the reason", rank);
}

static struct ringup_group *shared_group;

static void *second_thread(void *arg)
{
	char name[16];
	float v[3000];
	int k, id = *(int *)arg;
	uint64_t i;

	for (k = 0; k < rounds_few(300, 100); k++) {
		uint64_t n = k % 2 ? 3000 : 7;

		for (i = 0; i < n; i++)
			v[i] = (float)(k + id);
		snprintf(name, sizeof(name), "thread%d/%d", id, k % 5 * 2 + k % 2);
		if (sum_f32(shared_group, name, v, n, NULL) || v[n - 1] != (float)(k + id))
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Several threads of one rank; alone, so that the group can be a global. */
static void threads(struct ringup *r, int rank, int size)
{
	pthread_t t[4];
	int id[4], i;

	(void)rank;
	(void)size;
	shared_group = ringup_world(r);
	for (i = 0; i < 4; i++) {
		id[i] = i;
		pthread_create(&t[i], NULL, second_thread, &id[i]);
	}
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

struct worker {
	struct ringup_group *g;
	int rank, size, id;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	static const uint64_t lengths[] = { 5, 3000, 40000 };
	float *v = malloc(40000 * sizeof(*v));
	char name[24];
	uint64_t i, n, bad = 0;
	int k;

	for (k = 0; k < rounds_few(60, 24); k++) {
		n = lengths[k % 3];
		for (i = 0; i < n; i++)
			v[i] = value(w->rank, i, k + w->id);
		snprintf(name, sizeof(name), "w%d/%d", w->id, k % 3);
		check(!sum_f32(w->g, name, v, n, NULL), "allreduce of a thread", w->rank);
		for (i = 0; i < n; i++)
			bad += v[i] != expected(w->size, i, k + w->id);
	}
	check(!bad, "sums of threads", w->rank);
	free(v);
	return NULL;
}

static void many_threads(struct ringup *r, int rank, int size)
{
	struct worker w[3];
	pthread_t t[3];
	int i;

	for (i = 0; i < 3; i++) {
		w[i] = (struct worker){ ringup_world(r), rank, size, i };
		pthread_create(&t[i], NULL, work, &w[i]);
	}
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static void all(void)
{
	static const int sizes_to_try[] = { 1, 2, 3, 4, 7 };
	size_t k;

	bool tcp = getenv("RINGUP_BACKEND") != NULL;

	for (k = 0; k < sizeof(sizes_to_try) / sizeof(sizes_to_try[0]); k++) {
		int n = sizes_to_try[k];

		if (tcp && n == 1)
			continue;
		run("sums of all sizes", n, sizes);
		run("buffers that some can map", n, mappable);
		run("shuffled and asynchronous", n, shuffled);
		run("carried by the progress threads", n, unattended);
		run("broadcast, allgather, barrier", n, others);
		run("results in the caller's memory", n, into);
		run("a block where others go", n, elsewhere);
		run("parts where they were", n, deal_in_place);
		run("operations and scales", n, operations);
		run("bad arguments, busy names, time limits", n, arguments);
		run("three threads a rank", n, many_threads);
		if (n == 1)
			continue;
		if (n == 2 || (n == 3 && !ROUNDS_SANITIZED))
			run("more names than numbers", n, new_names);
		if (n > 1)
			run("carried out within some time", n, within);
		run("nearly the same again", n, nearly_again);
		run("disagreement", n, mismatch);
		run("many disagreements at once", n, mismatches);
		run("a rank that leaves", n, leave_early);
		run("a rank that aborts", n, aborted);
	}
	if (!tcp)
		run("four threads", 1, threads);
}

int main(void)
{
	all();
	printf("# the same between hosts\n");
	setenv("RINGUP_BACKEND", "tcp", 1);
	all();
	return tap_done();
}
