/* test_copy.c - every length and offset, nothing beside it; factors in every type. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/copy.h"
#include "coll/loops.h"
#include "coll/reduce.h"
#include "tap.h"

enum { MAX = 5000, MARGIN = 130 };

static unsigned char src[MAX + 2 * MARGIN], dst[MAX + 2 * MARGIN], want[MAX + 2 * MARGIN];

static void (*copy_how)(void *, void *, size_t);

static void bytes(void *d, void *s, size_t n)
{
	copy_bytes(d, s, n);
}

static void taken(void *d, void *s, size_t n)
{
	copy_and_own(d, s, n, false);
}

static void over(void *d, void *s, size_t n)
{
	copy_over(d, s, n);
}

static void streaming(void *d, void *s, size_t n)
{
	copy_streaming(d, s, n);
	copy_settle();
}

static void taken_past(void *d, void *s, size_t n)
{
	copy_and_own(d, s, n, true);
	copy_settle();
}

static int copies(size_t n, size_t to, size_t from)
{
	size_t i;

	memset(dst, 0xa5, sizeof(dst));
	memset(want, 0xa5, sizeof(want));
	for (i = 0; i < n; i++)
		want[to + i] = src[from + i];
	copy_how(dst + to, src + from, n);
	if (!memcmp(dst, want, sizeof(dst)))
		return 1;
	printf("# %zu bytes from offset %zu to %zu\n", n, from, to);
	return 0;
}

static void copy_checks(const char *name)
{
	size_t n, i;
	int good = 1;

	for (n = 0; n <= 700; n++)
		for (i = 0; i < 6; i++)
			good &= copies(n, (size_t)rand() % MARGIN, (size_t)rand() % MARGIN);
	ok(good, "%s: 0..700 bytes at any offset, and no byte beside", name);
	for (i = 0; i < 3000; i++)
		good &= copies((size_t)rand() % MAX, (size_t)rand() % MARGIN,
			       (size_t)rand() % MARGIN);
	ok(good, "%s: random lengths up to %d", name, MAX);
}

#define SCALES(name, dtype, type, factor, ...)                                              \
	do {                                                                                \
		static const type rows[][2] = { __VA_ARGS__ };                              \
		enum { N = sizeof(rows) / sizeof(rows[0]) };                                \
		type in[N * 9], out[N * 9];                                                 \
		int i_, good_ = 1;                                                          \
		for (i_ = 0; i_ < N * 9; i_++)                                              \
			in[i_] = rows[i_ % N][0];                                           \
		copy_scaled(dtype, out, in, N * 9, factor);                                 \
		copy_scaled(dtype, in, in, N * 9, factor);                                  \
		for (i_ = 0; i_ < N * 9; i_++)                                              \
			good_ &= !memcmp(&out[i_], &rows[i_ % N][1], sizeof(type)) &&       \
				 !memcmp(&in[i_], &rows[i_ % N][1], sizeof(type));          \
		ok(good_, "%s: %s times %g, also in place", name, reduce_dtype_name(dtype), \
		   (double)(factor));                                                       \
	} while (0)

static void scale_checks(const char *name)
{
	SCALES(name, RINGUP_U8, uint8_t, 0.5, { 0, 0 }, { 1, 0 }, { 7, 3 }, { 255, 127 });
	SCALES(name, RINGUP_U8, uint8_t, 2.0, { 100, 200 }, { 200, 255 });
	SCALES(name, RINGUP_U8, uint8_t, -1.0, { 0, 0 }, { 3, 0 });
	SCALES(name, RINGUP_I8, int8_t, 1.5, { -3, -4 }, { 3, 4 }, { 100, 127 },
	       { -100, -128 });
	SCALES(name, RINGUP_U16, uint16_t, 2.0, { 40000, 65535 }, { 300, 600 });
	SCALES(name, RINGUP_I16, int16_t, -3.0, { 11000, -32768 }, { -11000, 32767 },
	       { 5, -15 });
	SCALES(name, RINGUP_BOOL, uint8_t, 0.5, { 0, 0 }, { 1, 1 }, { 200, 1 }, { 2, 1 });
	SCALES(name, RINGUP_I32, int32_t, 0.5, { -3, -1 }, { 7, 3 },
	       { INT32_MIN, -0x40000000 });
	SCALES(name, RINGUP_I32, int32_t, 3.0, { INT32_MIN, INT32_MIN },
	       { INT32_MAX, INT32_MAX });
	SCALES(name, RINGUP_I64, int64_t, 4.0, { 5, 20 }, { INT64_MAX, INT64_MAX },
	       { INT64_MIN, INT64_MIN });
	SCALES(name, RINGUP_I64, int64_t, (double)NAN, { 5, 0 }, { -5, 0 });
	SCALES(name, RINGUP_F16, uint16_t, 0.5, { 0x3c00, 0x3800 }, { 0xc000, 0xbc00 },
	       { 0x0001, 0x0000 }, { 0x0003, 0x0002 });
	SCALES(name, RINGUP_BF16, uint16_t, 2.0, { 0x3f80, 0x4000 }, { 0x7f7f, 0x7f80 });
	SCALES(name, RINGUP_F32, float, 0.1, { 1, 0.1f }, { 3, 3 * 0.1f });
	SCALES(name, RINGUP_F32, float, 0.0, { 1, 0 }, { -1, -0.0f });
	SCALES(name, RINGUP_F64, double, 0.1, { 1, 0.1 }, { 3, 3 * 0.1 });
}

int main(void)
{
	enum copy_ownership how;
	size_t i;

	ok(copy_ownership() < COPY_OWNERSHIPS,
	   "this processor has a way of filling lines again: %d", (int)copy_ownership());
	for (how = COPY_ASKS; how < COPY_OWNERSHIPS; how++) {
		copy_use_ownership(how);
		ok((copy_streaming_from(COPY_ALONE) < copy_streaming_from(COPY_SHARED)) ==
			   copy_sums_stream(),
		   "past the caches sooner where sums go there, too");
		ok((copy_streaming_from(COPY_GATHERED) > copy_streaming_from(COPY_ALONE)) ==
			   (how == COPY_OWNS),
		   "and later what is gathered where readers own lines");
		ok(copy_streaming_from(COPY_ZCOPY) >= copy_streaming_from(COPY_SHARED),
		   "what is lent, like what is shared or later");
	}
	copy_use_ownership(COPY_OWNERSHIPS);
	for (i = 0; i < sizeof(src); i++)
		src[i] = (unsigned char)rand();
	for (i = 0; loops_all[i]; i++) {
		if (!loops_all[i]->runs()) {
			printf("ok %d - %s # SKIP not on this processor\n", ++tap_count,
			       loops_all[i]->name);
			continue;
		}
		loops_use(loops_all[i]);
		copy_how = bytes;
		copy_checks(loops_all[i]->name);
		copy_how = streaming;
		copy_checks(loops_all[i]->name);
		for (how = COPY_ASKS; how < COPY_OWNERSHIPS; how++) {
			copy_use_ownership(how);
			copy_how = over;
			copy_checks(loops_all[i]->name);
			/* The source stays what it was, or later copies would be wrong. */
			copy_how = taken;
			copy_checks(loops_all[i]->name);
			copy_how = taken_past;
			copy_checks(loops_all[i]->name);
		}
		copy_use_ownership(COPY_OWNERSHIPS);
		scale_checks(loops_all[i]->name);
	}
	return tap_done();
}
