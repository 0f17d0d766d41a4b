/* test_huge.c - tensors of more than 2^31 elements, in a few megabytes of memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rounds.h"
#include "tap.h"

#include "asks.h"
#include "ranks.h"

/*
 * Nearly all of such a tensor is one window of memory, mapped again and again.  What is first,
 * last and beyond each 2^30 elements has a window of its own, so that what is left out, or
 * written in another place, is seen there.
 */
enum { RANKS = 2 };
#define WINDOW ((uint64_t)16 << 20)
#define LARGE  (((uint64_t)1 << 31) + WINDOW)

/* What is in each window: before, and when @times of it have been added up. */
static unsigned char pattern[RANKS + 1][WINDOW];

static void make_pattern(void)
{
	uint64_t i;
	unsigned times;

	for (times = 0; times <= RANKS; times++)
		for (i = 0; i < WINDOW; i++)
			pattern[times][i] =
				(unsigned char)(times * ((i % 251) * 3 + (i >> 16)));
}

static bool has_own(uint64_t at, uint64_t bytes)
{
	return at % (1 << 30) == 0 || at + WINDOW >= bytes;
}

static unsigned char *big_make(uint64_t bytes)
{
	unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = memfd_create("window", MFD_CLOEXEC);
	uint64_t at;
	void *q;

	if (p == MAP_FAILED || fd < 0 || ftruncate(fd, (off_t)WINDOW)) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	for (at = 0; at < bytes; at += WINDOW) {
		q = has_own(at, bytes) ? p + at
				       : mmap(p + at, WINDOW, PROT_READ | PROT_WRITE,
					      MAP_SHARED | MAP_FIXED, fd, 0);
		if (q != p + at) {
			munmap(p, bytes);
			p = NULL;
			break;
		}
	}
	close(fd);
	return p;
}

/* Windows that are one are filled, and looked at, twice. */
static bool is_looked_at(uint64_t at, uint64_t bytes)
{
	return at <= WINDOW || has_own(at, bytes);
}

static void big_fill(unsigned char *p, uint64_t bytes, bool with)
{
	uint64_t at;

	for (at = 0; at < bytes; at += WINDOW)
		if (is_looked_at(at, bytes) && with)
			memcpy(p + at, pattern[1], WINDOW);
		else if (is_looked_at(at, bytes))
			memset(p + at, 0x77, WINDOW);
}

/* In how many windows it is not @times the pattern, up to @bytes. */
static int big_wrong(const unsigned char *p, uint64_t bytes, unsigned times)
{
	uint64_t at;
	int bad = 0;

	for (at = 0; at < bytes; at += WINDOW)
		bad += is_looked_at(at, bytes) && memcmp(p + at, pattern[times], WINDOW);
	return bad;
}

static bool is_long;

static void collectives(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	uint64_t all = LARGE * (uint64_t)size, counts[RANKS];
	unsigned char *in = big_make(all), *out = big_make(all), *made = NULL;
	struct ringup_reduce sum = ASK_REDUCE("sum", in, out, LARGE, .dtype = RINGUP_U8);
	struct ringup_bcast spread =
		ASK_BCAST("spread", in, out, LARGE, .dtype = RINGUP_U8, .root = 1);
	struct ringup_gather gather =
		ASK_GATHER("gather", in, LARGE, 1, (void **)&made, counts, .dtype = RINGUP_U8,
			   .into = out, .into_bytes = all);
	struct ringup_exchange exchange =
		ASK_EXCHANGE("exchange", in, all, 1, (void **)&made, counts, .dtype = RINGUP_U8,
			     .into = out, .into_bytes = all);
	struct ringup_scatter scatter =
		ASK_SCATTER("scatter", in, all, 1, out, .dtype = RINGUP_U8);

	check(in && out, "addresses", rank);
	if (in && out) {
		big_fill(in, all, true);
		big_fill(out, all, false);
		check(!ringup_allreduce(g, &sum, NULL), "allreduce", rank);
		check(!big_wrong(out, LARGE, (unsigned)size), "its values", rank);
		check(out[(uint64_t)3 << 30] == 0x77 && out[all - 1] == 0x77, "and no more",
		      rank);
	}
	if (in && out && is_long) {
		big_fill(out, all, false);
		check(!ringup_allgather(g, &gather, NULL) && made == out, "allgather", rank);
		check(counts[0] == LARGE && counts[1] == LARGE, "its counts", rank);
		check(!big_wrong(out, all, 1), "its values", rank);
		big_fill(out, all, false);
		check(!ringup_broadcast(g, &spread, NULL), "broadcast", rank);
		check(!big_wrong(out, LARGE, 1), "its values", rank);
		big_fill(out, all, false);
		check(!ringup_alltoall(g, &exchange, NULL) && made == out, "alltoall", rank);
		check(counts[0] == LARGE && counts[1] == LARGE, "its counts", rank);
		check(!big_wrong(out, all, 1), "its values", rank);
		big_fill(out, all, false);
		check(!ringup_reducescatter(g, &scatter, NULL), "reducescatter", rank);
		check(!big_wrong(out, LARGE, (unsigned)size), "its values", rank);
	}
	if (in)
		munmap(in, all);
	if (out)
		munmap(out, all);
}

int main(void)
{
	is_long = rounds_are_long();
	if (ROUNDS_SANITIZED) {
		puts("1..0 # SKIP with a sanitizer, gigabytes take minutes");
		return 0;
	}
	make_pattern();
	run("more than 2^31 elements", RANKS, collectives);
	if (is_long) {
		setenv("RINGUP_BACKEND", "tcp", 1);
		run("more than 2^31 elements, between hosts", RANKS, collectives);
	}
	return tap_done();
}
