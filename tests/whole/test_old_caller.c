/* test_old_caller.c - programs compiled for another ringup.h: structs end elsewhere. */
/* tests: src/api src/ringup.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringup.h"
#include "tap.h"

static struct ringup_group *world;
static unsigned char *page; /* behind it, nobody may read */
static size_t page_bytes;

/* The first @bytes of a description as the last bytes that may be read: an older caller's. */
static void *at_the_end(const void *description, size_t bytes, int count)
{
	unsigned char *at = page + page_bytes - bytes * (size_t)count;

	for (int i = 0; i < count; i++)
		memcpy(at + bytes * (size_t)i, description, bytes);
	return at;
}

/* Once as a caller that tells its size, and whose struct ends before stream; once as one that
 * has 0 there, and does not know memory either: what lies there is not a memory's number. */
#define OLD(type, description, CALL)                                             \
	do {                                                                     \
		struct type d_ = description;                                    \
		const size_t bytes_ = offsetof(struct type, stream);             \
		const struct type *a;                                            \
                                                                                 \
		d_.bytes = bytes_;                                               \
		a = at_the_end(&d_, bytes_, 1);                                  \
		ok(!(CALL), #type ", which tells its size: %s", ringup_error()); \
		d_.bytes = 0;                                                    \
		d_.memory = (enum ringup_memory)0x55;                            \
		a = at_the_end(&d_, bytes_, 1);                                  \
		ok(!(CALL), #type ", which does not: %s", ringup_error());       \
	} while (0)

static void old_callers(void)
{
	static float in[4] = { 1, 2, 3, 4 }, out[4];
	uint64_t counts[1];
	void *got = NULL;
	struct ringup_reduce sum = {
		.name = "sum", .in = in, .out = out, .count = 4, .dtype = RINGUP_F32
	};
	struct ringup_bcast copy = {
		.name = "copy", .in = in, .out = out, .count = 4, .dtype = RINGUP_F32
	};
	struct ringup_gather gather = { .name = "gather",
					.in = in,
					.rows = 2,
					.row = 2,
					.dtype = RINGUP_F32,
					.out = &got,
					.counts = counts,
					.into = out,
					.into_bytes = sizeof(out) };
	struct ringup_exchange exchange = { .name = "exchange",
					    .in = in,
					    .rows = 2,
					    .row = 2,
					    .dtype = RINGUP_F32,
					    .out = &got,
					    .counts = counts,
					    .into = out,
					    .into_bytes = sizeof(out) };
	struct ringup_scatter scatter = { .name = "scatter",
					  .in = in,
					  .rows = 2,
					  .row = 2,
					  .out = out,
					  .dtype = RINGUP_F32 };

	OLD(ringup_reduce, sum, ringup_allreduce(world, a, NULL));
	OLD(ringup_reduce, sum, ringup_reduce_to(world, a, 0, NULL));
	OLD(ringup_bcast, copy, ringup_broadcast(world, a, NULL));
	OLD(ringup_gather, gather, ringup_allgather(world, a, NULL));
	OLD(ringup_gather, gather, ringup_gather_to(world, a, 0, NULL));
	OLD(ringup_exchange, exchange, ringup_alltoall(world, a, NULL));
	OLD(ringup_exchange, exchange, ringup_scatter_from(world, a, 0, NULL));
	OLD(ringup_scatter, scatter, ringup_reducescatter(world, a, NULL));
	ok(out[3] == 4 && got == out, "with their results");
	/* The fast path of a repeated sum. */
	for (int i = 0; i < 5; i++)
		OLD(ringup_reduce, sum, ringup_allreduce_within(world, a, -1, NULL));
}

/* The library goes from one description to the next by the caller's size. */
static void old_arrays(void)
{
	static float in[2] = { 1, 2 }, out[2];
	size_t bytes = offsetof(struct ringup_reduce, stream);
	struct ringup_reduce sum = {
		.bytes = bytes, .in = in, .out = out, .count = 2, .dtype = RINGUP_F32
	};
	struct ringup_reduce *a = at_the_end(&sum, bytes, 3);
	size_t other = bytes + 8;

	ok(!ringup_allreduce_many(world, a, 3, NULL) && out[1] == 2, "several: %s",
	   ringup_error());
	memcpy((unsigned char *)a + bytes, &other, sizeof(other));
	ok(ringup_allreduce_many(world, a, 2, NULL) == RINGUP_EINVAL &&
		   strstr(ringup_error(), "in number 0"),
	   "of two sizes: %s", ringup_error());
	sum.bytes = 0;
	a = at_the_end(&sum, bytes, 3);
	ok(ringup_allreduce_many(world, a, 3, NULL) == RINGUP_EINVAL &&
		   strstr(ringup_error(), "set bytes"),
	   "several without a size: %s", ringup_error());
	ok(!ringup_allreduce_many(world, a, 1, NULL), "one without a size: %s", ringup_error());
}

/* A newer caller's description is longer: what this library does not know has to be 0. */
static void new_callers(void)
{
	static float in[2] = { 3, 4 }, out[2];
	struct {
		struct ringup_reduce is;
		uint64_t later;
	} sum = { .is = { .bytes = sizeof(sum),
			  .name = "sum",
			  .in = in,
			  .out = out,
			  .count = 2,
			  .dtype = RINGUP_F32 } };

	ok(!ringup_allreduce(world, &sum.is, NULL) && out[1] == 4, "a newer program's: %s",
	   ringup_error());
	sum.later = 1;
	ok(ringup_allreduce(world, &sum.is, NULL) == RINGUP_EINVAL &&
		   strstr(ringup_error(), "does not know"),
	   "with what is not known here: %s", ringup_error());
	sum.is.bytes = 7;
	ok(ringup_allreduce(world, &sum.is, NULL) == RINGUP_EINVAL, "a size too small: %s",
	   ringup_error());
	sum.is.bytes = SIZE_MAX;
	ok(ringup_allreduce(world, &sum.is, NULL) == RINGUP_EINVAL, "a size too large: %s",
	   ringup_error());
}

int main(void)
{
	struct ringup_init how = { .bytes = sizeof(how), .size = 1 };
	struct ringup *r = NULL;
	unsigned char *map;

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	map = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	if (map == MAP_FAILED || mprotect(map + page_bytes, page_bytes, PROT_NONE)) {
		ok(1, "a page that nobody may read # SKIP mmap: %m");
		return tap_done();
	}
	page = map;
	ok(!ringup_init(at_the_end(&how, sizeof(how), 1), &r), "a job: %s", ringup_error());
	if (!r)
		return tap_done();
	world = ringup_world(r);
	old_callers();
	old_arrays();
	new_callers();
	ringup_fini(r);
	munmap(map, 2 * page_bytes);
	return tap_done();
}
