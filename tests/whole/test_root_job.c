/* test_root_job.c - reductions, gathers and scatters with one rank at the end. */
#include <stdbool.h>

#include "asks.h"
#include "ranks.h"
#include "rounds.h"

enum { GUARD = 77, ROUNDS = 4 };

static const uint64_t counts[] = { 0, 1, 7, 300, 5000, 70000, 300001 };
/* The sanitizers find no more in the largest one, and take five times as long for it. */
enum { COUNTS = sizeof(counts) / sizeof(counts[0]) - ROUNDS_SANITIZED };

static void name_it(char out[64], const char *what, int root, int k)
{
	snprintf(out, 64, "%s/%d/%d", what, root, k);
}

/* Only the root's result is written, in place or apart, waited for at once or later. */
static void reduce_all(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op;
	double want;
	float *in, *out;
	char name[64];
	uint64_t i;
	int root, k, round, bad;

	for (root = 0; root < size; root++)
		for (k = 0; k < COUNTS; k++)
			for (round = 0; round < ROUNDS; round++) {
				in = calloc(counts[k] + 1, sizeof(*in));
				out = calloc(counts[k] + 1, sizeof(*out));
				for (i = 0; i < counts[k]; i++) {
					in[i] = (float)(rank + 1) * (float)(i % 17);
					out[i] = GUARD;
				}
				name_it(name, "reduce", root, k);
				struct ringup_reduce a = ASK_REDUCE(
					round % 2 ? name : NULL, in,
					rank == root || round ? out : NULL, counts[k],
					.dtype = RINGUP_F32, .pre = 2, .post = 0.5);

				op = NULL;
				check(!ringup_reduce_to(g, &a, root, round < 2 ? &op : NULL),
				      "reduce", rank);
				check(!op || !ringup_wait(op, -1), "wait", rank);
				for (bad = 0, i = 0; i < counts[k]; i++) {
					want = rank == root ? (double)(size * (size + 1) / 2) *
								      (double)(i % 17)
							    : GUARD;
					bad |= out[i] != (float)want;
				}
				check(!bad, "the root's sum, and nobody else's", rank);
				free(in);
				free(out);
			}
}

static void reduce_types(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	int64_t v = rank == 1 ? -5 : rank, out = GUARD;
	uint8_t yes = rank == size - 1, any = 0;
	struct ringup_reduce a =
		ASK_REDUCE(NULL, &v, &out, 1, .dtype = RINGUP_I64, .redop = RINGUP_MIN);

	check(!ringup_reduce_to(g, &a, 0, NULL) && out == (rank ? GUARD : -5), "minimum", rank);
	a.redop = RINGUP_MAX;
	check(!ringup_reduce_to(g, &a, size - 1, NULL), "maximum", rank);
	check(out == (rank == size - 1 ? size - 1 : rank ? GUARD : -5), "of all", rank);
	a = (struct ringup_reduce){ .in = &yes, .out = &any, .count = 1, .dtype = RINGUP_BOOL };
	check(!ringup_reduce_to(g, &a, 0, NULL) && any == !rank, "any", rank);
}

/* Ranks bring different numbers of rows. */
static void gather_all(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	uint64_t got[RANKS_MAX], rows, i, q;
	int root, k, round, bad;
	struct ringup_op *op;
	char name[64];
	int32_t *in, *out, *at;

	for (root = 0; root < size; root++)
		for (k = 0; k < COUNTS; k++)
			for (round = 0; round < ROUNDS; round++) {
				rows = counts[k] / (uint64_t)(rank + 1);
				in = calloc(2 * rows + 1, sizeof(*in));
				for (i = 0; i < 2 * rows; i++)
					in[i] = (int32_t)((uint64_t)rank * 1000000 + i);
				out = NULL;
				op = NULL;
				name_it(name, "gather", root, k);
				struct ringup_gather a =
					ASK_GATHER(round % 2 ? name : NULL, in, rows, 2, NULL,
						   NULL, .dtype = RINGUP_I32);

				if (rank == root) {
					a.out = (void **)&out;
					a.counts = got;
				}
				check(!ringup_gather_to(g, &a, root, round < 2 ? &op : NULL),
				      "gather", rank);
				check(!op || !ringup_wait(op, -1), "wait", rank);
				for (bad = 0, at = out, q = 0;
				     rank == root && q < (uint64_t)size; q++) {
					bad |= got[q] != counts[k] / (q + 1);
					for (i = 0; i < 2 * (counts[k] / (q + 1)); i++)
						bad |= *at++ != (int32_t)(q * 1000000 + i);
				}
				check(!bad, "the rows of all", rank);
				ringup_free(out);
				free(in);
			}
}

static void scatter_all(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	uint64_t got[RANKS_MAX], splits[RANKS_MAX], rows, i, first, q;
	int root, k, round, bad;
	struct ringup_op *op;
	char name[64];
	int64_t *in, *into;
	void *out;

	for (root = 0; root < size; root++)
		for (k = 0; k < COUNTS; k++)
			for (round = 0; round < ROUNDS; round++) {
				for (rows = first = q = 0; q < (uint64_t)size; q++) {
					splits[q] = counts[k] / (q + 2);
					first += (int)q < rank ? splits[q] : 0;
					rows += splits[q];
				}
				in = calloc(rows + 1, sizeof(*in));
				into = calloc(splits[rank] + 1, sizeof(*into));
				for (i = 0; i < rows; i++)
					in[i] = (int64_t)i;
				op = NULL;
				out = NULL;
				name_it(name, "scatter", root, k);
				struct ringup_exchange a = ASK_EXCHANGE(
					round % 2 ? name : NULL, rank == root ? in : NULL,
					rank == root ? rows : 0, 1, &out, got,
					.dtype = RINGUP_I64,
					.splits = rank == root ? splits : NULL, .into = into,
					.into_bytes = splits[rank] * sizeof(*into));

				check(!ringup_scatter_from(g, &a, root, round < 2 ? &op : NULL),
				      "scatter", rank);
				check(!op || !ringup_wait(op, -1), "wait", rank);
				check(out == into || !splits[rank], "where it was wanted",
				      rank);
				for (bad = 0, q = 0; q < (uint64_t)size; q++)
					bad |= got[q] != ((int)q == root ? splits[rank] : 0);
				for (i = 0; i < splits[rank]; i++)
					bad |= into[i] != (int64_t)(first + i);
				check(!bad, "its part", rank);
				if (out != into)
					ringup_free(out);
				free(in);
				free(into);
			}
}

/* Who is the root?  Nothing is touched, and the next operation works. */
static void roots_differ(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float in = 1, out = GUARD;
	uint64_t got[RANKS_MAX];
	void *rows = NULL;
	struct ringup_reduce a = ASK_REDUCE("sum", &in, &out, 1, .dtype = RINGUP_F32);
	struct ringup_gather b = ASK_GATHER("rows", &in, 1, 1, &rows, got, .dtype = RINGUP_F32);

	check(ringup_reduce_to(g, &a, rank ? 1 : 0, NULL) == RINGUP_EMISMATCH && out == GUARD,
	      "which root", rank);
	check(strstr(ringup_error(), "rank 0 wants a reduce (sum) to rank 0 of 1 f32") != NULL,
	      "is told", rank);
	check(ringup_gather_to(g, &b, rank ? 1 : 0, NULL) == RINGUP_EMISMATCH, "which root",
	      rank);
	check(strstr(ringup_error(), "gather to rank 1 of rows of 1 f32") != NULL, "is told",
	      rank);
	check((rank ? ringup_reduce_to(g, &a, 0, NULL) : ringup_allreduce(g, &a, NULL)) ==
		      RINGUP_EMISMATCH,
	      "for all or for one", rank);
	check(!ringup_reduce_to(g, &a, 0, NULL) && out == (rank ? GUARD : size), "the next",
	      rank);
	check(ringup_reduce_to(g, &a, size, NULL) == RINGUP_EINVAL, "no such root", rank);
	check(ringup_gather_to(g, &b, -1, NULL) == RINGUP_EINVAL, "no such root", rank);
}

static void run_all(const char *where)
{
	printf("# %s\n", where);
	run("reductions", 1, reduce_all);
	run("reductions", 2, reduce_all);
	run("reductions", 5, reduce_all);
	run("reductions of types", 3, reduce_types);
	run("gathers", 1, gather_all);
	run("gathers", 2, gather_all);
	run("gathers", 4, gather_all);
	run("scatters", 1, scatter_all);
	run("scatters", 2, scatter_all);
	run("scatters", 4, scatter_all);
	run("roots that differ", 3, roots_differ);
}

int main(void)
{
	run_all("one host");
	setenv("RINGUP_BACKEND", "tcp", 1);
	run_all("each rank a host of its own");
	return tap_done();
}
