/* test_old_caller.c - programs compiled for another ringup.h: structs end elsewhere. */
/* tests: src/api src/ringup.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringup.h"
#include "tap.h"

static struct ringup *job;
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

/* The size of a struct when programs were first compiled with it: it ended behind @last. */
#define SIZE_TO(type, last)                                                                    \
	((offsetof(struct type, last) + sizeof(((struct type *)NULL)->last) + sizeof(void *) - \
	  1) /                                                                                 \
	 sizeof(void *) * sizeof(void *))

/* A struct that ends behind @last: of a caller that tells its size, and of one that has 0. */
#define OLD_TO(type, description, last, CALL)                                    \
	do {                                                                     \
		struct type d_ = description;                                    \
		const size_t bytes_ = SIZE_TO(type, last);                       \
		const struct type *a;                                            \
                                                                                 \
		d_.bytes = bytes_;                                               \
		a = at_the_end(&d_, bytes_, 1);                                  \
		ok(!(CALL), #type ", which tells its size: %s", ringup_error()); \
		d_.bytes = 0;                                                    \
		a = at_the_end(&d_, bytes_, 1);                                  \
		ok(!(CALL), #type ", which does not: %s", ringup_error());       \
	} while (0)

/* A struct of a later version, with fields that this library lacks: all 0, and the last byte
 * set. */
#define NEW(type, description, CALL)                                              \
	do {                                                                      \
		struct {                                                          \
			struct type is;                                           \
			unsigned char later[24];                                  \
		} d_ = { .is = description };                                     \
		const struct type *a;                                             \
                                                                                  \
		d_.is.bytes = sizeof(d_);                                         \
		a = at_the_end(&d_, sizeof(d_), 1);                               \
		ok(!(CALL), #type " of a later version: %s", ringup_error());     \
		d_.later[sizeof(d_.later) - 1] = 1;                               \
		a = at_the_end(&d_, sizeof(d_), 1);                               \
		ok((CALL) == RINGUP_EINVAL &&                                     \
			   strstr(ringup_error(), "does not know; install"),      \
		   #type " with a field of a later version: %s", ringup_error()); \
	} while (0)

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

static float in[4] = { 1, 2, 3, 4 }, out[4];
static uint64_t counts[1];
static void *got;

static const struct ringup_reduce sum = {
	.name = "sum", .in = in, .out = out, .count = 4, .dtype = RINGUP_F32
};
static const struct ringup_bcast copy = {
	.name = "copy", .in = in, .out = out, .count = 4, .dtype = RINGUP_F32
};
static const struct ringup_gather gather = { .name = "gather",
					     .in = in,
					     .rows = 2,
					     .row = 2,
					     .dtype = RINGUP_F32,
					     .out = &got,
					     .counts = counts,
					     .into = out,
					     .into_bytes = sizeof(out) };
static const struct ringup_exchange exchange = { .name = "exchange",
						 .in = in,
						 .rows = 2,
						 .row = 2,
						 .dtype = RINGUP_F32,
						 .out = &got,
						 .counts = counts,
						 .into = out,
						 .into_bytes = sizeof(out) };
static const struct ringup_scatter scatter = {
	.name = "scatter", .in = in, .rows = 2, .row = 2, .out = out, .dtype = RINGUP_F32
};
static int source;
static const struct ringup_send message = {
	.in = in, .count = 4, .dtype = RINGUP_F32, .to = 0, .tag = 7
};
static const struct ringup_recv receive = {
	.out = out, .count = 4, .dtype = RINGUP_F32, .from = 0, .tag = 7, .source = &source
};

static void old_callers(void)
{
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
	size_t bytes = offsetof(struct ringup_reduce, stream);
	struct ringup_reduce each = {
		.bytes = bytes, .in = in, .out = out, .count = 2, .dtype = RINGUP_F32
	};
	struct ringup_reduce *a = at_the_end(&each, bytes, 3);
	size_t other = bytes + 8;

	ok(!ringup_allreduce_many(world, a, 3, NULL) && out[1] == 2, "several: %s",
	   ringup_error());
	memcpy((unsigned char *)a + bytes, &other, sizeof(other));
	ok(ringup_allreduce_many(world, a, 2, NULL) == RINGUP_EINVAL &&
		   strstr(ringup_error(), "in number 0"),
	   "of two sizes: %s", ringup_error());
	each.bytes = 0;
	a = at_the_end(&each, bytes, 3);
	ok(ringup_allreduce_many(world, a, 3, NULL) == RINGUP_EINVAL &&
		   strstr(ringup_error(), "set bytes"),
	   "several without a size: %s", ringup_error());
	ok(!ringup_allreduce_many(world, a, 1, NULL), "one without a size: %s", ringup_error());
}

/* A newer caller's structs are longer: what this library does not know must be 0. */
static void new_callers(void)
{
	struct ringup_reduce odd = sum;

	NEW(ringup_reduce, sum, ringup_allreduce(world, a, NULL));
	NEW(ringup_reduce, sum, ringup_allreduce_within(world, a, -1, NULL));
	NEW(ringup_reduce, sum, ringup_allreduce_many(world, a, 1, NULL));
	NEW(ringup_reduce, sum, ringup_reduce_to(world, a, 0, NULL));
	NEW(ringup_bcast, copy, ringup_broadcast(world, a, NULL));
	NEW(ringup_gather, gather, ringup_allgather(world, a, NULL));
	NEW(ringup_gather, gather, ringup_allgather_many(world, a, 1, NULL));
	NEW(ringup_gather, gather, ringup_gather_to(world, a, 0, NULL));
	NEW(ringup_exchange, exchange, ringup_alltoall(world, a, NULL));
	NEW(ringup_exchange, exchange, ringup_scatter_from(world, a, 0, NULL));
	NEW(ringup_scatter, scatter, ringup_reducescatter(world, a, NULL));
	NEW(ringup_scatter, scatter, ringup_reducescatter_many(world, a, 1, NULL));
	odd.bytes = 7;
	ok(ringup_allreduce(world, &odd, NULL) == RINGUP_EINVAL, "a size too small: %s",
	   ringup_error());
	odd.bytes = SIZE_MAX;
	ok(ringup_allreduce(world, &odd, NULL) == RINGUP_EINVAL, "a size too large: %s",
	   ringup_error());
}

static void received(const char *what)
{
	struct ringup_recv a = receive;

	a.bytes = sizeof(a);
	memset(out, 0, sizeof(out));
	ok(!ringup_recv(world, &a, NULL) && out[3] == 4, "%s, which arrives: %s", what,
	   ringup_error());
}

/* To itself.  Each message that is sent is received, and the other way round. */
static void messages(void)
{
	struct ringup_send whole = message;

	whole.bytes = sizeof(whole);
	OLD_TO(ringup_send, message, tag, ringup_send(world, a, NULL));
	received("an old caller's message");
	received("and another one");
	NEW(ringup_send, message, ringup_send(world, a, NULL));
	received("a new caller's message");
	for (int i = 0; i < 3; i++)
		ok(!ringup_send(world, &whole, NULL), "a message: %s", ringup_error());
	source = -1;
	OLD_TO(ringup_recv, receive, source, ringup_recv(world, a, NULL));
	ok(source == 0, "whose sender an old caller learns");
	NEW(ringup_recv, receive, ringup_recv(world, a, NULL));
}

static int begin_and_end(const struct ringup_init *how)
{
	struct ringup *r;
	int rc = ringup_init(how, &r);

	if (!rc && (!ringup_group_get(r, 1) || !ringup_group_get(r, 2)))
		rc = RINGUP_ESYSTEM;
	if (!rc)
		ringup_fini(r);
	return rc;
}

static void jobs(void)
{
	/* The library goes from one set to the next by the size of this one, which has none. */
	static const int ranks[] = { 0 };
	static const struct old_set {
		const int *ranks;
		int count;
	} sets[] = { { ranks, 1 }, { ranks, 1 } };
	const struct ringup_init how = { .size = 1,
					 .groups =
						 (const struct ringup_set *)(const void *)sets,
					 .group_count = 2 };

	OLD_TO(ringup_init, how, part_ranks, begin_and_end(a));
	NEW(ringup_init, how, begin_and_end(a));
}

/* The entries of the caller, @each bytes long, are written, and no byte behind them. */
static void points_of(uint64_t first, size_t each)
{
	enum { COUNT = 2 };
	const size_t known =
		each < sizeof(struct ringup_points) ? each : sizeof(struct ringup_points);
	unsigned char *at = page + page_bytes - COUNT * each;
	struct ringup_points p;
	bool rest = true;

	memset(at, 0x55, COUNT * each);
	ok(!ringup_points_get(job, first, COUNT, (struct ringup_points *)(void *)at, each),
	   "points in entries of %zu bytes: %s", each, ringup_error());
	for (int i = 0; i < COUNT; i++, at += each) {
		memset(&p, 0, sizeof(p));
		memcpy(&p, at, known);
		ok(p.submitted > 0 && p.complete >= p.submitted && !p.failed,
		   "which are those of the operation");
		for (size_t k = known; k < each; k++)
			rest &= at[k] == 0;
	}
	ok(rest, "and 0 in fields that this library lacks");
}

static void points(void)
{
	static const size_t bad[] = { 0, 7, SIZE_TO(ringup_points, complete),
				      sizeof(struct ringup_points) + 1, SIZE_MAX / 8 * 8 };
	struct ringup_reduce a = sum;
	struct ringup_points p[2];
	const uint64_t *latest;
	uint64_t first;

	a.bytes = sizeof(a);
	ok(!ringup_points_keep(job, &latest), "points: %s", ringup_error());
	if (!latest)
		return;
	first = *latest + 1;
	for (int i = 0; i < 2; i++)
		ok(!ringup_allreduce(world, &a, NULL), "an operation: %s", ringup_error());
	points_of(first, SIZE_TO(ringup_points, failed));
	points_of(first, sizeof(struct ringup_points));
	points_of(first, sizeof(struct ringup_points) + 24);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(ringup_points_get(job, first, 1, p, bad[i]) == RINGUP_EINVAL &&
			   strstr(ringup_error(), "set it to sizeof"),
		   "entries of %zu bytes: %s", bad[i], ringup_error());
}

int main(void)
{
	struct ringup_init how = { .bytes = sizeof(how), .size = 1 };
	unsigned char *map;

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	map = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	if (map == MAP_FAILED || mprotect(map + page_bytes, page_bytes, PROT_NONE)) {
		ok(1, "a page that nobody may read # SKIP mmap: %m");
		return tap_done();
	}
	page = map;
	ok(!ringup_init(at_the_end(&how, sizeof(how), 1), &job), "a job: %s", ringup_error());
	if (!job)
		return tap_done();
	world = ringup_world(job);
	old_callers();
	old_arrays();
	new_callers();
	messages();
	points();
	jobs();
	ringup_fini(job);
	munmap(map, 2 * page_bytes);
	return tap_done();
}
