/* recording.c - what a timeline costs the ranks that are recorded. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 *	recording [ranks=N] [compute=MICROSECONDS] [blocks=N]
 *
 * Prints medians, of blocks with the timeline and without it in turn:
 *
 * - a trace point alone: reading the clock, and a record on the thread's ring;
 * - a blocking sum of 8 bytes, and how many events of the file it is: the difference by that
 *   number is what an event costs in the engine, of rank 0, whose file it is;
 * - a step: the gradients of a ResNet-50, 161 tensors of 102 MB, started one after the other as
 *   they would be in backward(), with so many microseconds of computing in between, and
 *   waited for; the share of a step that the timeline takes.
 *
 * Two ranks if not said otherwise, and 20 ms of computing a step.  With one rank there is
 * none to wait for: what is left is what the calls take.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/stats.h"
#include "family.h"
#include "trace/trace.h"

enum {
	BURST = 8192, /* records that a ring takes while nobody empties it */
	CALLS = 2000, /* of a block                                        */
	STEPS = 3,    /* likewise                                          */
	TENSORS = 161,
	MOST_BLOCKS = 1001,
};

static int ranks = 2, blocks = 41;
static double compute_us = 20000;
static char path[64];

static void must(int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "recording: rank %d: %s\n", family_rank, ringup_error());
	exit(1);
}

/* ---- a trace point ---- */

static double burst_ns(struct trace *t)
{
	struct trace_record r = { .label = 1, .what = TRACE_END };
	int64_t begun = clock_ns();
	int i;

	for (i = 0; i < BURST; i++) {
		r.ns = clock_ns();
		trace_put(t, &r);
	}
	return (double)(clock_ns() - begun) / BURST;
}

static void measure_point(void)
{
	struct trace_origin from = { .size = 1, .host = "", .clock = "" };
	static double ns[MOST_BLOCKS];
	struct trace t = { 0 };
	struct err e;
	int i;

	if (trace_start(&t, path, TRACE_ON, &from, &e)) {
		fprintf(stderr, "recording: %s\n", e.text);
		exit(1);
	}
	for (i = 0; i < blocks; i++) {
		ns[i] = burst_ns(&t);
		/* Its writer empties the ring meanwhile. */
		clock_sleep_ms(3LL * TRACE_FLUSH_MS);
	}
	trace_close(&t);
	printf("a trace point         %8.1f ns\n", stats_median(ns, blocks));
}

/* ---- with and without ---- */

static struct ringup *job;

static void record(bool on)
{
	if (on)
		must(ringup_timeline_start(job, path, 0));
	else
		must(ringup_timeline_stop(job));
	must(ringup_barrier(ringup_world(job), "both", NULL));
}

/* Medians of rank 0's blocks, in microseconds a turn, without and with. */
static void measure(void (*turn)(void), int turns, double *off, double *on)
{
	static double us[2][MOST_BLOCKS];
	int64_t begun;
	int i, k;

	for (i = 0; i < 2 * blocks; i++) {
		record(i % 2);
		turn();
		begun = clock_ns();
		for (k = 0; k < turns; k++)
			turn();
		us[i % 2][i / 2] = (double)(clock_ns() - begun) / 1e3 / turns;
	}
	record(false);
	*off = stats_median(us[0], blocks);
	*on = stats_median(us[1], blocks);
}

static float small[2];

static void sum_small(void)
{
	struct ringup_reduce a = {
		.name = "small", .in = small, .out = small, .count = 2, .dtype = RINGUP_F32
	};

	small[0] = small[1] = 1;
	must(ringup_allreduce(ringup_world(job), &a, NULL));
}

/* Events in the file of what turn() does once, ticks of ranks and all. */
static double count_events(void (*turn)(void))
{
	enum { TURNS = 100 };
	char line[4096];
	FILE *f;
	int i, n = 0;

	record(true);
	for (i = 0; i < TURNS; i++)
		turn();
	record(false);
	f = family_rank ? NULL : fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		n += !strncmp(line, "{\"ph\"", 5);
	if (f)
		fclose(f);
	/* But for the barrier's. */
	return (double)(n - 2 - ranks) / TURNS;
}

static uint64_t count[TENSORS];
static float *gradient[TENSORS];
static char name[TENSORS][24];
static double heat;

/* Of a ResNet-50 in the order of backward(): few are large, most are tiny. */
static void make_gradients(void)
{
	int i;

	for (i = 0; i < TENSORS; i++) {
		count[i] = i == 0 ? 2048000 : i % 3 ? 64 << i % 5 : 36864 << i % 7;
		gradient[i] = calloc(count[i], sizeof(float));
		snprintf(name[i], sizeof(name[i]), "gradient.%d", i);
		if (!gradient[i])
			exit(1);
	}
}

static void compute(double us)
{
	int64_t until = clock_ns() + (int64_t)(us * 1e3);
	int i;

	while (clock_ns() < until)
		for (i = 0; i < 100; i++)
			heat += i;
}

static void step(void)
{
	struct ringup_op *op[TENSORS];
	int i;

	for (i = 0; i < TENSORS; i++) {
		struct ringup_reduce a = { .name = name[i],
					   .in = gradient[i],
					   .out = gradient[i],
					   .count = count[i],
					   .dtype = RINGUP_F32,
					   .redop = RINGUP_AVERAGE };

		compute(compute_us / TENSORS);
		must(ringup_allreduce(ringup_world(job), &a, &op[i]));
	}
	for (i = 0; i < TENSORS; i++)
		must(ringup_wait(op[i], -1));
}

static int body(void)
{
	double off, on, events;

	must(family_join(&job));
	make_gradients();
	sum_small();
	measure(sum_small, CALLS, &off, &on);
	events = count_events(sum_small);
	if (!family_rank) {
		printf("a sum of 8 bytes      %8.3f us, recorded %8.3f us, %.0f events\n", off,
		       on, events);
		printf("an event              %8.1f ns\n", (on - off) * 1e3 / events);
	}
	step();
	measure(step, STEPS, &off, &on);
	events = count_events(step);
	if (!family_rank) {
		printf("a step                %8.3f ms, recorded %8.3f ms, %.0f events\n",
		       off / 1e3, on / 1e3, events);
		printf("its share             %8.2f %%\n", (on / off - 1) * 100);
	}
	ringup_fini(job);
	return 0;
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/ringup-recording-XXXXXX";
	int status[FAMILY_MAX], i, bad = 0;

	for (i = 1; i < argc; i++)
		if (sscanf(argv[i], "ranks=%d", &ranks) != 1 &&
		    sscanf(argv[i], "compute=%lf", &compute_us) != 1 &&
		    sscanf(argv[i], "blocks=%d", &blocks) != 1)
			bad = 1;
	if (bad || ranks < 1 || ranks > FAMILY_MAX || blocks < 1 || blocks > MOST_BLOCKS ||
	    !mkdtemp(dir)) {
		fprintf(stderr, "recording [ranks=1..%d] [compute=MICROSECONDS] [blocks=N]\n",
			FAMILY_MAX);
		return 2;
	}
	snprintf(path, sizeof(path), "%s/t.json", dir);
	measure_point();
	family_run(ranks, body, status);
	for (i = 0; i < ranks; i++)
		bad |= status[i];
	family_end();
	unlink(path);
	rmdir(dir);
	return bad != 0;
}
