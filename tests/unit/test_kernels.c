/* test_kernels.c - the device's kernels, as C and as PTX, compute what the host does. */
#include "device/kernels.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/kinds.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "fakegpu/kernels_cpu.h"
#include "fakegpu/ptx.h"
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

/* ---- both builds of a kernel ---- */

static struct ptx *module;
static bool is_same; /* the two builds' results, since are_same() */

/* Bytes of an element that kernel @k reads, or writes. */
static size_t kernel_bytes(enum device_kernel k, bool writes, uint32_t element)
{
	switch (k) {
	case DEVICE_COPY:
		return element;
	case DEVICE_FILL:
		return writes ? element : 0;
	case DEVICE_BOOL:
	case DEVICE_SCALE_U8:
	case DEVICE_SCALE_I8:
		return 1;
	case DEVICE_WIDEN_I16:
	case DEVICE_WIDEN_U16:
		return writes ? 4 : 2;
	case DEVICE_NARROW_I16:
	case DEVICE_NARROW_U16:
		return writes ? 2 : 4;
	case DEVICE_SCALE_I32:
	case DEVICE_SCALE_F32:
		return 4;
	case DEVICE_SCALE_I64:
	case DEVICE_SCALE_F64:
		return 8;
	default:
		return 2;
	}
}

struct launch {
	enum device_kernel kernel;
	const struct device_move *move;
};

/* The PTX may read the pieces' sources and write what they become, to the byte. */
static bool piece_find(void *arg, uint64_t at, bool writes, struct ptx_range *r)
{
	const struct launch *l = arg;
	uint32_t i;

	for (i = 0; i < l->move->pieces; i++) {
		const struct device_piece *p = &l->move->piece[i];
		uint64_t begin = (uintptr_t)(writes ? p->to : p->from);

		r->at = begin;
		r->bytes = p->count * kernel_bytes(l->kernel, writes, l->move->element);
		r->host = (unsigned char *)(uintptr_t)begin;
		if (at - begin < r->bytes)
			return true;
	}
	return false;
}

/* What the pieces become, one behind the other: from there to @kept, or back. */
static void pieces_keep(const struct launch *l, unsigned char *kept, bool back)
{
	size_t size = kernel_bytes(l->kernel, true, l->move->element), bytes;
	uint32_t i;

	for (i = 0; i < l->move->pieces; i++, kept += bytes) {
		bytes = l->move->piece[i].count * size;
		if (back)
			memcpy(l->move->piece[i].to, kept, bytes);
		else
			memcpy(kept, l->move->piece[i].to, bytes);
	}
}

static bool pieces_are(const struct launch *l, const unsigned char *kept)
{
	size_t size = kernel_bytes(l->kernel, true, l->move->element);
	enum ringup_dtype t = l->kernel == DEVICE_SCALE_F16    ? RINGUP_F16
			      : l->kernel == DEVICE_SCALE_BF16 ? RINGUP_BF16
			      : l->kernel == DEVICE_SCALE_F32  ? RINGUP_F32
			      : l->kernel == DEVICE_SCALE_F64  ? RINGUP_F64
							       : RINGUP_U8;
	uint64_t each = size / reduce_dtype_bytes(t);
	uint32_t i;

	for (i = 0; i < l->move->pieces; i++) {
		const struct device_piece *p = &l->move->piece[i];

		if (!are_equal(t, kept, p->to, p->count * each)) {
			printf("# %s, piece %u of %u, of %u: factor %g, divisor %lld\n",
			       kernel_symbol(l->kernel), i, l->move->pieces, p->count,
			       l->move->factor, (long long)l->move->divisor);
			return false;
		}
		kept += p->count * size;
	}
	return true;
}

/* Runs the PTX, and then on the same bytes the C, whose results stay. */
static void launch(enum device_kernel k, const struct device_move *m)
{
	static unsigned char before[1 << 21], after[1 << 21];
	struct launch l = { k, m };
	const struct ptx_kernel *ptx = ptx_kernel(module, kernel_symbol(k));
	int error;

	pieces_keep(&l, before, false);
	error = ptx_run(ptx, kernel_move_grid(m), DEVICE_THREADS, m, piece_find, &l);
	if (error)
		printf("# %s: error %d\n", kernel_symbol(k), error);
	pieces_keep(&l, after, false);
	pieces_keep(&l, before, true);
	kernels_cpu_run(kernels_cpu_find(kernel_symbol(k)), m, kernel_move_grid(m),
			DEVICE_THREADS);
	is_same = !error && pieces_are(&l, after) && is_same;
}

static bool are_same(void)
{
	bool same = is_same;

	is_same = true;
	return same;
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
		ok(are_same(), "and by the PTX");
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
		ok(are_same(), "and by the PTX");
	}
}

/* ---- numbers at which something changes ---- */

/* Neighbours of each power of two, from below and from above: with them the smallest and
 * largest integers, and of floating numbers the denormal ones, the infinities and NaNs. */
static uint64_t border(uint64_t i, size_t bytes)
{
	uint64_t top = UINT64_C(1) << (8 * bytes - 1), power = UINT64_C(1)
							       << i / 9 % (8 * bytes);
	uint64_t base = i % 3 == 0 ? power : i % 3 == 1 ? -power : top - power;

	return base + i / 3 % 3 - 1;
}

/* Every value of 8 bits; the borders of wider ones, and behind them every @step-th of 16 bits.
 */
static uint64_t borders_fill(unsigned char *at, size_t bytes, uint64_t step)
{
	uint64_t borders = bytes == 1 ? 0 : 9 * 8 * bytes, i, value;
	uint64_t others = bytes == 1 ? 256 : bytes == 2 ? 65536 / step : 0;

	for (i = 0; i < borders + others; i++) {
		value = i < borders ? border(i, bytes) : step * (i - borders);
		memcpy(at + i * bytes, &value, bytes);
	}
	return borders + others;
}

/* Some take the smallest integer of 8, 16 or 32 bits, or its half, to exactly one less.  Those
 * of 16 bits meet divisor 1, and the one at the same place modulo ODD_DIVISORS. */
static const double odd_factors[] = { 1,           2,          2 + 0x1p-14,
				      2 + 0x1p-6,  1 + 0x1p-7, 1 + 0x1p-15,
				      1 + 0x1p-31, -1,         0.1,
				      1.0 / 3,     -0.0,       65521,
				      1e-7,        0x1p-24,    0x1.fffffep127,
				      0x1p-149,    1e300,      DBL_TRUE_MIN,
				      HUGE_VAL,    -HUGE_VAL,  NAN };
static const int64_t odd_divisors[] = { 1, 3, 2, 255, 65537, INT64_C(1) << 32, INT64_MAX };

enum {
	ODD_FACTORS = sizeof(odd_factors) / sizeof(odd_factors[0]),
	ODD_DIVISORS = sizeof(odd_divisors) / sizeof(odd_divisors[0])
};

/* In place, if the element has one size; all values of 16 bits if nothing else is done. */
static void borders_launch(enum device_kernel k, double factor, int64_t divisor)
{
	static _Alignas(16) unsigned char from[66000 * 4], to[66000 * 4];
	size_t bytes = kernel_bytes(k, false, 0);
	uint64_t count = borders_fill(from, bytes, factor == 1 && divisor == 1 ? 1 : 11);
	struct device_move m;

	kernel_move_begin(&m, 0);
	m.factor = factor;
	m.divisor = divisor;
	kernel_move_add(&m, from, bytes == kernel_bytes(k, true, 0) ? from : to, count);
	launch(k, &m);
}

static void borders(void)
{
	int k, f, d;

	for (k = DEVICE_BOOL; k < DEVICE_FILL; k++) {
		bool is_many = kernel_bytes((enum device_kernel)k, false, 0) == 2;

		for (f = 0; f < ODD_FACTORS; f++)
			for (d = 0; d < ODD_DIVISORS; d++)
				if (!is_many || !d || f % ODD_DIVISORS == d)
					borders_launch((enum device_kernel)k, odd_factors[f],
						       odd_divisors[d]);
		ok(are_same(), "%s: C and PTX give the same bits at every border",
		   kernel_symbol((enum device_kernel)k));
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
	ok(are_same(), "and by the PTX");
}

/* A launch of up to @pieces, each with a length and a place of its own, some in place. */
static void scatter(enum device_kernel k, uint32_t element, int pieces)
{
	static _Alignas(16) unsigned char from[1 << 20], to[1 << 20];
	size_t size[2] = { kernel_bytes(k, false, element), kernel_bytes(k, true, element) };
	size_t widest = size[0] > size[1] ? size[0] : size[1], at = random_word() % 16 * widest;
	bool is_in_place = size[0] == size[1] && k != DEVICE_COPY && random_word() % 2;
	struct device_move m;
	size_t i;

	for (i = 0; i < sizeof(from); i += 8)
		memcpy(from + i, &(uint64_t){ random_word() }, 8);
	kernel_move_begin(&m, element);
	m.value = random_word();
	m.factor = odd_factors[random_word() % ODD_FACTORS];
	m.divisor = odd_divisors[random_word() % ODD_DIVISORS];
	while (pieces--) {
		uint64_t count = random_word() % 8 ? 1 + random_word() % 300
						   : DEVICE_TILE - 2 + random_word() % 5;
		/* Sources and results need not have the same place in a word of 16 bytes. */
		size_t from_at = at + random_word() % 3 * widest;

		if (from_at + count * widest > sizeof(from))
			break;
		kernel_move_add(&m, from + from_at, is_in_place ? from + from_at : to + at,
				count);
		at = from_at + (count + random_word() % 20) * widest;
	}
	if (m.pieces)
		launch(k, &m);
}

static void scatters(void)
{
	static const int pieces[] = { 1, 2, 3, 4, 7, 20, 41, DEVICE_PIECES };
	int k;
	uint32_t i;

	for (k = 0; k < DEVICE_KERNEL_COUNT; k++) {
		for (i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
			scatter((enum device_kernel)k, 1U << i % 4, pieces[i]);
		ok(are_same(), "%s: C and PTX give the same bits wherever the pieces are",
		   kernel_symbol((enum device_kernel)k));
	}
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
	ok(are_same(), "and by the PTX");
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
	char why[200] = "";

	module = ptx_load(device_kernels_ptx, why, sizeof(why));
	ok(module, "the PTX is valid%s%s", *why ? ": " : "", why);
	if (!module)
		return tap_done();
	are_same();
	scaling();
	narrow_types();
	borders();
	copies();
	scatters();
	fills();
	limits();
	ptx();
	ptx_unload(module);
	return tap_done();
}
