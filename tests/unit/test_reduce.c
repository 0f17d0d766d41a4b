/* test_reduce.c - all types, operations and shapes against a plain reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/kinds.h"
#include "coll/copy.h"
#include "coll/loops.h"
#include "coll/reduce.h"
#include "half.h"
#include "tap.h"

enum { MAX = 5000, MAX_SRC = 9, MAX_DST = 4, CASES = 24, OFFSETS = 16 };

/* One element in the widest type that holds it exactly. */
union value {
	int64_t i;
	double f;
};

static bool is_float(enum ringup_dtype t)
{
	return t == RINGUP_F16 || t == RINGUP_BF16 || t == RINGUP_F32 || t == RINGUP_F64;
}

static union value get(enum ringup_dtype t, const void *at)
{
	union value v = { 0 };
	uint16_t h;

	switch (t) {
	case RINGUP_U8:
		v.i = *(const uint8_t *)at;
		break;
	case RINGUP_I8:
		v.i = *(const int8_t *)at;
		break;
	case RINGUP_U16:
		v.i = *(const uint16_t *)at;
		break;
	case RINGUP_I16:
		v.i = *(const int16_t *)at;
		break;
	case RINGUP_BOOL:
		v.i = *(const uint8_t *)at ? 1 : 0;
		break;
	case RINGUP_I32:
		v.i = *(const int32_t *)at;
		break;
	case RINGUP_I64:
		v.i = *(const int64_t *)at;
		break;
	case RINGUP_F32:
		v.f = *(const float *)at;
		break;
	case RINGUP_F64:
		v.f = *(const double *)at;
		break;
	default:
		memcpy(&h, at, sizeof(h));
		v.f = t == RINGUP_F16 ? meaning(h, 5, 10) : meaning(h, 8, 7);
	}
	return v;
}

static void put(enum ringup_dtype t, void *at, union value v)
{
	float f = (float)v.f;
	uint16_t h;

	switch (t) {
	case RINGUP_U8:
		*(uint8_t *)at = (uint8_t)v.i;
		break;
	case RINGUP_I8:
		*(int8_t *)at = (int8_t)v.i;
		break;
	case RINGUP_U16:
		*(uint16_t *)at = (uint16_t)v.i;
		break;
	case RINGUP_I16:
		*(int16_t *)at = (int16_t)v.i;
		break;
	case RINGUP_BOOL:
		*(uint8_t *)at = (uint8_t)v.i;
		break;
	case RINGUP_I32:
		*(int32_t *)at = (int32_t)v.i;
		break;
	case RINGUP_I64:
		*(int64_t *)at = v.i;
		break;
	case RINGUP_F32:
		*(float *)at = f;
		break;
	case RINGUP_F64:
		*(double *)at = v.f;
		break;
	default:
		h = (uint16_t)(t == RINGUP_F16 ? nearest(f, 5, 10) : nearest(f, 8, 7));
		memcpy(at, &h, sizeof(h));
	}
}

/* Wrap, or round, to the type in which the operation is carried out. */
static union value settle(enum ringup_dtype t, union value v)
{
	union value r = v;

	if (t == RINGUP_F64)
		return r;
	if (is_float(t)) {
		r.f = (float)v.f;
		return r;
	}
	r.i = t == RINGUP_U8    ? (uint8_t)v.i
	      : t == RINGUP_I8  ? (int8_t)v.i
	      : t == RINGUP_U16 ? (uint16_t)v.i
	      : t == RINGUP_I16 ? (int16_t)v.i
	      : t == RINGUP_I32 ? (int32_t)v.i
				: v.i;
	return r;
}

static union value combine(enum ringup_dtype t, enum ringup_redop op, union value a,
			   union value b)
{
	union value r = a;
	uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i;

	if (t == RINGUP_BOOL) {
		r.i = op == RINGUP_MIN || op == RINGUP_PRODUCT ? a.i && b.i : a.i || b.i;
		return r;
	}
	switch (op) {
	case RINGUP_MIN:
		if (is_float(t))
			r.f = isnan(a.f) || a.f < b.f ? a.f : b.f;
		else
			r.i = a.i < b.i ? a.i : b.i;
		break;
	case RINGUP_MAX:
		if (is_float(t))
			r.f = isnan(a.f) || a.f > b.f ? a.f : b.f;
		else
			r.i = a.i > b.i ? a.i : b.i;
		break;
	case RINGUP_PRODUCT:
		if (is_float(t))
			r.f = a.f * b.f;
		else
			r.i = (int64_t)(x * y);
		break;
	default:
		if (is_float(t))
			r.f = a.f + b.f;
		else
			r.i = (int64_t)(x + y);
	}
	return settle(t, r);
}

static union value end(const struct reduce *how, union value v)
{
	double post = how->post == 0 ? 1 : how->post;

	if (is_float(how->dtype)) {
		if (how->redop == RINGUP_AVERAGE) {
			v.f /= how->divisor;
			v = settle(how->dtype, v);
		}
		v.f *= how->dtype == RINGUP_F64 ? post : (double)(float)post;
		return settle(how->dtype, v);
	}
	if (how->dtype == RINGUP_BOOL)
		return v;
	if (how->redop == RINGUP_AVERAGE) /* by another way than the code's */
		v.i = (int64_t)truncl((long double)v.i / how->divisor);
	if (post != 1)
		v.i = (int64_t)trunc((double)v.i * post);
	return v;
}

static bool same(enum ringup_dtype t, const void *a, const void *b)
{
	if (!memcmp(a, b, reduce_dtype_bytes(t)))
		return true;
	return is_float(t) && isnan(get(t, a).f) && isnan(get(t, b).f);
}

/* Half of them any bits at all: NaN, infinities, denormals; the others near each other. */
static void fill(enum ringup_dtype t, unsigned char *at, size_t n, bool wild)
{
	size_t i, size = reduce_dtype_bytes(t);

	for (i = 0; i < n * size; i++)
		at[i] = (unsigned char)(rand() >> 7);
	for (i = 0; i < n; i++) {
		union value v = { 0 };

		if (wild && rand() % 2)
			continue;
		if (is_float(t))
			v.f = (rand() % 2001 - 1000) / 8.0;
		else
			v.i = t == RINGUP_BOOL  ? rand() % 9 / 5
			      : t == RINGUP_U8  ? rand() % 9
			      : t == RINGUP_U16 ? rand() % 9999
						: rand() % 21 - 10;
		put(t, at + i * size, v);
	}
}

struct shape {
	size_t count;
	int nsrc, ndst;
	size_t src_at[MAX_SRC], dst_at[MAX_DST]; /* offsets in elements */
	int in_place[MAX_DST];                   /* the source it is, or -1 */
};

static struct shape random_shape(void)
{
	struct shape s = { 0 };
	int i;

	s.count = (size_t)(rand() % 3 ? rand() % 70 : rand() % (MAX + 1));
	s.nsrc = 1 + rand() % MAX_SRC;
	s.ndst = 1 + rand() % MAX_DST;
	if (rand() % 3 == 0)
		s.nsrc = 2;
	for (i = 0; i < s.nsrc; i++)
		s.src_at[i] = (size_t)(rand() % OFFSETS);
	for (i = 0; i < s.ndst; i++) {
		s.dst_at[i] = (size_t)(rand() % OFFSETS);
		s.in_place[i] = i < s.nsrc && rand() % 2 ? s.nsrc - 1 - i : -1;
	}
	return s;
}

static _Alignas(64) unsigned char from[MAX_SRC][(MAX + OFFSETS) * 8];
static _Alignas(64) unsigned char work[MAX_SRC][(MAX + OFFSETS) * 8];
static _Alignas(64) unsigned char into[MAX_DST][(MAX + 2 * OFFSETS) * 8];
static _Alignas(64) unsigned char want[MAX * 8];

enum form { MANY, PAST, FORMS };

static bool is_wanted(const struct reduce *how, const unsigned char *d, size_t count)
{
	size_t size = reduce_dtype_bytes(how->dtype), j;

	for (j = 0; j < count; j++)
		if (!same(how->dtype, d + j * size, want + j * size))
			return false;
	return true;
}

static bool run(const struct reduce *how, const struct shape *s, enum form form)
{
	size_t size = reduce_dtype_bytes(how->dtype);
	const void *src[MAX_SRC];
	void *dst[MAX_DST];
	bool good = true;
	int i;

	memcpy(work, from, sizeof(work));
	memset(into, 0xa5, sizeof(into));
	for (i = 0; i < s->nsrc; i++)
		src[i] = work[i] + s->src_at[i] * size;
	for (i = 0; i < s->ndst; i++) {
		dst[i] = into[i] + s->dst_at[i] * size;
		if (s->in_place[i] >= 0)
			dst[i] = work[s->in_place[i]] + s->src_at[s->in_place[i]] * size;
	}
	if (form == PAST)
		reduce_streaming(how, dst, s->ndst, 1 + rand() % s->ndst, src, s->nsrc,
				 s->count);
	else
		reduce_many(how, dst, s->ndst, src, s->nsrc, s->count);
	copy_settle();
	for (i = 0; i < s->ndst; i++) {
		unsigned char *d = dst[i];

		good &= is_wanted(how, d, s->count);
		if (s->in_place[i] < 0 && d[s->count * size] != 0xa5)
			good = false;
	}
	if (!good)
		printf("# %s: %zu elements, %d sources, %d destinations, post %g, by %u\n",
		       loops_best()->name, s->count, s->nsrc, s->ndst, how->post, how->divisor);
	return good;
}

static void expect(const struct reduce *how, const struct shape *s)
{
	size_t size = reduce_dtype_bytes(how->dtype), j;
	int i;

	for (j = 0; j < s->count; j++) {
		union value v = get(how->dtype, from[0] + (s->src_at[0] + j) * size);

		for (i = 1; i < s->nsrc; i++)
			v = combine(how->dtype, how->redop, v,
				    get(how->dtype, from[i] + (s->src_at[i] + j) * size));
		put(how->dtype, want + j * size, end(how, v));
	}
}

static bool agrees(enum ringup_dtype t, enum ringup_redop op)
{
	bool good = true;
	int c, i;

	for (c = 0; c < CASES; c++) {
		struct shape s = random_shape();
		struct reduce how = { t, op, (uint32_t)s.nsrc, c % 4 ? 0 : 0.25 };
		enum form f;

		if (c % 5 == 1)
			how.post = 1;
		for (i = 0; i < s.nsrc; i++)
			fill(t, from[i] + s.src_at[i] * reduce_dtype_bytes(t), s.count, c % 2);
		expect(&how, &s);
		for (i = 0; loops_all[i]; i++) {
			if (!loops_all[i]->runs())
				continue;
			loops_use(loops_all[i]);
			for (f = MANY; f < FORMS; f++)
				good &= run(&how, &s, f);
		}
		loops_use(NULL);
	}
	return good;
}

/* More than reduce_streaming() takes bit by bit. */
static void past_of_many(void)
{
	enum { SOURCES = REDUCE_PAST + 1, COUNT = 3000 };
	struct reduce sum = { RINGUP_I32, RINGUP_SUM, 0, 0 };
	static int32_t one[COUNT], r[COUNT], other[COUNT];
	const void *src[SOURCES];
	void *dst[] = { r, other };
	int i, good = 1;

	for (i = 0; i < COUNT; i++)
		one[i] = i;
	for (i = 0; i < SOURCES; i++)
		src[i] = one;
	reduce_streaming(&sum, dst, 2, 1, src, SOURCES, COUNT);
	copy_settle();
	for (i = 0; i < COUNT; i++)
		good &= r[i] == i * SOURCES && other[i] == r[i];
	ok(good, "a sum of %d", (int)SOURCES);
}

static void known_answers(void)
{
	int32_t a[] = { -7, 7, INT32_MAX }, b[] = { 0, 0, 1 }, r[3];
	float inf[] = { INFINITY, 1, NAN, 1e-45f, 3e38f };
	float one[] = { -INFINITY, NAN, 1, 1e-45f, 3e38f }, f[5];
	float third[3] = { 0.1f, 0.1f, 0.1f };
	uint16_t h[] = { 0x3c00 }, tiny[] = { 0x1000 }, g[1]; /* 1 and 2^-11 */
	const void *ints[] = { a, b }, *floats[] = { inf, one }, *halves[] = { h, tiny, tiny };
	const void *thirds[] = { third, third, third };
	struct reduce average = { RINGUP_I32, RINGUP_AVERAGE, 2, 0 };
	struct reduce sum = { RINGUP_F32, RINGUP_SUM, 0, 0 };
	struct reduce half = { RINGUP_F16, RINGUP_SUM, 0, 0 };
	struct reduce mean = { RINGUP_F32, RINGUP_AVERAGE, 3, 0 };
	void *d = r;

	reduce_many(&average, &d, 1, ints, 2, 3);
	ok(r[0] == -3 && r[1] == 3 && r[2] == -0x40000000,
	   "integers wrap, and an average loses its fraction");
	d = f;
	reduce_many(&sum, &d, 1, floats, 2, 5);
	ok(isnan(f[0]) && isnan(f[1]) && isnan(f[2]) && f[3] == 3e-45f && isinf(f[4]),
	   "NaN, denormals and overflow in a sum");
	sum.redop = RINGUP_MAX;
	reduce_many(&sum, &d, 1, floats, 2, 5);
	ok(isinf(f[0]) && f[0] > 0 && isnan(f[1]) && isnan(f[2]), "NaN wins a maximum");
	reduce_many(&mean, &d, 1, thirds, 3, 3);
	ok(f[0] == 0.1f, "the average of three equal numbers is that number");
	d = g;
	reduce_many(&half, &d, 1, halves, 3, 1);
	ok(g[0] == 0x3c01, "f16 is rounded once, at the end");
}

int main(void)
{
	int t, op, i;

	for (i = 0; loops_all[i]; i++)
		if (!loops_all[i]->runs())
			printf("ok %d - %s # SKIP not on this processor\n", ++tap_count,
			       loops_all[i]->name);
	for (t = 0; t < DTYPE_COUNT; t++)
		for (op = 0; op < REDUCE_OPS; op++) {
			if (t == RINGUP_BOOL && op == RINGUP_AVERAGE)
				continue;
			ok(agrees((enum ringup_dtype)t, (enum ringup_redop)op), "%s %s",
			   reduce_dtype_name((enum ringup_dtype)t),
			   reduce_redop_name((enum ringup_redop)op));
		}
	known_answers();
	past_of_many();
	ok(reduce_dtype_bytes(RINGUP_BF16) == 2 &&
		   reduce_dtype_bytes((enum ringup_dtype)99) == 0,
	   "sizes");
	ok(!strcmp(reduce_dtype_name((enum ringup_dtype) - 1), "?"), "no such type");
	return tap_done();
}
