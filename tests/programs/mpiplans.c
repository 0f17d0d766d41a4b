/* mpiplans.c - a rank that puts the back end mpi through every kind of plan. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/kinds.h"
#include "block.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "tap.h"
#include "wire/discover.h"
#include "wire/rendezvous.h"

/* Every rank knows what every other gives, and so what comes out: the sum in rank
 * order, to the bit. */
enum { RANKS_MAX = 16, PIECES = 4 };

static const struct backend *b;
static struct topo topo;
static void *self;
static uint32_t quiet;
static bool is_long, has_run[PLAN_KINDS];

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

/* @count elements that are no NaNs, the same for the same @seed. */
static void *pattern(enum ringup_dtype dtype, uint64_t count, uint64_t seed)
{
	size_t bytes = reduce_dtype_bytes(dtype);
	unsigned char *v = malloc(count * bytes + 64);
	uint64_t i;

	for (i = 0; i < count; i++) {
		uint64_t x = mix(mix(seed + 1) + i + 1);
		double d = (double)(int64_t)(x >> 20 & 0xffff) / 4096 - 7;
		float f = (float)d;

		if (dtype == RINGUP_F64)
			memcpy(v + i * bytes, &d, bytes);
		else if (dtype == RINGUP_F32)
			memcpy(v + i * bytes, &f, bytes);
		else if (reduce_is_half(dtype))
			reduce_narrow(dtype, v + i * bytes, &f, 1);
		else
			memcpy(v + i * bytes, &x, bytes);
	}
	return v;
}

static int run(const struct plan *p)
{
	struct err e = { 0 };
	int rc = b->start(self, p, &e);

	has_run[p->kind] = true;
	/* There may be fewer processors than ranks: another may have to work first. */
	while (!rc && (rc = b->step(self, p, &e)) == 0) {
		sched_yield();
		backend_block(b, self, INT64_MAX);
	}
	if (rc != 1)
		printf("# %s\n", e.text);
	return rc == 1;
}

/* What @ranks vectors of @count elements, each times @pre, combine to. */
static void *reference(const struct plan *p, uint64_t count, void **all)
{
	struct reduce how = { p->dtype, p->redop, (uint32_t)topo.size, p->post };
	size_t bytes = reduce_dtype_bytes(p->dtype);
	void *out = malloc(count * bytes + 64), *scaled[RANKS_MAX];
	const void *src[RANKS_MAX];
	int r;

	for (r = 0; r < topo.size; r++) {
		scaled[r] = malloc(count * bytes + 64);
		memcpy(scaled[r], all[r], count * bytes);
		if (p->pre != 1)
			copy_scaled(p->dtype, scaled[r], all[r], count, p->pre);
		src[r] = scaled[r];
	}
	reduce_many(&how, &out, 1, src, topo.size, count);
	for (r = 0; r < topo.size; r++)
		free(scaled[r]);
	return out;
}

/* The concatenation of some tensors of different length, one of them empty. */
static int allreduce(struct plan p, uint64_t count, int in_place)
{
	size_t bytes = reduce_dtype_bytes(p.dtype);
	uint64_t cut[PIECES + 1] = { 0, count / 5, count / 5, count / 2, count };
	struct piece piece[PIECES];
	void *all[RANKS_MAX], *want;
	unsigned char *out;
	int r, i, good;

	for (r = 0; r < topo.size; r++)
		all[r] = pattern(p.dtype, count, (uint64_t)r);
	want = reference(&p, count, all);
	out = in_place ? all[topo.rank] : calloc(count + 1, bytes);
	for (i = 0; i < PIECES; i++)
		piece[i] = (struct piece){ .in = (char *)all[topo.rank] + cut[i] * bytes,
					   .out = out + cut[i] * bytes,
					   .count = cut[i + 1] - cut[i] };
	p.kind = PLAN_ALLREDUCE;
	p.piece = piece;
	p.pieces = PIECES;
	p.count = count;
	good = run(&p) && !memcmp(out, want, count * bytes);
	if (!in_place)
		free(out);
	for (r = 0; r < topo.size; r++)
		free(all[r]);
	free(want);
	return good;
}

static int scatter(struct plan p, uint64_t count, int in_place)
{
	size_t bytes = reduce_dtype_bytes(p.dtype);
	uint64_t counts[RANKS_MAX], total = 0, before = 0;
	void *all[RANKS_MAX], *want;
	unsigned char *out;
	struct piece piece;
	int r, good;

	for (r = 0; r < topo.size; r++) {
		counts[r] = r % 3 == 1 ? 0 : count + (uint64_t)r * 7;
		before += r < topo.rank ? counts[r] : 0;
		total += counts[r];
	}
	for (r = 0; r < topo.size; r++)
		all[r] = pattern(p.dtype, total, (uint64_t)r + 100);
	want = reference(&p, total, all);
	out = in_place ? all[topo.rank] : calloc(total + 1, bytes);
	piece = (struct piece){ .in = all[topo.rank], .out = out, .count = total };
	p.kind = PLAN_REDUCESCATTER;
	p.piece = &piece;
	p.pieces = 1;
	p.count = total;
	p.counts = counts;
	good = run(&p) &&
	       !memcmp(out, (char *)want + before * bytes, counts[topo.rank] * bytes);
	if (!in_place)
		free(out);
	for (r = 0; r < topo.size; r++)
		free(all[r]);
	free(want);
	return good;
}

/*
 * Lengths are those where the way changes: of nothing, of one element, within a line, of what
 * every rank adds up for itself, of what is cut into slices, of several windows.
 *
 * Without the long form, of five pairs of type and operation one has them all: with another
 * number of ranks another pair, and among these are every type and every operation.  All others
 * have two lengths, neither of which is cut into several windows.
 */
static int reductions(enum ringup_dtype dtype, enum ringup_redop redop)
{
	bool is_whole = is_long || ((int)dtype + (int)redop + topo.size) % REDUCE_OPS == 0;
	uint64_t large = 1400001 / reduce_dtype_bytes(dtype);
	const uint64_t counts[] = { 0, 1, 5, 777, 4096, large };
	struct plan p = { .dtype = dtype, .redop = redop, .pre = 1, .post = 1 };
	int good = 1;
	size_t i;

	if (!is_whole)
		return allreduce(p, 777, 0) & scatter(p, 777, 1) & allreduce(p, 4096, 1);
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		good &= allreduce(p, counts[i], i % 2 == 0);
		good &= scatter(p, counts[i], i % 2 == 1);
	}
	p.pre = 2;
	p.post = 3;
	good &= allreduce(p, 1000, 0) & allreduce(p, large, 1) & scatter(p, 3000, 0);
	return good;
}

static int broadcast(int root, uint64_t count, int wants)
{
	unsigned char *data = pattern(RINGUP_U8, count, (uint64_t)root);
	unsigned char *out = calloc(count + 1, 1);
	struct piece piece = { .in = topo.rank == root ? data : NULL,
			       .out = out,
			       .count = count };
	struct plan p = { .kind = PLAN_BROADCAST,
			  .dtype = RINGUP_U8,
			  .pre = 1,
			  .post = 1,
			  .root = root,
			  .piece = &piece,
			  .pieces = 1,
			  .count = count };
	int good;

	if (topo.rank == root && !wants)
		piece.out = NULL;
	good = run(&p) && (!piece.out || !memcmp(out, data, count));
	free(data);
	free(out);
	return good;
}

static int allgather(uint64_t count)
{
	uint64_t counts[RANKS_MAX], total = 0, at = 0;
	struct piece piece;
	struct plan p = { .kind = PLAN_ALLGATHER,
			  .dtype = RINGUP_I32,
			  .pre = 1,
			  .post = 1,
			  .piece = &piece,
			  .pieces = 1,
			  .counts = counts };
	void *mine;
	char *out;
	int r, good;

	for (r = 0; r < topo.size; r++) {
		counts[r] = r % 4 == 2 ? 0 : count + (uint64_t)r;
		total += counts[r];
	}
	p.count = counts[topo.rank];
	mine = pattern(RINGUP_I32, p.count, (uint64_t)topo.rank);
	out = calloc(total + 1, 4);
	piece = (struct piece){ .in = mine, .out = out, .count = p.count };
	good = run(&p);
	for (r = 0; r < topo.size; r++) {
		void *theirs = pattern(RINGUP_I32, counts[r], (uint64_t)r);

		good &= !memcmp(out + at * 4, theirs, counts[r] * 4);
		at += counts[r];
		free(theirs);
	}
	free(mine);
	free(out);
	return good;
}

static uint64_t elements(uint64_t count, int from, int to)
{
	return (from + 2 * to) % 3 == 0 ? 0 : count + (uint64_t)(3 * from + to);
}

static int alltoall(uint64_t count)
{
	uint64_t matrix[RANKS_MAX * RANKS_MAX], in = 0, out = 0, at = 0, first;
	struct piece piece;
	struct plan p = { .kind = PLAN_ALLTOALL,
			  .dtype = RINGUP_I64,
			  .pre = 1,
			  .post = 1,
			  .piece = &piece,
			  .pieces = 1,
			  .matrix = matrix };
	void *mine;
	char *got;
	int i, j, r, good, n = topo.size;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++) {
			matrix[i * n + j] = elements(count, i, j);
			in += i == topo.rank ? matrix[i * n + j] : 0;
			out += j == topo.rank ? matrix[i * n + j] : 0;
		}
	mine = pattern(RINGUP_I64, in, (uint64_t)topo.rank);
	got = calloc(out + 1, 8);
	p.count = in;
	piece = (struct piece){ .in = mine, .out = got, .count = in };
	good = run(&p);
	for (r = 0; r < n; r++) {
		uint64_t all = 0;
		char *theirs;

		for (first = 0, j = 0; j < n; j++) {
			first += j < topo.rank ? matrix[r * n + j] : 0;
			all += matrix[r * n + j];
		}
		theirs = pattern(RINGUP_I64, all, (uint64_t)r);
		good &= !memcmp(got + at * 8, theirs + first * 8,
				matrix[r * n + topo.rank] * 8);
		at += matrix[r * n + topo.rank];
		free(theirs);
	}
	free(mine);
	free(got);
	return good;
}

static void all_plans(void)
{
	struct plan barrier = { .kind = PLAN_BARRIER, .pre = 1, .post = 1 };
	int dtype, redop, r;

	for (dtype = 0; dtype < DTYPE_COUNT; dtype++)
		for (redop = 0; redop < REDUCE_OPS; redop++)
			if (dtype != RINGUP_BOOL || redop != RINGUP_AVERAGE)
				ok(reductions(dtype, redop), "%s of %s",
				   reduce_redop_name(redop), reduce_dtype_name(dtype));
	for (r = 0; r < topo.size; r++)
		ok(broadcast(r, 0, 1) && broadcast(r, 7, 0) && broadcast(r, 1500001, 1),
		   "broadcast from rank %d", r);
	ok(allgather(0) && allgather(3) && allgather(300001), "allgather");
	ok(alltoall(0) && alltoall(3) && alltoall(100001), "alltoall");
	ok(run(&barrier) && run(&barrier), "barrier");
	for (r = 0; r < PLAN_KINDS; r++)
		ok(has_run[r], "%s has run", collective_word((uint32_t)r));
}

int main(void)
{
	struct rendezvous meeting = { 0 };
	struct discovery d;
	struct err e = { 0 };
	const char *text = getenv("RINGUP_TEST_LONG");
	int rc = discover(&d, &e);

	is_long = text && strcmp(text, "0") != 0;
	if (!rc)
		rc = rendezvous_open(&meeting, &d, "127.0.0.1", clock_deadline(60000), &e);
	topo = (struct topo){ .rank = d.rank,
			      .size = d.size,
			      .hosts = 1,
			      .local_rank = d.rank,
			      .local_size = d.size,
			      .abort = &quiet,
			      .whole = true,
			      .exchange = meeting.exchange,
			      .exchange_ctx = meeting.ctx };
	b = backend_find("mpi");
	self = calloc(1, b->size);
	if (!rc)
		rc = b->open(self, &topo, &e);
	rendezvous_close(&meeting);
	ok(!rc, "%d ranks open the back end%s%s", topo.size, rc ? ": " : "", e.text);
	if (!rc)
		all_plans();
	b->close(self);
	free(self);
	rc = tap_done();
	printf("rank %d of %d: %s\n", topo.rank, topo.size, rc ? "failed" : "all right");
	return rc;
}
