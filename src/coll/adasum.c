/* adasum.c - Adasum: add gradients so that their common direction counts once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/adasum.h"

#include <stdbool.h>

#include "coll/copy.h"
#include "coll/reduce.h"

/* Elements widened to f64 at a time, and parallel partial sums.  Both determine the
 * order of additions, so they are the same on all processors. */
enum { BLOCK = 512, LANES = 8 };

/* Results that wait for their partner: at most one of 2^k vectors for each k. */
enum { DEPTH = 32 };

/* A vector: one of the ranks', or the combination of some. */
struct part {
	const void *at;
	enum ringup_dtype dtype;
	uint32_t of; /* number of ranks combined */
};

struct products {
	double ab[LANES], aa[LANES], bb[LANES];
};

static enum ringup_dtype work_dtype(enum ringup_dtype dtype)
{
	return dtype == RINGUP_F64 ? RINGUP_F64 : RINGUP_F32;
}

size_t adasum_scratch_bytes(enum ringup_dtype dtype, int n, uint64_t count)
{
	size_t vectors = 0, bytes;

	while (n >> vectors > 1)
		vectors++;
	if (__builtin_mul_overflow(count, vectors * reduce_dtype_bytes(work_dtype(dtype)),
				   &bytes))
		return SIZE_MAX;
	return bytes;
}

/* @n elements from @first on, in f64. */
static void load(double *to, const struct part *p, uint64_t first, size_t n)
{
	const unsigned char *at =
		(const unsigned char *)p->at + first * reduce_dtype_bytes(p->dtype);
	float widened[BLOCK];
	const float *f = widened;

	if (p->dtype == RINGUP_F64) {
		copy_bytes(to, at, n * sizeof(*to));
		return;
	}
	if (reduce_is_half(p->dtype))
		reduce_widen(p->dtype, widened, at, n);
	else
		f = (const float *)(const void *)at;
	for (size_t i = 0; i < n; i++)
		to[i] = f[i];
}

static void multiply(struct products *s, const double *a, const double *b, size_t n)
{
	struct products t = *s; /* which nothing else can point to */
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++) {
			t.ab[k] += a[i + k] * b[i + k];
			t.aa[k] += a[i + k] * a[i + k];
			t.bb[k] += b[i + k] * b[i + k];
		}
	for (size_t k = 0; i < n; i++, k++) {
		t.ab[k] += a[i] * b[i];
		t.aa[k] += a[i] * a[i];
		t.bb[k] += b[i] * b[i];
	}
	*s = t;
}

static double total(const double *s)
{
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* The factor of a vector, by its @square and its dot product with the other, @product. */
static double share(double product, double square)
{
	return square >= 0x1p-511 ? 1 - product / square * 0.5 : 1;
}

static void store(enum ringup_dtype dtype, void *out, uint64_t first, const double *x, size_t n)
{
	float *f = (float *)out + first;

	if (dtype == RINGUP_F64)
		copy_bytes((double *)out + first, x, n * sizeof(*x));
	else
		for (size_t i = 0; i < n; i++)
			f[i] = (float)x[i];
}

/* @a and @b into @out, which may be @a's memory. */
static struct part merge(const struct part *a, const struct part *b, void *out, uint64_t count)
{
	struct part sum = { out, work_dtype(a->dtype), a->of + b->of };
	struct products s = { 0 };
	double x[BLOCK], y[BLOCK], p, q;
	size_t n;

	for (uint64_t first = 0; first < count; first += n) {
		n = count - first < BLOCK ? count - first : BLOCK;
		load(x, a, first, n);
		load(y, b, first, n);
		multiply(&s, x, y, n);
	}
	p = share(total(s.ab), total(s.aa));
	q = share(total(s.ab), total(s.bb));
	for (uint64_t first = 0; first < count; first += n) {
		n = count - first < BLOCK ? count - first : BLOCK;
		load(x, a, first, n);
		load(y, b, first, n);
		for (size_t i = 0; i < n; i++)
			x[i] = p * x[i] + q * y[i];
		store(sum.dtype, out, first, x, n);
	}
	return sum;
}

/*
 * Results of equally many ranks are merged, like the digits of a binary counter, so
 * few wait at any time; at the end the rest are merged, the last ones first.  Vector
 * k of the scratch holds the result that waits in place k.
 */
void adasum(enum ringup_dtype dtype, void *out, const void *blocks, int n, uint64_t count,
	    void *scratch)
{
	size_t size = reduce_dtype_bytes(dtype);
	size_t stride = count * reduce_dtype_bytes(work_dtype(dtype));
	struct part waits[DEPTH + 1];
	int k = 0;

	for (int r = 0; r < n; r++) {
		const unsigned char *block =
			(const unsigned char *)blocks + (size_t)r * count * size;

		waits[k++] = (struct part){ block, dtype, 1 };
		while (k > 1 && (waits[k - 2].of == waits[k - 1].of || r == n - 1)) {
			waits[k - 2] = merge(
				&waits[k - 2], &waits[k - 1],
				(unsigned char *)scratch + (size_t)(k - 2) * stride, count);
			k--;
		}
	}
	if (reduce_is_half(dtype) && n > 1)
		reduce_narrow(dtype, out, scratch, count);
	else
		copy_bytes(out, n > 1 ? scratch : blocks, count * size);
}
