/* test_kernels.c - the arithmetic of the device's kernels is the host's, at every border. */
#include "device/kernels.h"

#include <stdbool.h>
#include <string.h>

#include "base/kinds.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "fakegpu/kernels_cpu.h"
#include "tap.h"

enum { ROOM = 3 * DEVICE_TILE, GUARD = 64, WIDEST = 8 };

static uint64_t state = 1;

static uint64_t random_word(void)
{
	state = state * 6364136223846793005U + 1442695040888963407U;
	return state >> 11 ^ state << 31;
}

/* Any bits, and often the numbers at which something changes. */
static void random_fill(void *at, enum ringup_dtype t, uint64_t count)
{
	size_t size = reduce_dtype_bytes(t), i;

	for (i = 0; i < count * size; i++)
		((unsigned char *)at)[i] = (unsigned char)random_word();
	for (i = 0; i < count; i += 1 + random_word() % 4)
		memset((unsigned char *)at + i * size, random_word() % 2 ? 0xff : 0, size);
}

/* A NaN has a sign and a payload that differ between processors. */
static bool is_nan(enum ringup_dtype t, const void *at)
{
	float f;
	double d;

	if (t == RINGUP_F64) {
		memcpy(&d, at, sizeof(d));
		return d != d;
	}
	if (t == RINGUP_F32)
		memcpy(&f, at, sizeof(f));
	else if (reduce_is_half(t))
		reduce_widen(t, &f, at, 1);
	else
		return false;
	return f != f;
}

static bool are_equal(enum ringup_dtype t, const void *a, const void *b, uint64_t count)
{
	size_t size = reduce_dtype_bytes(t);
	uint64_t i;

	for (i = 0; i < count; i++) {
		const unsigned char *x = (const unsigned char *)a + i * size;
		const unsigned char *y = (const unsigned char *)b + i * size;

		if (memcmp(x, y, size) && !(is_nan(t, x) && is_nan(t, y)))
			return false;
	}
	return true;
}

static void launch(enum device_kernel k, const struct device_move *m)
{
	kernels_cpu_run(kernels_cpu_find(kernel_symbol(k)), m, kernel_move_grid(m),
			DEVICE_THREADS);
}

/* The bytes behind what is written stay as they are. */
static bool is_guarded(const unsigned char *at)
{
	size_t i;

	for (i = 0; i < GUARD; i++)
		if (at[i] != 0xa5)
			return false;
	return true;
}

static const uint64_t lengths[] = {
	1, 2, 3, 15, 16, 17, 255, 256, 257, DEVICE_TILE - 1, DEVICE_TILE, DEVICE_TILE + 1, ROOM,
};
static const double factors[] = { 1, 0.5, 3, -1, 1e-3, 1e30, 0, 1.0 / 3 };
static const int64_t divisors[] = { 1, 2, 3, 7, 8, 1000 };

enum {
	LENGTHS = sizeof(lengths) / sizeof(lengths[0]),
	FACTORS = sizeof(factors) / sizeof(factors[0]),
	DIVISORS = sizeof(divisors) / sizeof(divisors[0])
};

/* ---- scaling ---- */

static _Alignas(16) unsigned char in[ROOM * WIDEST], out[ROOM * WIDEST + GUARD],
	want[ROOM * WIDEST];

static bool scales(enum ringup_dtype t, uint64_t count, double factor, int64_t divisor)
{
	struct reduce average = { .dtype = t,
				  .redop = RINGUP_AVERAGE,
				  .divisor = (uint32_t)divisor,
				  .post = factor };
	const void *src = in;
	void *dst = want;
	struct device_move m;

	if (t == RINGUP_BOOL)
		average.redop = RINGUP_SUM;
	random_fill(in, t, count);
	/* 0 means nothing to do there. */
	if (factor != 0)
		reduce_many(&average, &dst, 1, &src, 1, count);
	else
		copy_scaled(t, want, in, count, 0);
	memset(out, 0xa5, sizeof(out));
	kernel_move_begin(&m, (uint32_t)reduce_dtype_bytes(t));
	m.factor = factor;
	m.divisor = factor != 0 ? divisor : 1;
	if (kernel_move_add(&m, in, out, count) != count)
		return false;
	launch(kernel_scale(t), &m);
	return are_equal(t, out, want, count) &&
	       is_guarded(out + count * reduce_dtype_bytes(t));
}

static void scaling(void)
{
	int t, i, f, d;

	for (t = 0; t < DTYPE_COUNT; t++) {
		bool good = true;

		for (i = 0; i < LENGTHS; i++)
			for (f = 0; f < FACTORS; f++)
				for (d = 0; d < DIVISORS; d++)
					if (i < 3 || (f + d) % LENGTHS == i)
						good &= scales((enum ringup_dtype)t, lengths[i],
							       factors[f], divisors[d]);
		for (f = 0; f < FACTORS; f++)
			good &= scales((enum ringup_dtype)t, ROOM, factors[f], f + 1);
		ok(good, "%s is scaled as by the host",
		   reduce_dtype_name((enum ringup_dtype)t));
	}
}

/* ---- types that NCCL lacks ---- */

static bool travels(enum ringup_dtype t, enum ringup_redop redop, int ranks)
{
	static int32_t wide[ROOM], sum[ROOM];
	static _Alignas(16) unsigned char each[8][ROOM * 2];
	static _Alignas(16) unsigned char scaled[8][ROOM * 2];
	bool is_signed = t == RINGUP_I16;
	struct reduce how = {
		.dtype = t, .redop = redop, .divisor = (uint32_t)ranks, .post = 0.5
	};
	const void *src[8];
	void *dst = want;
	struct device_move m;
	int r;
	uint64_t i;

	for (r = 0; r < ranks; r++) {
		random_fill(each[r], t, ROOM);
		copy_scaled(t, scaled[r], each[r], ROOM, 3);
		src[r] = scaled[r];
		kernel_move_begin(&m, 2);
		m.factor = 3;
		if (kernel_move_add(&m, each[r], wide, ROOM) != ROOM)
			return false;
		launch(is_signed ? DEVICE_WIDEN_I16 : DEVICE_WIDEN_U16, &m);
		for (i = 0; i < ROOM; i++) {
			uint32_t a = (uint32_t)sum[i], b = (uint32_t)wide[i];

			if (!r)
				sum[i] = wide[i];
			else if (redop == RINGUP_MIN)
				sum[i] = wide[i] < sum[i] ? wide[i] : sum[i];
			else if (redop == RINGUP_MAX)
				sum[i] = wide[i] > sum[i] ? wide[i] : sum[i];
			else
				sum[i] = (int32_t)(redop == RINGUP_PRODUCT ? a * b : a + b);
		}
	}
	reduce_many(&how, &dst, 1, src, ranks, ROOM);
	kernel_move_begin(&m, 2);
	m.factor = 0.5;
	m.divisor = redop == RINGUP_AVERAGE ? ranks : 1;
	if (kernel_move_add(&m, sum, out, ROOM) != ROOM)
		return false;
	launch(is_signed ? DEVICE_NARROW_I16 : DEVICE_NARROW_U16, &m);
	return !memcmp(out, want, ROOM * 2);
}

static void narrow_types(void)
{
	int redop, ranks;

	for (redop = RINGUP_SUM; redop < RINGUP_ADASUM; redop++) {
		bool good = true;

		for (ranks = 1; ranks <= 8; ranks += 3)
			good &= travels(RINGUP_I16, (enum ringup_redop)redop, ranks) &&
				travels(RINGUP_U16, (enum ringup_redop)redop, ranks);
		ok(good, "%s of 16-bit integers by way of 32 bits",
		   reduce_redop_name((enum ringup_redop)redop));
	}
}

/* ---- pieces ---- */

/* Pieces of random lengths and alignments: each lands where it belongs, and nothing else does.
 */
static bool lands(uint32_t element, unsigned int skew, int pieces)
{
	static unsigned char from[1 << 20], to[1 << 20], expected[1 << 20];
	size_t at = skew, i;
	struct device_move m;
	int n;

	for (i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)random_word();
	memset(to, 0xa5, sizeof(to));
	memset(expected, 0xa5, sizeof(expected));
	kernel_move_begin(&m, element);
	for (n = 0; n < pieces; n++) {
		uint64_t count =
			n % 7 == 3 ? DEVICE_TILE + random_word() % 100 : 1 + random_word() % 90;

		if (at + count * element + 64 > sizeof(to))
			count = 1;
		if (kernel_move_add(&m, from + at, to + at, count) != count)
			return false;
		memcpy(expected + at, from + at, count * element);
		at += count * element + element * (random_word() % 3);
	}
	launch(DEVICE_COPY, &m);
	return !memcmp(to, expected, sizeof(to));
}

static void copies(void)
{
	uint32_t element;
	unsigned int skew;
	bool good = true;

	for (element = 1; element <= 8; element *= 2)
		for (skew = 0; skew < 16; skew += element)
			good &= lands(element, skew, skew ? 9 : 100 / (int)element);
	ok(good, "pieces of every size and alignment are copied");
	ok(lands(1, 0, DEVICE_PIECES), "as many as a launch takes");
}

static void fills(void)
{
	uint32_t element;
	bool good = true;
	size_t i;

	for (element = 1; element <= 8; element *= 2) {
		struct device_move m;

		memset(out, 0xa5, sizeof(out));
		kernel_move_begin(&m, element);
		m.value = UINT64_C(0x8877665544332211);
		good &= kernel_move_add(&m, NULL, out, DEVICE_TILE + 5) == DEVICE_TILE + 5;
		launch(DEVICE_FILL, &m);
		for (i = 0; i < (DEVICE_TILE + 5) * element; i++)
			good &= out[i] == 0x11 * (i % element + 1);
		good &= is_guarded(out + (DEVICE_TILE + 5) * element);
	}
	ok(good, "neutral elements of every size fill a buffer");
}

/* Nothing is launched: a launch's limits. */
static void limits(void)
{
	static struct device_move m;
	uint64_t most = UINT64_C(1) << 33, moved;
	int n = 0;

	kernel_move_begin(&m, 1);
	ok(!kernel_move_add(&m, in, out, 0) && !kernel_move_grid(&m), "no element, no launch");
	moved = kernel_move_add(&m, in, out, most);
	ok(moved < most && moved > most / 4 && moved % DEVICE_TILE == 0,
	   "a long piece is split between tiles");
	ok(kernel_move_grid(&m) == moved / DEVICE_TILE, "which the grid counts");
	while (kernel_move_add(&m, in, out, 1))
		n++;
	ok(n == DEVICE_PIECES - 1 && m.pieces == DEVICE_PIECES, "a full launch takes no more");
	kernel_move_begin(&m, 1);
	for (n = 0; kernel_move_add(&m, in, out, most); n++)
		;
	ok(n == DEVICE_PIECES && kernel_move_grid(&m) <= INT32_MAX,
	   "nor can the grid be too large");
	ok(!kernels_cpu_find("ringup_nothing"), "other kernels are unknown");
}

/* What a driver compiles has the kernels that the host asks for. */
static void ptx(void)
{
	bool good = true;
	int i;

	for (i = 0; i < DEVICE_KERNEL_COUNT; i++) {
		const char *symbol = kernel_symbol((enum device_kernel)i);
		char entry[64], parameter[96];

		snprintf(entry, sizeof(entry), "%s(", symbol);
		snprintf(parameter, sizeof(parameter), "%s_param_0[%zu]", symbol,
			 sizeof(struct device_move));
		good &= strstr(device_kernels_ptx, entry) &&
			strstr(device_kernels_ptx, parameter);
	}
	ok(good, "the PTX has every kernel, with this struct's size");
	ok(!strncmp(device_kernels_ptx, ".version 6.3\n.target sm_70\n", 27),
	   "and is for CUDA 10 and Volta");
}

int main(void)
{
	scaling();
	narrow_types();
	copies();
	fills();
	limits();
	ptx();
	return tap_done();
}
