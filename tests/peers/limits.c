/* limits.c - how fast the steps of the node back end are with nothing around them. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 *	limits [cold] [ranks=N] WHAT BYTES...
 *
 * WHAT is allreduce, allgather or broadcast; shared or inplace, a sum of buffers that both can
 * map, as those of ringup_alloc(); or what any of these has to do to memory at the least, each
 * rank with vectors of its own: touch halves one (a sum in place), copy copies one to another
 * (a sum that is not).  write and read let the kernel copy a vector to or from the other rank,
 * and given is an allgather of such writes.  Bytes are those that `ringup bench` counts: of an
 * allgather, of both blocks together.
 *
 * Two processes on two processors, if not said otherwise, of f32, not in place but where said
 * so: the copies and sums of src/coll, by chunks and slots as src/backend/node_state.h has
 * them; no names, no agreement, nobody who could fail.  Input is written before each call; a
 * call lasts from when the first rank begins to when the last ends, for those that share a
 * processor begin one after the other.  What the library takes beyond that is the engine's.
 *
 * With ranks=N, an allreduce of N, as many to each processor; who waits gives way, and fills
 * all its slots first.
 *
 * With cold, before every fourth call each rank reads and writes OTHERS bytes of something
 * else, more than caches hold, as peers do that are measured in turn; it prints what the
 * first, second, third and fourth call take after that.
 */
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/stats.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "peers/placement.h"
#include "wire/cma.h"

enum { SLOTS = 4, SLOT = 65536, CALLS = 501, AFTER = 4 };
enum { RANKS_MOST = 8, LEAST = 512, MOST = 1 << 30, OTHERS = 320 << 20 };
enum { BLOCK = 65536, BIT = 4096, PIECE = 256 << 10 };

struct side {
	float *in, *out;
	unsigned char *slot;
	alignas(64) uint64_t put;    /* chunks that are in the slots */
	alignas(64) uint64_t worked; /* chunks done with the other's */
	alignas(64) uint64_t met;
	uint64_t base, meetings, put_seen[RANKS_MOST], worked_seen[RANKS_MOST];
	float *others;        /* what cold calls touch before */
	int64_t begun, ended; /* the last call */
	pid_t pid;
};

static struct side *side; /* of all ranks; shared by their processes */
static int ranks = 2;
static bool is_cold, is_crowded; /* more ranks than processors */
static bool is_past, sums_past;  /* past the caches: what is only written; own sums, too */
static size_t bytes, chunk, chunks, places;

struct collective {
	const char *name;
	void (*call)(int me);
	bool of_both; /* the size is that of both blocks */
};

static void until(const uint64_t *word, uint64_t *seen, uint64_t least)
{
	while (*seen < least) {
		*seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		if (is_crowded && *seen < least)
			sched_yield();
	}
}

static void meet(int me)
{
	uint64_t n = ++side[me].meetings, seen;
	int r;

	__atomic_store_n(&side[me].met, n, __ATOMIC_RELEASE);
	for (r = 0; r < ranks; r++) {
		seen = 0;
		until(&side[r].met, &seen, n);
	}
}

static size_t length(size_t k)
{
	return bytes - k * chunk < chunk ? bytes - k * chunk : chunk;
}

static unsigned char *slot(int of, size_t k)
{
	return side[of].slot + (side[of].base + k) % places * SLOT;
}

static unsigned char *at(float *buffer, size_t k)
{
	return (unsigned char *)buffer + k * chunk;
}

static void done(uint64_t *word, int me, size_t k)
{
	__atomic_store_n(word, side[me].base + k + 1, __ATOMIC_RELEASE);
}

/* The slot of chunk @k is free when the other is through with what was in it. */
static void until_free(int me, size_t k)
{
	uint64_t g = side[me].base + k;

	if (g >= places)
		until(&side[!me].worked, &side[me].worked_seen[!me], g - places + 1);
}

/* Where the slice of chunk @k begins that @owner adds up. */
static size_t slice(size_t k, int owner)
{
	size_t lines = length(k) / 64;

	return owner == ranks ? length(k) : lines * (size_t)owner / (size_t)ranks * 64;
}

static void settle(void)
{
	if (is_past)
		copy_settle();
}

/* What others add up; their slices are before and behind one's own. */
static void sum_put(int me, size_t k)
{
	size_t mine = slice(k, me), behind = slice(k, me + 1);
	unsigned char *to = slot(me, k), *in = at(side[me].in, k);

	copy_over(to, in, mine);
	copy_over(to + behind, in + behind, length(k) - behind);
	done(&side[me].put, me, k);
}

static void sum_combine(int me, size_t k)
{
	const struct reduce how = { .dtype = RINGUP_F32, .redop = RINGUP_SUM };
	size_t from = slice(k, me), count = (slice(k, me + 1) - from) / sizeof(float);
	void *to[RANKS_MOST];
	const void *of[RANKS_MOST];
	int r, n = 0;

	for (r = 0; r < ranks; r++) {
		until(&side[r].put, &side[me].put_seen[r], side[me].base + k + 1);
		of[r] = r == me ? at(side[me].in, k) + from : slot(r, k) + from;
		if (r != me)
			to[n++] = slot(r, k) + from;
	}
	to[n] = at(side[me].out, k) + from;
	reduce_streaming(&how, to, ranks, sums_past ? n : ranks, of, ranks, count);
	done(&side[me].worked, me, k);
}

static void sum_take(int me, size_t k)
{
	size_t mine = slice(k, me), behind = slice(k, me + 1);
	unsigned char *of = slot(me, k), *out = at(side[me].out, k);
	int r;

	for (r = 0; r < ranks; r++)
		until(&side[r].worked, &side[me].worked_seen[r], side[me].base + k + 1);
	(is_past ? copy_streaming : copy_bytes)(out, of, mine);
	(is_past ? copy_streaming : copy_bytes)(out + behind, of + behind, length(k) - behind);
}

static void allreduce(int me)
{
	size_t step = is_crowded ? places : 1, lag = is_crowded ? 0 : 1, first, k, i;

	for (first = 0; first < chunks + 2 * lag; first += step) {
		for (i = 0; i < step; i++)
			if (first + i < chunks)
				sum_put(me, first + i);
		for (i = 0; i < step; i++) {
			k = first + i - lag;
			if (k < chunks)
				sum_combine(me, k);
		}
		for (i = 0; i < step; i++) {
			k = first + i - 2 * lag;
			if (k < chunks)
				sum_take(me, k);
		}
	}
	settle();
}

static void move_out(int me, size_t k, size_t to)
{
	until(&side[!me].put, &side[me].put_seen[!me], side[me].base + k + 1);
	copy_and_own((unsigned char *)side[me].out + to, slot(!me, k), length(k), is_past);
	done(&side[me].worked, me, k);
}

static void move_in(int me, size_t k, size_t to)
{
	size_t few = is_past ? BIT : length(k), i, n;
	unsigned char *out = (unsigned char *)side[me].out + to, *in = at(side[me].in, k);

	until_free(me, k);
	for (i = 0; i < length(k); i += n) {
		n = length(k) - i < few ? length(k) - i : few;
		copy_over(slot(me, k) + i, in + i, n);
		if (is_past)
			copy_streaming(out + i, in + i, n);
	}
	done(&side[me].put, me, k);
	if (!is_past)
		copy_over(out, in, length(k));
}

static void allgather(int me)
{
	size_t k;

	for (k = 0; k < chunks + 1; k++) {
		if (k < chunks)
			move_in(me, k, (size_t)me * bytes + k * chunk);
		if (k >= 1)
			move_out(me, k - 1, (size_t)!me * bytes + (k - 1) * chunk);
	}
	settle();
}

static void broadcast(int me)
{
	size_t k;

	for (k = 0; k < chunks; k++)
		if (me)
			move_out(me, k, k * chunk);
		else
			move_in(me, k, k * chunk);
	settle();
}

static void touch(int me)
{
	copy_scaled(RINGUP_F32, side[me].in, side[me].in, bytes / sizeof(float), .5);
}

static void copy(int me)
{
	(is_past ? copy_streaming : copy_bytes)(side[me].out, side[me].in, bytes);
	settle();
}

/* This rank's half of what both have, to where both want it. */
static void sum_shared(int me, float *to0, float *to1, bool past)
{
	const struct reduce how = { .dtype = RINGUP_F32, .redop = RINGUP_SUM };
	size_t first = me ? bytes / 2 : 0, end = me ? bytes : bytes / 2, i, n;

	for (i = first; i < end; i += n) {
		void *to[2] = { (char *)(me ? to1 : to0) + i, (char *)(me ? to0 : to1) + i };
		const void *of[2] = { (char *)side[0].in + i, (char *)side[1].in + i };

		n = end - i < BLOCK ? end - i : BLOCK;
		reduce_streaming(&how, to, 2, past ? 1 : 2, of, 2, n / sizeof(float));
	}
	settle();
	meet(me);
}

static void shared(int me)
{
	sum_shared(me, side[0].out, side[1].out, is_past);
}

static void inplace(int me)
{
	sum_shared(me, side[0].in, side[1].in, false);
}

static void forbidden(void)
{
	fputs("limits: the kernel does not copy between processes here\n", stderr);
	exit(1);
}

static uint64_t address(const float *p, size_t first)
{
	return (uint64_t)(uintptr_t)p + first;
}

/* Buffers lie at the same place in all processes. */
static void write_other(int me)
{
	if (cma_write(side[!me].pid, address(side[!me].out, 0), side[me].in, bytes))
		forbidden();
	meet(me);
}

static void read_other(int me)
{
	if (cma_read(side[!me].pid, side[me].out, address(side[!me].in, 0), bytes))
		forbidden();
	meet(me);
}

static void given(int me)
{
	size_t to = (size_t)me * bytes, i, n;

	for (i = 0; i < bytes; i += n) {
		n = bytes - i < PIECE ? bytes - i : PIECE;
		if (cma_write(side[!me].pid, address(side[!me].out, to + i),
			      (char *)side[me].in + i, n))
			forbidden();
		(is_past ? copy_streaming : copy_bytes)((char *)side[me].out + to + i,
							(char *)side[me].in + i, n);
	}
	settle();
	meet(me);
}

static enum copy_result result_of(void (*call)(int me))
{
	if (call == broadcast)
		return COPY_SHARED;
	if (call == shared)
		return COPY_ZCOPY;
	return call == allgather ? COPY_GATHERED : COPY_ALONE;
}

static const struct collective collectives[] = {
	{ "allreduce", allreduce, false }, { "allgather", allgather, true },
	{ "broadcast", broadcast, false }, { "shared", shared, false },
	{ "inplace", inplace, false },     { "touch", touch, false },
	{ "copy", copy, false },           { "write", write_other, false },
	{ "read", read_other, false },     { "given", given, true },
};

static const struct collective *what;
static double *us;
static int calls = CALLS;

static int processors(cpu_set_t *may)
{
	return sched_getaffinity(0, sizeof(*may), may) ? 1 : CPU_COUNT(may);
}

/* Two ranks are as far from each other as they can be, more in the order of processors. */
static void stay(int me)
{
	cpu_set_t may, one;
	int count = processors(&may), skip, cpu;

	skip = ranks > count ? me % count : me * (count - 1) / (ranks - 1);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && !skip--) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
			return;
		}
}

/* Microseconds of the last call. */
static double from_first_to_last(void)
{
	int64_t first = side[0].begun, last = side[0].ended;
	int r;

	for (r = 1; r < ranks; r++) {
		first = side[r].begun < first ? side[r].begun : first;
		last = side[r].ended > last ? side[r].ended : last;
	}
	return (double)(last - first) / 1e3;
}

static void run(int me)
{
	struct side *s = &side[me];
	int call;
	size_t i;

	stay(me);
	s->pid = getpid();
	for (call = 0; call < calls; call++) {
		if (is_cold && call % AFTER == 0)
			for (i = 0; i < OTHERS / sizeof(float); i++)
				s->others[i] += 1;
		for (i = 0; i < bytes / sizeof(float); i++)
			s->in[i] = (float)(i + (size_t)call);
		meet(me);
		s->begun = clock_ns();
		what->call(me);
		s->ended = clock_ns();
		s->base += chunks;
		meet(me);
		if (!me)
			us[call] = from_first_to_last();
		meet(me);
	}
}

static void lost(const char *step)
{
	fprintf(stderr, "limits: %s failed\n", step);
	exit(1);
}

/* Of all processes, zeros. */
static void *room(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		lost("mmap");
	return memset(p, 0, size);
}

/* What calls take, by how many there have been since others had the caches. */
static void say_after(void)
{
	double one[CALLS];
	int since, call, n;

	fputs("after others:", stdout);
	for (since = 0; since < AFTER; since++) {
		for (n = 0, call = since; call < calls; call += AFTER)
			one[n++] = us[call];
		printf(" %.0f", stats_median(one, n));
	}
	puts(" us");
}

static void measure(size_t size, struct placement *where)
{
	double hop = placement_probe(where);
	pid_t rank;
	int i, status;

	bytes = (what->of_both ? size / 2 : size) / 256 * 256;
	chunk = SLOT;
	places = SLOTS;
	if (what->call == broadcast) {
		places = (size_t)2 * SLOTS; /* both ranks' */
		chunk = bytes / 8 < 8192 ? 8192 : bytes / 8 < SLOT ? bytes / 8 / 64 * 64 : SLOT;
	}
	chunks = (bytes + chunk - 1) / chunk;
	is_past = (size_t)ranks * size >= copy_streaming_from(result_of(what->call));
	sums_past = is_past && copy_sums_stream();
	for (i = 0; i < ranks; i++) {
		memset(&side[i], 0, sizeof(side[i]));
		side[i].in = room(bytes);
		side[i].out = room(2 * bytes);
		side[i].slot = room(places * SLOT);
		side[i].others = is_cold ? room(OTHERS) : NULL;
	}
	/* Who ends early takes the others along. */
	for (i = 0; i < ranks; i++) {
		rank = fork();
		if (!rank) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run(i);
			_exit(0);
		}
		if (rank < 0)
			lost("fork");
	}
	for (i = 0; i < ranks; i++)
		if (waitpid(-1, &status, 0) < 0 || status)
			lost("a rank");
	for (i = 0; i < ranks; i++) {
		munmap(side[i].in, bytes);
		munmap(side[i].out, 2 * bytes);
		munmap(side[i].slot, places * SLOT);
		if (is_cold)
			munmap(side[i].others, OTHERS);
	}
	printf("%d %-10s %10zu B  hop %3.0f to %3.0f ns ", ranks, what->name, size, hop,
	       placement_probe(where));
	if (is_cold) {
		say_after();
		return;
	}
	/* The median sorts them. */
	printf("%10.2f us ", stats_median(us, calls));
	printf("(%.2f-%.2f)\n", stats_quantile(us, calls, .25), stats_quantile(us, calls, .75));
}

int main(int argc, char **argv)
{
	struct placement *where;
	cpu_set_t may;
	struct err e;
	size_t i;

	if (argc > 1 && !strcmp(argv[1], "cold")) {
		is_cold = true;
		calls = CALLS / 3 / AFTER * AFTER;
		argc--, argv++;
	}
	if (argc > 1 && !strncmp(argv[1], "ranks=", 6)) {
		ranks = atoi(argv[1] + 6);
		argc--, argv++;
	}
	is_crowded = ranks > processors(&may);
	for (i = 0; argc > 2 && i < sizeof(collectives) / sizeof(collectives[0]); i++)
		if (!strcmp(argv[1], collectives[i].name))
			what = &collectives[i];
	if (!what || ranks < 2 || ranks > RANKS_MOST ||
	    (ranks > 2 && what->call != allreduce)) {
		fputs("usage: limits [cold] [ranks=N] "
		      "allreduce|allgather|broadcast|shared|inplace|touch|copy|write|read|"
		      "given "
		      "BYTES...\n",
		      stderr);
		return 2;
	}
	if (placement_open(&where, &e)) {
		fprintf(stderr, "limits: %s\n", e.text);
		return 1;
	}
	side = room(RANKS_MOST * sizeof(*side));
	us = room(CALLS * sizeof(*us));
	for (argv += 2; *argv; argv++) {
		unsigned long long size = strtoull(*argv, NULL, 10);

		if (size >= LEAST && size <= MOST)
			measure(size, where);
		else
			fprintf(stderr, "limits: %s: not %d to %d bytes\n", *argv, LEAST, MOST);
	}
	placement_close(where);
	return 0;
}
