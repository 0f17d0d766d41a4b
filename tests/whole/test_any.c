/* test_any.c - whatever a job may do, in any order, beside a plain reference. */
/* tests: src/backend/node.c src/backend/tcp.c src/engine */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce.h"
#include "half.h"
#include "rounds.h"
#include "tap.h"

#include "asks.h"
#include "base/kinds.h"
#include "ranks.h"

/*
 * All ranks draw the same operations from the same number: of every kind, type and size, in
 * the world and in groups, alone and many together, some of them with one rank that asks for
 * something else.  A round is submitted in an order of each rank's own, and so waited for.
 * What comes out is compared with what plain loops make of all ranks' inputs, which everybody
 * knows; in some rounds ranks have joined the world or a group, and have none there.
 */

enum {
	REDUCE,
	MANY,
	SCATTER,
	MANY_SCATTERS,
	GATHER,
	MANY_GATHERS,
	SPREAD,
	EXCHANGE,
	MEET,
	KINDS
};
enum { TENSORS = 3, FLYING = 24, GROUPS = 4, NAMES = 40, ROUNDS = 8 };

/* ---- drawing lots ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

struct lots {
	uint64_t at;
};

static int draw(struct lots *l, int below)
{
	return (int)(mix(++l->at) % (uint64_t)below);
}

/* ---- what is asked for ---- */

struct tensor_asked {
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	double pre, post;
	uint64_t rows, row; /* rows differ between ranks: see rows_of() */
	bool in_place;
	bool elsewhere; /* than where it belongs: see fill() */
};

struct asked {
	int kind, group, tensors, root, name,
		odd; /* odd: the rank that wants otherwise, or -1 */
	uint64_t seed;
	struct tensor_asked t[TENSORS];
};

struct side {
	int rank, size, members[RANKS_MAX]; /* of a group; rank: -1 */
	struct ringup_group *group;
};

/* One operation of this rank's. */
struct in_flight {
	struct asked a;
	struct ringup_op *op;
	char name[16];
	unsigned char *in[TENSORS], *out[TENSORS], *made[TENSORS];
	unsigned char *room[TENSORS]; /* for what is gathered, in and all; or NULL */
	uint64_t room_bytes[TENSORS];
	uint64_t counts[TENSORS][RANKS_MAX], splits[RANKS_MAX];
};

static bool is_floating(enum ringup_dtype t)
{
	return t >= RINGUP_F16 && t <= RINGUP_F64;
}

static bool has_redop(const struct asked *a)
{
	return a->kind <= MANY_SCATTERS;
}

static bool is_bundle(const struct asked *a)
{
	return a->kind == MANY || a->kind == MANY_SCATTERS || a->kind == MANY_GATHERS;
}

static void draw_tensor(struct lots *l, const struct asked *a, struct tensor_asked *t)
{
	static const uint64_t lengths[] = { 0, 0, 1, 1, 2, 3, 7, 64, 255, 1000, 5000, 40000 };
	static const double whole[] = { 0, 0, 0, 1, -1, 0.5, 1.7, 3e9 };
	static const double fine[] = { 0, 0, 0, 1, -1, 0.5, 2, 0.25 };

	t->dtype = (enum ringup_dtype)draw(l, DTYPE_COUNT);
	t->redop = (enum ringup_redop)draw(l, a->kind < SCATTER ? REDOP_COUNT : REDUCE_OPS);
	if (t->redop == RINGUP_ADASUM && !is_floating(t->dtype))
		t->redop = RINGUP_MAX;
	if (t->redop == RINGUP_AVERAGE && t->dtype == RINGUP_BOOL)
		t->redop = RINGUP_PRODUCT;
	t->pre = (is_floating(t->dtype) ? fine : whole)[draw(l, 8)];
	t->post = (is_floating(t->dtype) ? fine : whole)[draw(l, 8)];
	t->rows = lengths[draw(l, 12)];
	t->row = (uint64_t)draw(l, 8) ? (uint64_t)draw(l, 4) : 1;
	t->in_place = draw(l, 2);
	t->elsewhere = draw(l, 2);
}

static void draw_asked(struct lots *l, struct asked *a, int name, const struct side *side)
{
	int i;

	a->kind = draw(l, KINDS);
	a->group = draw(l, 3) ? 0 : draw(l, GROUPS);
	a->tensors = is_bundle(a) ? 1 + draw(l, TENSORS) : a->kind != MEET;
	a->root = draw(l, side[a->group].size);
	a->name = name;
	a->odd = -1;
	for (i = 0; i < a->tensors; i++)
		draw_tensor(l, a, &a->t[i]);
}

/* Rows that @rank, of @n, brings; those of an exchange are what its splits come to. */
static uint64_t split_of(const struct asked *a, int from, int to)
{
	return a->t[0].rows
		       ? mix(a->seed + (uint64_t)(from * RANKS_MAX + to)) % (a->t[0].rows + 1)
		       : 0;
}

static uint64_t rows_of(const struct asked *a, int i, int rank, int n)
{
	uint64_t rows = 0;
	int q;

	if (a->kind == GATHER || a->kind == MANY_GATHERS)
		return a->t[i].rows * (uint64_t)(rank + 1) / (uint64_t)n;
	for (q = 0; a->kind == EXCHANGE && q < n; q++)
		rows += split_of(a, rank, q);
	return a->kind == EXCHANGE ? rows : a->t[i].rows;
}

/* ---- values ---- */

/* Small whole numbers where rounding would blur the sum; anything where sums wrap. */
static int64_t value(const struct asked *a, int i, int rank, uint64_t at)
{
	const struct tensor_asked *t = &a->t[i];
	uint64_t x = mix(a->seed ^ mix((uint64_t)(rank * TENSORS + i)) ^ at);

	if (is_floating(t->dtype))
		return (int64_t)(x % 5) - 2;
	return t->dtype == RINGUP_BOOL && x % 3 ? 0 : (int64_t)(x >> 3);
}

/* What is left of @v in an element of the type. */
static int64_t wrap(enum ringup_dtype t, int64_t v)
{
	switch (t) {
	case RINGUP_U8:
		return (uint8_t)v;
	case RINGUP_I8:
		return (int8_t)v;
	case RINGUP_U16:
		return (uint16_t)v;
	case RINGUP_I16:
		return (int16_t)v;
	case RINGUP_I32:
		return (int32_t)v;
	case RINGUP_BOOL:
		return (v & 0xff) != 0;
	default:
		return v;
	}
}

static void put(enum ringup_dtype t, void *to, uint64_t at, int64_t v)
{
	unsigned char *p = (unsigned char *)to + at * reduce_dtype_bytes(t);
	float f = (float)v;
	double d = (double)v;
	uint16_t h;

	switch (t) {
	case RINGUP_F16:
	case RINGUP_BF16:
		h = (uint16_t)(t == RINGUP_F16 ? nearest(d, 5, 10) : nearest(d, 8, 7));
		memcpy(p, &h, 2);
		break;
	case RINGUP_F32:
		memcpy(p, &f, 4);
		break;
	case RINGUP_F64:
		memcpy(p, &d, 8);
		break;
	default: /* little-endian */
		memcpy(p, &v, reduce_dtype_bytes(t));
	}
}

struct number {
	int64_t i;
	double f;
};

static struct number get(enum ringup_dtype t, const void *from, uint64_t at)
{
	const unsigned char *p = (const unsigned char *)from + at * reduce_dtype_bytes(t);
	struct number v = { 0 };
	uint16_t h;
	float f;

	switch (t) {
	case RINGUP_F16:
	case RINGUP_BF16:
		memcpy(&h, p, 2);
		v.f = t == RINGUP_F16 ? meaning(h, 5, 10) : meaning(h, 8, 7);
		break;
	case RINGUP_F32:
		memcpy(&f, p, 4);
		v.f = f;
		break;
	case RINGUP_F64:
		memcpy(&v.f, p, 8);
		break;
	default:
		memcpy(&v.i, p, reduce_dtype_bytes(t));
		v.i = wrap(t, v.i);
	}
	return v;
}

/* ---- the reference ---- */

/* The nearest that fits, towards zero. */
static int64_t scaled(enum ringup_dtype t, int64_t v, double by)
{
	static const double high[] = { [RINGUP_U8] = 255,
				       [RINGUP_I8] = 127,
				       [RINGUP_U16] = 65535,
				       [RINGUP_I16] = 32767,
				       [RINGUP_I32] = 0x7fffffff };
	double x = (double)v * by, least;

	if (by == 0 || by == 1)
		return v;
	if (t == RINGUP_I64)
		return x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
	least = t == RINGUP_U8 || t == RINGUP_U16 ? 0 : -high[t] - 1;
	return x >= high[t] ? (int64_t)high[t] : x <= least ? (int64_t)least : (int64_t)x;
}

static int64_t combine(enum ringup_redop op, int64_t x, int64_t y)
{
	if (op == RINGUP_MIN || op == RINGUP_MAX)
		return (x < y) == (op == RINGUP_MIN) ? x : y;
	return (int64_t)(op == RINGUP_PRODUCT ? (uint64_t)x * (uint64_t)y
					      : (uint64_t)x + (uint64_t)y);
}

static int64_t whole(const struct asked *a, int i, const bool *in, int n, uint64_t at)
{
	const struct tensor_asked *t = &a->t[i];
	int64_t sum = 0, v;
	bool any = false;
	int r;

	for (r = 0; r < n; r++) {
		if (!in[r])
			continue;
		v = scaled(t->dtype, wrap(t->dtype, value(a, i, r, at)), t->pre);
		sum = any ? wrap(t->dtype, combine(t->redop, sum, v)) : v;
		any = true;
	}
	/* Those who have joined give zeros. */
	if (t->redop == RINGUP_AVERAGE)
		sum /= n;
	return scaled(t->dtype, sum, t->post);
}

static int64_t logical(const struct asked *a, int i, const bool *in, int n, uint64_t at)
{
	bool every = true, some = false;
	int r;

	for (r = 0; r < n; r++)
		if (in[r]) {
			every &= wrap(RINGUP_BOOL, value(a, i, r, at));
			some |= wrap(RINGUP_BOOL, value(a, i, r, at));
		}
	return a->t[i].redop == RINGUP_PRODUCT || a->t[i].redop == RINGUP_MIN ? every : some;
}

static double fraction(const struct asked *a, int i, const bool *in, int n, uint64_t at)
{
	const struct tensor_asked *t = &a->t[i];
	double sum = 0, v;
	bool any = false;
	int r;

	for (r = 0; r < n; r++) {
		if (!in[r])
			continue;
		v = (double)value(a, i, r, at) * (t->pre == 0 ? 1 : t->pre);
		sum = !any                         ? v
		      : t->redop == RINGUP_MIN     ? fmin(sum, v)
		      : t->redop == RINGUP_MAX     ? fmax(sum, v)
		      : t->redop == RINGUP_PRODUCT ? sum * v
						   : sum + v;
		any = true;
	}
	if (t->redop == RINGUP_AVERAGE)
		sum /= n;
	return sum * (t->post == 0 ? 1 : t->post);
}

/* Is element @at of the result what it should be? */
static bool is_right(const struct asked *a, int i, const bool *in, int n, uint64_t at,
		     struct number got)
{
	const struct tensor_asked *t = &a->t[i];
	double want;

	if (t->dtype == RINGUP_BOOL)
		return got.i == logical(a, i, in, n, at);
	if (!is_floating(t->dtype))
		return got.i == whole(a, i, in, n, at);
	if (t->redop == RINGUP_ADASUM)
		return isfinite(got.f);
	want = fraction(a, i, in, n, at);
	/* Averages of three are rounded once; all else is exact. */
	return fabs(got.f - want) <= (t->redop == RINGUP_AVERAGE ? fabs(want) * 0x1p-8 : 0);
}

/* ---- asking ---- */

/* The same, but for one thing. */
static void twist(struct asked *b, struct lots *l)
{
	struct tensor_asked *t = &b->t[b->tensors > 1 ? b->tensors - 1 : 0];
	bool has_rows = b->kind <= MANY_SCATTERS || b->kind == SPREAD;

	switch (draw(l, 4)) {
	case 0:
		if (has_rows) {
			t->rows++;
			t->row = t->row ? t->row : 1;
			return;
		}
		break;
	case 1:
		if (has_redop(b)) {
			t->redop = t->redop == RINGUP_MIN ? RINGUP_MAX : RINGUP_MIN;
			return;
		}
		break;
	case 2:
		if (has_redop(b)) {
			t->post = 5;
			return;
		}
		break;
	}
	if (b->kind == MEET) {
		b->kind = REDUCE;
		b->tensors = 1;
		*t = (struct tensor_asked){ .rows = 3, .row = 1, .dtype = RINGUP_F32 };
	} else {
		t->dtype = t->dtype == RINGUP_I32 ? RINGUP_F64 : RINGUP_I32;
		t->redop = t->redop == RINGUP_ADASUM ? RINGUP_MIN : t->redop;
	}
}

static int ask(struct in_flight *f, const struct side *s, struct ringup_op **opp)
{
	const struct asked *a = &f->a;
	struct ringup_reduce reduce[TENSORS] = { 0 };
	struct ringup_scatter scatter[TENSORS] = { 0 };
	struct ringup_gather gather[TENSORS] = { 0 };
	const struct tensor_asked *t = a->t;
	int i;

	for (i = 0; i < a->tensors; i++) {
		const char *name = i || !*f->name ? NULL : f->name;

		reduce[i] = (struct ringup_reduce)ASK_REDUCE(
			name, f->in[i], f->out[i], t[i].rows * t[i].row, .dtype = t[i].dtype,
			.redop = t[i].redop, .pre = t[i].pre, .post = t[i].post);
		scatter[i] = (struct ringup_scatter)ASK_SCATTER(
			name, f->in[i], t[i].rows, t[i].row, f->out[i], .dtype = t[i].dtype,
			.redop = t[i].redop, .pre = t[i].pre, .post = t[i].post);
		gather[i] = (struct ringup_gather)ASK_GATHER(
			name, f->in[i], rows_of(a, i, s->rank, s->size), t[i].row,
			(void **)&f->made[i], f->counts[i], .dtype = t[i].dtype,
			.into = f->room[i], .into_bytes = f->room_bytes[i]);
	}
	switch (a->kind) {
	case REDUCE:
		return ringup_allreduce(s->group, reduce, opp);
	case MANY:
		return ringup_allreduce_many(s->group, reduce, a->tensors, opp);
	case SCATTER:
		return ringup_reducescatter(s->group, scatter, opp);
	case MANY_SCATTERS:
		return ringup_reducescatter_many(s->group, scatter, a->tensors, opp);
	case GATHER:
		return ringup_allgather(s->group, gather, opp);
	case MANY_GATHERS:
		return ringup_allgather_many(s->group, gather, a->tensors, opp);
	case SPREAD:
		return ringup_broadcast(
			s->group,
			&(struct ringup_bcast)ASK_BCAST(*f->name ? f->name : NULL, f->in[0],
							f->out[0], reduce->count,
							.dtype = t->dtype, .root = a->root),
			opp);
	case EXCHANGE:
		for (i = 0; i < s->size; i++)
			f->splits[i] = split_of(a, s->rank, i);
		return ringup_alltoall(s->group,
				       &(struct ringup_exchange)ASK_EXCHANGE(
					       *f->name ? f->name : NULL, f->in[0],
					       gather->rows, t->row, gather->out,
					       gather->counts, .dtype = t->dtype,
					       .splits = f->splits),
				       opp);
	default:
		return ringup_barrier(s->group, *f->name ? f->name : NULL, opp);
	}
}

static uint64_t part_first(uint64_t rows, int rank, int n)
{
	uint64_t r = (uint64_t)rank, more = rows % (uint64_t)n;

	return rows / (uint64_t)n * r + (r < more ? r : more);
}

static bool is_scatter(const struct asked *a)
{
	return a->kind == SCATTER || a->kind == MANY_SCATTERS;
}

/* Room for the result of a gathering, where in lies already: where it goes, or where others'
 * blocks go; if a rank has joined, neither is right. */
static unsigned char *lay_in_room(struct in_flight *f, const struct asked *a,
				  const struct side *s, int i)
{
	const struct tensor_asked *t = &a->t[i];
	uint64_t own = rows_of(a, i, s->rank, s->size), all = 0, before = 0;
	uint64_t row = t->row * reduce_dtype_bytes(t->dtype);
	int q;

	for (q = 0; q < s->size; q++) {
		before = q == s->rank ? all : before;
		all += rows_of(a, i, q, s->size);
	}
	if (t->elsewhere)
		before = before ? 0 : all - own;
	f->room_bytes[i] = all * row;
	f->room[i] = malloc(all * row + 16);
	return f->room[i] + before * row;
}

/* Memory for one more element than there are, which nobody may touch. */
static void fill(struct in_flight *f, const struct asked *a, const struct side *s)
{
	bool gathers = a->kind == GATHER || a->kind == MANY_GATHERS;
	uint64_t n, k, size;
	int i;

	f->a = *a;
	for (i = 0; i < a->tensors; i++) {
		const struct tensor_asked *t = &a->t[i];

		size = reduce_dtype_bytes(t->dtype);
		n = rows_of(a, i, s->rank, s->size) * t->row;
		f->room[i] = NULL;
		f->room_bytes[i] = 0;
		f->in[i] = gathers && t->in_place ? lay_in_room(f, a, s, i)
						  : malloc((n + 1) * size + 8);
		for (k = 0; k < n + !f->room[i]; k++)
			put(t->dtype, f->in[i], k, value(a, i, s->rank, k));
		f->out[i] = f->in[i];
		f->made[i] = NULL;
		if (!t->in_place) {
			f->out[i] = malloc((n + 1) * size + 8);
			memset(f->out[i], 0x5a, (n + 1) * size);
		} else if (is_scatter(a) && !t->elsewhere) {
			f->out[i] += part_first(t->rows, s->rank, s->size) * t->row * size;
		}
	}
}

static void empty(struct in_flight *f)
{
	int i;

	for (i = 0; i < f->a.tensors; i++) {
		if (!f->a.t[i].in_place)
			free(f->out[i]);
		if (f->made[i] != f->room[i])
			ringup_free(f->made[i]);
		free(f->room[i] ? f->room[i] : f->in[i]);
	}
}

/* ---- judging ---- */

static uint64_t judge_elements(const struct in_flight *f, const struct side *s, const bool *in,
			       int i)
{
	const struct asked *a = &f->a;
	const struct tensor_asked *t = &a->t[i];
	uint64_t first = 0, n = t->rows * t->row, k, bad = 0;

	if (is_scatter(a)) {
		first = part_first(t->rows, s->rank, s->size) * t->row;
		n = part_first(t->rows, s->rank + 1, s->size) * t->row - first;
	}
	for (k = 0; k < n; k++)
		bad += !is_right(a, i, in, s->size, first + k, get(t->dtype, f->out[i], k));
	/* And not one more. */
	if (!t->in_place)
		for (k = 0; k < reduce_dtype_bytes(t->dtype); k++)
			bad += f->out[i][n * reduce_dtype_bytes(t->dtype) + k] != 0x5a;
	return bad;
}

/* Is row @row of @to, which has @rank's from @first on, what it was there? */
static uint64_t judge_rows(const struct asked *a, int i, const unsigned char *made,
			   uint64_t *at, int rank, uint64_t first, uint64_t rows)
{
	enum ringup_dtype t = a->t[i].dtype;
	uint64_t row = a->t[i].row, k, bad = 0;
	unsigned char want[8];

	for (k = first * row; k < (first + rows) * row; k++, ++*at) {
		memset(want, 0, sizeof(want));
		put(t, want, 0, value(a, i, rank, k));
		bad += memcmp(want, made + *at * reduce_dtype_bytes(t),
			      reduce_dtype_bytes(t)) != 0;
	}
	return bad;
}

static uint64_t judge_gathered(const struct in_flight *f, const struct side *s, const bool *in,
			       int i)
{
	const struct asked *a = &f->a;
	uint64_t at = 0, bad = 0, rows, first;
	int q, k;

	for (q = 0; q < s->size; q++) {
		first = 0;
		if (a->kind == EXCHANGE) {
			rows = in[q] ? split_of(a, q, s->rank) : 0;
			for (k = 0; k < s->rank; k++)
				first += split_of(a, q, k);
		} else {
			rows = in[q] ? rows_of(a, i, q, s->size) : 0;
		}
		bad += f->counts[i][q] != rows;
		if (!bad)
			bad += judge_rows(a, i, f->made[i], &at, q, first, rows);
	}
	return bad;
}

static uint64_t judge(const struct in_flight *f, const struct side *s, const bool *in)
{
	const struct asked *a = &f->a;
	uint64_t bad = 0, at = 0;
	int i;

	for (i = 0; i < a->tensors; i++)
		if (a->kind == SPREAD)
			bad += judge_rows(a, 0, f->out[0], &at, a->root, 0, a->t[0].rows);
		else if (has_redop(a))
			bad += judge_elements(f, s, in, i);
		else
			bad += judge_gathered(f, s, in, i);
	return bad;
}

/* Nothing may have been touched. */
static uint64_t judge_refused(const struct in_flight *f, const struct side *s)
{
	const struct asked *a = &f->a;
	uint64_t bad = 0, n, k;
	unsigned char want[8];
	size_t size;
	int i;

	for (i = 0; i < a->tensors; i++) {
		size = reduce_dtype_bytes(a->t[i].dtype);
		n = rows_of(a, i, s->rank, s->size) * a->t[i].row;
		for (k = 0; k < n; k++) {
			memset(want, 0x5a, sizeof(want));
			if (a->t[i].in_place)
				put(a->t[i].dtype, want, 0, value(a, i, s->rank, k));
			bad += memcmp(want,
				      (a->t[i].in_place ? f->in[i] : f->out[i]) + k * size,
				      size) != 0;
		}
		bad += f->made[i] != NULL;
	}
	return bad;
}

static const char *const kind_names[] = { "reduce",         "many reduced", "scatter",
					  "many scattered", "gather",       "many gathered",
					  "broadcast",      "exchange",     "barrier" };

static void tell(const struct in_flight *f, const struct side *s, int rc, uint64_t bad)
{
	const struct asked *a = &f->a;
	int i;

	printf("# %s '%s' in group %d, rank %d of %d, odd %d, root %d: %d, %llu wrong\n",
	       kind_names[a->kind], f->name, a->group, s->rank, s->size, a->odd, a->root, rc,
	       (unsigned long long)bad);
	for (i = 0; i < a->tensors; i++)
		printf("#   %llu rows of %llu %s, %s, scaled by %g and %g\n",
		       (unsigned long long)a->t[i].rows, (unsigned long long)a->t[i].row,
		       reduce_dtype_name(a->t[i].dtype), reduce_redop_name(a->t[i].redop),
		       a->t[i].pre, a->t[i].post);
}

/* Who has joined can neither give what only he has, nor be 1 when that is doubled. */
static bool is_impossible(const struct asked *a, const bool *in, int n)
{
	bool all = true;
	int i;

	for (i = 0; i < n; i++)
		all &= in[i];
	for (i = 0; i < a->tensors && has_redop(a) && !all; i++)
		if (a->t[i].redop == RINGUP_PRODUCT && !is_floating(a->t[i].dtype) &&
		    a->t[i].dtype != RINGUP_BOOL && fabs(a->t[i].pre) >= 2 &&
		    a->t[i].rows * a->t[i].row > 0)
			return true;
	return a->kind == SPREAD && !in[a->root];
}

static void land(struct in_flight *f, const struct side *s, const bool *in, int rc, int rank)
{
	const struct asked *a = &f->a;
	const char *name = *f->name ? f->name : "one without a name";
	const char *says = is_bundle(a) && a->odd < 0 ? " has joined, " : " wants a";
	uint64_t bad;

	if (a->odd < 0 && !is_impossible(a, in, s->size))
		bad = rc ? 1 : judge(f, s, in);
	else
		bad = rc != RINGUP_EMISMATCH || !strstr(ringup_error(), says) ||
		      strncmp(ringup_error(), name, strlen(name)) != 0 || judge_refused(f, s);
	if (bad)
		tell(f, s, rc, bad);
	check(!bad, "an operation by lot", rank);
	empty(f);
}

/* ---- rounds ---- */

static void shuffle(int *order, int n, struct lots *own)
{
	int i, k, x;

	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = n - 1; i > 0; i--) {
		k = draw(own, i + 1);
		x = order[i];
		order[i] = order[k];
		order[k] = x;
	}
}

/* What a job is doing, the same on all ranks but for the first and the last three. */
struct job {
	int rank, size;
	struct side side[GROUPS];
	struct asked pool[NAMES];
	struct lots lots;
	int quota[GROUPS][RANKS_MAX]; /* rounds that each takes part in before it joins */
	int round;
	struct lots own;
	uint64_t digest[ROUNDS]; /* of what sums gave this rank */
	struct in_flight in_flight[FLYING];
};

/* Who takes part in what group @g does? */
static int who(const struct job *j, int g, bool *in)
{
	int r, n = 0;

	for (r = 0; r < j->side[g].size; r++) {
		in[r] = j->round < j->quota[g][r];
		n += in[r];
	}
	return n;
}

static void note(struct job *j, const struct in_flight *f, const bool *in)
{
	const struct asked *a = &f->a;
	uint64_t k, d = 0;
	int i;

	if (a->kind > MANY || a->group || a->odd >= 0 || is_impossible(a, in, j->size))
		return;
	for (i = 0; i < a->tensors; i++)
		for (k = 0; k < a->t[i].rows * a->t[i].row * reduce_dtype_bytes(a->t[i].dtype);
		     k++)
			d = d * 31 + f->out[i][k];
	/* Each rank comes by them in an order of its own. */
	j->digest[j->round] += mix(d + (uint64_t)a->name);
}

static void launch(struct job *j, struct in_flight *f, const struct asked *a, bool named,
		   struct ringup_op **opp, int *rc)
{
	const struct side *s = &j->side[a->group];
	struct lots lots = { a->seed };
	struct asked b = *a;

	if (a->odd == s->rank)
		twist(&b, &lots);
	snprintf(f->name, sizeof(f->name), "any/%d", a->name);
	if (!named)
		*f->name = 0;
	fill(f, &b, s);
	*rc = ask(f, s, opp);
}

/* In one of the ways that there are. */
static int await(struct job *j, struct ringup_op *op)
{
	int rc, way = draw(&j->own, 4);

	while (way == 0 && !ringup_poll(op))
		sched_yield();
	do
		rc = ringup_wait(op, way == 1 ? 1 : -1);
	while (way == 1 && rc == RINGUP_ETIMEDOUT);
	return rc;
}

/* In an order of this rank's own. */
static void fly(struct job *j, const struct asked *now)
{
	int order[FLYING], i, rc;
	bool in[RANKS_MAX];

	shuffle(order, FLYING, &j->own);
	for (i = 0; i < FLYING; i++) {
		const struct asked *a = &now[order[i]];
		struct in_flight *f = &j->in_flight[order[i]];

		f->op = NULL;
		who(j, a->group, in);
		if (j->side[a->group].rank < 0 || !in[j->side[a->group].rank])
			continue;
		launch(j, f, a, true, &f->op, &rc);
		check(!rc, "submit", j->rank);
	}
	shuffle(order, FLYING, &j->own);
	for (i = 0; i < FLYING; i++) {
		struct in_flight *f = &j->in_flight[order[i]];

		if (!f->op)
			continue;
		who(j, f->a.group, in);
		rc = await(j, f->op);
		note(j, f, in);
		land(f, &j->side[f->a.group], in, rc, j->rank);
	}
}

/* One after the other, without names. */
static void walk(struct job *j, const struct asked *now)
{
	bool in[RANKS_MAX];
	int i, rc;

	for (i = 0; i < FLYING; i++) {
		const struct asked *a = &now[i];

		who(j, a->group, in);
		if (j->side[a->group].rank < 0 || !in[j->side[a->group].rank])
			continue;
		launch(j, &j->in_flight[0], a, i % 2, NULL, &rc);
		note(j, &j->in_flight[0], in);
		land(&j->in_flight[0], &j->side[a->group], in, rc, j->rank);
	}
}

static void draw_round(struct job *j, struct asked *now)
{
	int order[NAMES], i;
	bool in[RANKS_MAX];

	shuffle(order, NAMES, &j->lots);
	for (i = 0; i < FLYING; i++) {
		struct asked *a = &j->pool[order[i]];

		/* Mostly the same again, with other values. */
		if (!a->seed || !draw(&j->lots, 4))
			draw_asked(&j->lots, a, order[i], j->side);
		a->seed = mix(++j->lots.at);
		now[i] = *a;
		now[i].odd = draw(&j->lots, 8) ? -1 : draw(&j->lots, j->side[a->group].size);
		if (who(j, a->group, in) < 2 || (now[i].odd >= 0 && !in[now[i].odd]))
			now[i].odd = -1;
	}
}

/* Results of a sum have the same bits on all ranks that took part. */
static void compare_digests(const struct job *j)
{
	uint64_t *all, counts[RANKS_MAX];
	int round, r, first;
	struct ringup_gather mine = ASK_GATHER("digests", j->digest, sizeof(j->digest), 1,
					       (void **)&all, counts, .dtype = RINGUP_U8);

	if (ringup_allgather(j->side[0].group, &mine, NULL)) {
		check(0, "digests", j->rank);
		return;
	}
	for (round = 0; round < ROUNDS; round++) {
		first = -1;
		for (r = 0; r < j->size; r++) {
			if (round >= j->quota[0][r])
				continue;
			first = first < 0 ? r : first;
			if (all[r * ROUNDS + round] != all[first * ROUNDS + round])
				check(0, "equal bits on all ranks", r);
		}
	}
	ringup_free(all);
}

/* Those of this rank's groups in which it comes to its end before round @now. */
static void join(struct job *j, int now, int *last, struct ringup_op **ops)
{
	int g;

	for (g = 0; g < GROUPS; g++) {
		const struct side *s = &j->side[g];

		if (s->rank >= 0 && j->quota[g][s->rank] == now)
			check(!ringup_join(s->group, &last[g], &ops[g]), "join", j->rank);
	}
}

static void wait_for_joins(const struct job *j, const int *last, struct ringup_op **ops)
{
	int g;

	for (g = 0; g < GROUPS; g++) {
		/* None was made once the job had failed. */
		if (j->side[g].rank < 0 || !ops[g])
			continue;
		check(!ringup_wait(ops[g], -1), "all have joined", j->rank);
		check(last[g] >= 0 && last[g] < j->side[g].size, "one was the last", j->rank);
	}
}

/* @joining: ranks come to their ends one after the other, in each group at another time. */
static void play(struct job *j, bool joining)
{
	struct asked now[FLYING];
	struct ringup_op *joins[GROUPS] = { NULL };
	int g, r, last[GROUPS] = { -1, -1, -1, -1 };

	for (g = 0; g < GROUPS; g++)
		for (r = 0; r < j->side[g].size; r++)
			j->quota[g][r] = joining ? draw(&j->lots, ROUNDS + 1) : ROUNDS;
	for (j->round = 0; j->round < ROUNDS; j->round++) {
		j->digest[j->round] = 0;
		join(j, j->round, last, joins);
		draw_round(j, now);
		/* What is not in flight at once has to come in one order. */
		if (j->round % 4 == 3)
			walk(j, now);
		else
			fly(j, now);
	}
	if (joining) {
		join(j, ROUNDS, last, joins);
		wait_for_joins(j, last, joins);
	}
	compare_digests(j);
}

static void add_side(struct job *j, struct ringup *r, int g)
{
	struct side *s = &j->side[g];
	int i;

	s->size = 0;
	for (i = 0; i < j->size; i++)
		if (g == 0 || g == 3 || (g == 1 && i % 2 == 0) ||
		    (g == 2 && (i == 0 || i == j->size - 1)))
			s->members[s->size++] = i;
	if (g)
		check(!ringup_group_add(r, s->members, s->size, &s->group), "add", j->rank);
	else
		s->group = ringup_world(r);
	s->rank = ringup_rank(s->group);
}

static uint64_t seed;

static void any(struct ringup *r, int rank, int size)
{
	struct job *j = calloc(1, sizeof(*j));
	int g;

	j->rank = rank;
	j->size = size;
	j->lots.at = mix(seed);
	j->own.at = mix(seed + 1 + (uint64_t)rank);
	for (g = 0; g < GROUPS; g++)
		add_side(j, r, g);
	play(j, false);
	play(j, true);
	for (g = 1; g < GROUPS; g++)
		check(!ringup_group_remove(j->side[g].group), "remove", rank);
	free(j);
}

static void all(const char *where, int least, int most)
{
	char what[64];
	int size;

	snprintf(what, sizeof(what), "anything%s, lot %llu", where, (unsigned long long)seed);
	for (size = least; size <= most; size++)
		run(what, size, any);
}

/* One rank of a job of processes: so many lots, and what is wrong with them. */
static int launched(uint64_t first, uint64_t lots)
{
	struct ringup *r = NULL;
	struct ringup_group *world;

	alarm(250);
	if (ringup_init(NULL, &r)) {
		fprintf(stderr, "%s\n", ringup_error());
		return 1;
	}
	world = ringup_world(r);
	for (seed = first; seed < first + lots; seed++)
		any(r, ringup_rank(world), ringup_size(world));
	printf("rank %d of %d, %s: %llu lots from %llu on, %d wrong\n", ringup_rank(world),
	       ringup_size(world), ringup_backend(world), (unsigned long long)lots,
	       (unsigned long long)first, wrong);
	ringup_fini(r);
	return wrong != 0;
}

/* test_any [LOT [LOTS]] - the first lot; what fails says which.  A process that has been
 * launched as a rank of a job is that rank. */
int main(int argc, char **argv)
{
	bool is_long = rounds_are_long();
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	int turn;

	if (getenv("RINGUP_RANK"))
		return launched(first, argc > 2 ? strtoull(argv[2], NULL, 0) : 1);
	for (turn = 0; turn < (is_long ? 40 : 1); turn++) {
		seed = first + (uint64_t)turn;
		all("", ROUNDS_SANITIZED ? 3 : 1, ROUNDS_SANITIZED ? 3 : 5);
		setenv("RINGUP_BACKEND", "tcp", 1);
		all(" between hosts", ROUNDS_SANITIZED ? 3 : 2, 3);
		unsetenv("RINGUP_BACKEND");
	}
	return tap_done();
}
