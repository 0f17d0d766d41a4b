/* test_adasum.c - against the definition, in pairs; the same bits everywhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/adasum.h"
#include "coll/loops.h"
#include "coll/reduce.h"
#include "tap.h"

enum { RANKS = 17, COUNT = 1500 };

static const enum ringup_dtype types[] = { RINGUP_F16, RINGUP_BF16, RINGUP_F32, RINGUP_F64 };
static uint64_t state;

/* -1 to 1, in steps that every type holds; the same on every machine. */
static double some(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(state >> 56) - 128) / 128;
}

static double get(enum ringup_dtype t, const void *at, size_t i)
{
	float f;

	if (t == RINGUP_F64)
		return ((const double *)at)[i];
	if (t == RINGUP_F32)
		return ((const float *)at)[i];
	reduce_widen(t, &f, (const uint16_t *)at + i, 1);
	return f;
}

static void put(enum ringup_dtype t, void *at, size_t i, double x)
{
	float f = (float)x;

	if (t == RINGUP_F64)
		((double *)at)[i] = x;
	else if (t == RINGUP_F32)
		((float *)at)[i] = f;
	else
		reduce_narrow(t, (uint16_t *)at + i, &f, 1);
}

static void pair(double *a, const double *b, size_t count)
{
	double ab = 0, aa = 0, bb = 0, p = 1, q = 1;
	size_t i;

	for (i = 0; i < count; i++) {
		ab += a[i] * b[i];
		aa += a[i] * a[i];
		bb += b[i] * b[i];
	}
	if (aa > 0)
		p = 1 - ab / (2 * aa);
	if (bb > 0)
		q = 1 - ab / (2 * bb);
	for (i = 0; i < count; i++)
		a[i] = p * a[i] + q * b[i];
}

/* By levels: neighbours meet until one is left. */
static void reference(double (*v)[COUNT], int n, size_t count)
{
	int i, m;

	for (; n > 1; n = m) {
		for (m = 0, i = 0; i < n; i += 2, m++) {
			memmove(v[m], v[i], sizeof(v[m]));
			if (i + 1 < n)
				pair(v[m], v[i + 1], count);
		}
	}
}

static unsigned char blocks[RANKS * COUNT * 8], before[RANKS * COUNT * 8], out[COUNT * 8];
static double want[RANKS][COUNT];

/* Scratch of exactly the size that is asked for, so that a checker sees beyond. */
static void combine(enum ringup_dtype t, int n, size_t count)
{
	void *scratch = malloc(adasum_scratch_bytes(t, n, count));

	adasum(t, out, blocks, n, count, scratch);
	free(scratch);
}

static int is_right(enum ringup_dtype t, int n, size_t count)
{
	double bound = t == RINGUP_F64   ? 1e-12
		       : t == RINGUP_F32 ? 1e-5
		       : t == RINGUP_F16 ? 4e-3
					 : 4e-2;
	size_t i;
	int r, good;

	for (r = 0; r < n; r++)
		for (i = 0; i < count; i++) {
			/* Gradients resemble each other; one of them is zero. */
			double x = r == 2 ? 0 : some() / 2 + (double)(i % 7) / 16;

			put(t, blocks, (size_t)r * count + i, x);
			want[r][i] = get(t, blocks, (size_t)r * count + i);
		}
	memcpy(before, blocks, sizeof(before));
	memset(out, 0xa5, sizeof(out));
	combine(t, n, count);
	reference(want, n, count);
	good = !memcmp(before, blocks, sizeof(before));
	for (i = 0; good && i < count; i++)
		good = fabs(get(t, out, i) - want[0][i]) <= bound;
	for (i = count * reduce_dtype_bytes(t); i < sizeof(out); i++)
		good &= out[i] == 0xa5;
	if (!good)
		printf("# %d vectors of %zu\n", n, count);
	return good;
}

static uint64_t fingerprint(enum ringup_dtype t, int n)
{
	uint64_t h = 14695981039346656037u;
	size_t i;

	state = 7;
	for (i = 0; i < (size_t)n * COUNT; i++)
		put(t, blocks, i, some());
	combine(t, n, COUNT);
	for (i = 0; i < COUNT * reduce_dtype_bytes(t); i++)
		h = (h ^ out[i]) * 1099511628211u;
	return h;
}

static void known_answers(void)
{
	float *v = (float *)(void *)blocks, *o = (float *)(void *)out;

	memcpy(v, (float[]){ 3, 0, 0, 4 }, 16);
	combine(RINGUP_F32, 2, 2);
	ok(o[0] == 3 && o[1] == 4, "vectors at right angles are added");
	memcpy(v, (float[]){ 3, 4, 3, 4, 3, 4 }, 24);
	combine(RINGUP_F32, 3, 2);
	ok(o[0] == 3 && o[1] == 4, "of equal ones one is left");
	memcpy(v, (float[]){ 0, 0, 3, 4 }, 16);
	combine(RINGUP_F32, 2, 2);
	ok(o[0] == 3 && o[1] == 4, "zero changes nothing");
	memcpy(v, (float[]){ 1, 2, 2, 4 }, 16);
	combine(RINGUP_F32, 2, 2);
	ok(o[0] == 1.5f && o[1] == 3, "of parallel ones the average is taken");
	memcpy(v, (float[]){ NAN, 0, 1, 1 }, 16);
	combine(RINGUP_F32, 2, 2);
	ok(isnan(o[0]), "what is no number shows");
	combine(RINGUP_F32, 2, 0);
	ok(isnan(o[0]), "nothing is nothing");
}

int main(void)
{
	/* As gcc and clang for x86-64 and arm64 have them. */
	static const uint64_t bits[] = { 0x8de891ce30842563, 0xda27f8d3d22acbbe,
					 0x8f46cd03c7cf03af, 0xf7a088103e47dfc4 };
	size_t k;
	int n, good, i;

	for (k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
		for (good = 1, n = 1; n <= RANKS; n++)
			good &= is_right(types[k], n, COUNT) & is_right(types[k], n, 1) &
				is_right(types[k], n, 511 + (size_t)n % 5);
		ok(good, "%s: 1 to %d vectors", reduce_dtype_name(types[k]), RANKS);
		for (good = 1, i = 0; loops_all[i]; i++) {
			if (!loops_all[i]->runs())
				continue;
			loops_use(loops_all[i]);
			good &= fingerprint(types[k], 7) == bits[k];
		}
		loops_use(NULL);
		ok(good, "%s: the same bits wherever, %llx", reduce_dtype_name(types[k]),
		   (unsigned long long)fingerprint(types[k], 7));
	}
	known_answers();
	ok(adasum_scratch_bytes(RINGUP_F32, 1, 100) == 0 &&
		   adasum_scratch_bytes(RINGUP_BF16, 8, 100) == 1200,
	   "scratch for as many vectors as there are levels");
	ok(adasum_scratch_bytes(RINGUP_F64, 4, UINT64_MAX / 8) == SIZE_MAX,
	   "too much to be had is too much");
	return tap_done();
}
