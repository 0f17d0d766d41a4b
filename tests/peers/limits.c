/* limits.c - how fast the steps of the node back end are with nothing around them. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 *	limits WHAT BYTES...
 *
 * WHAT is allreduce, allgather, broadcast, or touch: each thread halves a vector of its own,
 * which is the least that any sum in place has to do to memory.  Bytes are those that
 * `ringup bench` counts: of an allgather, of both blocks together.
 *
 * Two threads on two processors, of f32, not in place: the copies and sums of src/coll, by
 * chunks and slots as src/backend/node.c has them; no names, no agreement, no processes,
 * nobody who could fail.  Input is written before each call; a call takes as long as the
 * slower of the two.  What the library takes beyond that is the engine's.
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/stats.h"
#include "bench/placement.h"
#include "coll/copy.h"
#include "coll/reduce.h"

enum { SLOTS = 4, SLOT = 65536, CALLS = 501 };
enum { LEAST = 512, MOST = 1 << 30 };

struct side {
	float *in, *out;
	unsigned char *slot;
	alignas(64) uint64_t put;    /* chunks that are in the slots */
	alignas(64) uint64_t worked; /* chunks done with the other's */
	alignas(64) uint64_t met;
	uint64_t base, meetings, put_seen, worked_seen;
	double us;
};

static struct side side[2];
static size_t bytes, chunk, chunks, places;

struct collective {
	const char *name;
	void (*call)(int me);
	bool of_both; /* the size is that of both blocks */
};

static void until(const uint64_t *word, uint64_t *seen, uint64_t least)
{
	while (*seen < least)
		*seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void meet(int me)
{
	uint64_t n = ++side[me].meetings, seen = 0;

	__atomic_store_n(&side[me].met, n, __ATOMIC_RELEASE);
	until(&side[!me].met, &seen, n);
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
		until(&side[!me].worked, &side[me].worked_seen, g - places + 1);
}

/* Where the half of chunk @k begins that @owner adds up. */
static size_t half(size_t k, int owner)
{
	return owner ? length(k) / 128 * 64 : 0;
}

static size_t half_length(size_t k, int owner)
{
	return owner ? length(k) - half(k, 1) : half(k, 1);
}

static void sum_put(int me, size_t k)
{
	size_t from = half(k, !me);

	until_free(me, k);
	copy_over(slot(me, k) + from, at(side[me].in, k) + from, half_length(k, !me));
	done(&side[me].put, me, k);
}

static void sum_combine(int me, size_t k)
{
	const struct reduce how = { .dtype = RINGUP_F32, .redop = RINGUP_SUM };
	size_t from = half(k, me);
	unsigned char *theirs = slot(!me, k) + from;
	void *to[2] = { at(side[me].out, k) + from, theirs };
	const void *of[2];

	until(&side[!me].put, &side[me].put_seen, side[me].base + k + 1);
	of[me] = at(side[me].in, k) + from;
	of[!me] = theirs;
	reduce_many(&how, to, 2, of, 2, half_length(k, me) / sizeof(float));
	done(&side[me].worked, me, k);
}

static void sum_take(int me, size_t k)
{
	size_t from = half(k, !me);

	until(&side[!me].worked, &side[me].worked_seen, side[me].base + k + 1);
	copy_bytes(at(side[me].out, k) + from, slot(me, k) + from, half_length(k, !me));
}

static void allreduce(int me)
{
	size_t k;

	for (k = 0; k < chunks + 2; k++) {
		if (k < chunks)
			sum_put(me, k);
		if (k >= 1 && k - 1 < chunks)
			sum_combine(me, k - 1);
		if (k >= 2)
			sum_take(me, k - 2);
	}
}

static void move_out(int me, size_t k, size_t to)
{
	until(&side[!me].put, &side[me].put_seen, side[me].base + k + 1);
	copy_bytes((unsigned char *)side[me].out + to, slot(!me, k), length(k));
	done(&side[me].worked, me, k);
}

static void move_in(int me, size_t k, size_t to)
{
	until_free(me, k);
	copy_over(slot(me, k), at(side[me].in, k), length(k));
	done(&side[me].put, me, k);
	copy_over((unsigned char *)side[me].out + to, at(side[me].in, k), length(k));
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
}

static void broadcast(int me)
{
	size_t k;

	for (k = 0; k < chunks; k++)
		if (me)
			move_out(me, k, k * chunk);
		else
			move_in(me, k, k * chunk);
}

static void touch(int me)
{
	copy_scaled(RINGUP_F32, side[me].in, side[me].in, bytes / sizeof(float), .5);
}

static const struct collective collectives[] = {
	{ "allreduce", allreduce, false },
	{ "allgather", allgather, true },
	{ "broadcast", broadcast, false },
	{ "touch", touch, false },
};

static const struct collective *what;
static double us[CALLS];

/* The first processor that we may use, or the last. */
static void stay_on(bool last)
{
	cpu_set_t may, one;
	size_t i;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(may), &may))
		return;
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &may) && (last || !CPU_COUNT(&one))) {
			CPU_ZERO(&one);
			CPU_SET(i, &one);
		}
	sched_setaffinity(0, sizeof(one), &one);
}

static void *run(void *which)
{
	int me = which != NULL, call;
	struct side *s = &side[me];
	size_t i;

	stay_on(me);
	for (call = 0; call < CALLS; call++) {
		int64_t begun;

		for (i = 0; i < bytes / sizeof(float); i++)
			s->in[i] = (float)(i + (size_t)call);
		meet(me);
		begun = clock_ns();
		what->call(me);
		s->us = (double)(clock_ns() - begun) / 1e3;
		s->base += chunks;
		meet(me);
		if (!me)
			us[call] = s->us > side[1].us ? s->us : side[1].us;
		meet(me);
	}
	return NULL;
}

static void *room(size_t size)
{
	void *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

	if (!p) {
		fprintf(stderr, "limits: no memory for %zu bytes\n", size);
		exit(1);
	}
	memset(p, 0, size);
	return p;
}

static void measure(size_t size, struct placement *where)
{
	pthread_t thread[2];
	double hop = placement_probe(where);
	int i;

	bytes = (what->of_both ? size / 2 : size) / 256 * 256;
	chunk = SLOT;
	places = SLOTS;
	if (what->call == broadcast) {
		places = (size_t)2 * SLOTS; /* both ranks' */
		chunk = bytes / 8 < 8192 ? 8192 : bytes / 8 < SLOT ? bytes / 8 / 64 * 64 : SLOT;
	}
	chunks = (bytes + chunk - 1) / chunk;
	for (i = 0; i < 2; i++) {
		memset(&side[i], 0, sizeof(side[i]));
		side[i].in = room(bytes);
		side[i].out = room(2 * bytes);
		side[i].slot = room(places * SLOT);
	}
	for (i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, run, i ? &side : NULL)) {
			fputs("limits: no thread\n", stderr);
			exit(1);
		}
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < 2; i++) {
		free(side[i].in);
		free(side[i].out);
		free(side[i].slot);
	}
	printf("%-10s %10zu B  hop %3.0f to %3.0f ns  %10.2f us ", what->name, size, hop,
	       placement_probe(where), stats_median(us, CALLS));
	printf("(%.2f-%.2f)\n", stats_quantile(us, CALLS, .25), stats_quantile(us, CALLS, .75));
}

int main(int argc, char **argv)
{
	struct placement *where;
	struct err e;
	size_t i;

	for (i = 0; argc > 2 && i < sizeof(collectives) / sizeof(collectives[0]); i++)
		if (!strcmp(argv[1], collectives[i].name))
			what = &collectives[i];
	if (!what) {
		fputs("usage: limits allreduce|allgather|broadcast|touch BYTES...\n", stderr);
		return 2;
	}
	if (placement_open(&where, &e)) {
		fprintf(stderr, "limits: %s\n", e.text);
		return 1;
	}
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
