/* measure.c - how long a collective takes: warm up, time, check, repeat. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/pattern.h"
#include "coll/reduce.h"

/* Calls below this size are too short to be timed one by one, and their data is
 * in the nearest cache whether it has just been written or not. */
enum { SINGLE_BYTES = 256 << 10, SAMPLE_US = 200, MOST_CALLS = 1000 };

enum { WARM_UP = 5, LEAST_SAMPLES = 10, MOST_SAMPLES = 200, ALL_US = 500000 };

/* One size on its way. */
struct course {
	const struct measure *m;
	struct ringup_group *g;
	int rank, ranks;
	char name[64]; /* of the tensor */
	uint64_t count;
	void *in, *out;
	struct pattern pattern;
};

static const char *const names[] = {
	[MEASURE_ALLREDUCE] = "allreduce",
	[MEASURE_BROADCAST] = "broadcast",
	[MEASURE_ALLGATHER] = "allgather",
	[MEASURE_BARRIER] = "barrier",
};

int measure_find(const char *name)
{
	int i;

	for (i = 0; i <= MEASURE_BARRIER; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

const char *measure_name(enum measure_what what)
{
	return names[what];
}

static int told(int rc, struct err *e)
{
	return rc ? fail(e, rc, "%s", ringup_error()) : 0;
}

/* Combine a few numbers of all ranks, for the measurement's own use. */
static int agree(const struct course *c, double *v, uint64_t count, enum ringup_redop redop,
		 struct err *e)
{
	struct ringup_reduce r = {
		.in = v, .out = v, .count = count, .dtype = RINGUP_F64, .redop = redop
	};

	return told(ringup_allreduce(c->g, &r, NULL), e);
}

static int call_allreduce(struct course *c, struct err *e)
{
	struct ringup_reduce r = {
		.name = c->name,
		.in = c->in,
		.out = c->out,
		.count = c->count,
		.dtype = c->m->dtype,
		.redop = c->m->redop,
	};

	return told(ringup_allreduce(c->g, &r, NULL), e);
}

static int call_broadcast(struct course *c, struct err *e)
{
	struct ringup_bcast b = {
		.name = c->name,
		.in = c->rank ? NULL : c->in,
		.out = c->out,
		.count = c->count,
		.dtype = c->m->dtype,
	};

	return told(ringup_broadcast(c->g, &b, NULL), e);
}

static int call_allgather(struct course *c, struct err *e)
{
	uint64_t counts[1024], *all = counts;
	struct ringup_gather a = {
		.name = c->name,
		.in = c->in,
		.rows = c->count,
		.row = 1,
		.dtype = c->m->dtype,
		.out = &c->out,
	};
	int rc;

	if (c->ranks > 1024)
		all = malloc((size_t)c->ranks * sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "%d counts", c->ranks);
	a.counts = all;
	ringup_free(c->out);
	c->out = NULL;
	rc = told(ringup_allgather(c->g, &a, NULL), e);
	if (all != counts)
		free(all);
	return rc;
}

static int call_barrier(struct course *c, struct err *e)
{
	return told(ringup_barrier(c->g, c->name, NULL), e);
}

static int call(struct course *c, struct err *e)
{
	static int (*const calls[])(struct course *, struct err *) = {
		[MEASURE_ALLREDUCE] = call_allreduce,
		[MEASURE_BROADCAST] = call_broadcast,
		[MEASURE_ALLGATHER] = call_allgather,
		[MEASURE_BARRIER] = call_barrier,
	};

	return calls[c->m->what](c, e);
}

static uint64_t wrong_now(const struct course *c)
{
	size_t size = reduce_dtype_bytes(c->m->dtype);
	uint64_t wrong = 0;
	int i;

	switch (c->m->what) {
	case MEASURE_ALLREDUCE:
		return pattern_wrong_result(&c->pattern, c->out, c->count);
	case MEASURE_BROADCAST:
		return pattern_wrong(&c->pattern, 0, c->out, c->count);
	case MEASURE_ALLGATHER:
		for (i = 0; i < c->ranks; i++)
			wrong += pattern_wrong(&c->pattern, i,
					       (const unsigned char *)c->out +
						       (uint64_t)i * c->count * size,
					       c->count);
		return wrong;
	case MEASURE_BARRIER:
		break;
	}
	return 0;
}

/*
 * Write the input, meet, then @calls calls: microseconds for one.  Ranks leave a
 * meeting at different times, which one short call would show: several dilute it.
 */
static int sample(struct course *c, int calls, double *us, uint64_t *wrong, struct err *e)
{
	double nothing = 0;
	int64_t begun;
	int i, rc;

	c->pattern.iteration++;
	if (c->in)
		pattern_fill(&c->pattern, c->rank, c->in, c->count);
	rc = agree(c, &nothing, 1, RINGUP_SUM, e);
	begun = clock_ns();
	for (i = 0; i < calls && !rc; i++)
		rc = call(c, e);
	*us = (double)(clock_ns() - begun) / 1e3 / calls;
	if (!rc && c->m->check)
		*wrong += wrong_now(c);
	return rc;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How many calls make a sample, and how many samples: the same on all ranks. */
static int settle(struct course *c, struct measured *to, struct err *e)
{
	uint64_t ignored = 0;
	double us = 0;
	int i, rc = 0;

	for (i = 0; i < WARM_UP && !rc; i++)
		rc = sample(c, 1, &us, &ignored, e);
	if (!rc)
		rc = agree(c, &us, 1, RINGUP_MAX, e);
	if (rc)
		return rc;
	us = us > 0.01 ? us : 0.01;
	to->calls = 1;
	if (to->bytes < SINGLE_BYTES && us < SAMPLE_US)
		to->calls = SAMPLE_US / us > MOST_CALLS ? MOST_CALLS : (int)(SAMPLE_US / us);
	to->samples = c->m->samples;
	if (!to->samples) {
		double fit = ALL_US / (us * to->calls);

		to->samples = fit < LEAST_SAMPLES  ? LEAST_SAMPLES
			      : fit > MOST_SAMPLES ? MOST_SAMPLES
						   : (int)fit;
	}
	return 0;
}

static void rate(const struct course *c, struct measured *to)
{
	double n = c->ranks, share = 1;

	if (c->m->what == MEASURE_ALLREDUCE)
		share = 2 * (n - 1) / n;
	else if (c->m->what == MEASURE_ALLGATHER)
		share = (n - 1) / n;
	to->algbw = (double)to->bytes / to->median / 1e3;
	to->busbw = to->algbw * share;
}

static int measure_samples(struct course *c, struct measured *to, struct err *e)
{
	double *us, wrong;
	uint64_t mine = 0;
	int i, rc = settle(c, to, e);

	if (rc)
		return rc;
	us = calloc((size_t)to->samples, sizeof(*us));
	if (!us)
		return fail(e, RINGUP_ENOMEM, "%d samples", to->samples);
	for (i = 0; i < to->samples && !rc; i++)
		rc = sample(c, to->calls, &us[i], &mine, e);
	if (!rc)
		rc = agree(c, us, (uint64_t)to->samples, RINGUP_MAX, e);
	wrong = (double)mine;
	if (!rc)
		rc = agree(c, &wrong, 1, RINGUP_SUM, e);
	if (!rc) {
		qsort(us, (size_t)to->samples, sizeof(*us), by_size);
		to->min = us[0];
		to->median = us[to->samples / 2];
		to->max = us[to->samples - 1];
		to->wrong = (uint64_t)wrong;
		rate(c, to);
	}
	free(us);
	return rc;
}

int measure_run(struct ringup *r, const struct measure *m, struct measured *to, struct err *e)
{
	struct ringup_group *g = ringup_world(r);
	size_t size = reduce_dtype_bytes(m->dtype);
	struct course c = {
		.m = m,
		.g = g,
		.rank = ringup_rank(g),
		.ranks = ringup_size(g),
		.pattern = { m->dtype, m->redop, ringup_size(g), 0 },
	};
	uint64_t shares = m->what == MEASURE_ALLGATHER ? (uint64_t)c.ranks : 1;
	int rc;

	/* Only an allreduce combines; the others carry a rank's own data. */
	if (m->what != MEASURE_ALLREDUCE)
		c.pattern.redop = RINGUP_SUM;
	memset(to, 0, sizeof(*to));
	if (m->what != MEASURE_BARRIER) {
		c.count = m->bytes / size / shares;
		c.count = c.count ? c.count : 1;
		to->count = c.count;
		to->bytes = c.count * shares * size;
		c.in = malloc(c.count * size);
		c.out = m->what == MEASURE_ALLGATHER ? NULL : malloc(c.count * size);
	}
	snprintf(c.name, sizeof(c.name), "bench/%s/%d/%d/%llu", names[m->what], (int)m->dtype,
		 (int)m->redop, (unsigned long long)to->bytes);
	if (c.count && (!c.in || (!c.out && m->what != MEASURE_ALLGATHER)))
		rc = fail(e, RINGUP_ENOMEM, "%llu bytes, twice", (unsigned long long)to->bytes);
	else
		rc = measure_samples(&c, to, e);
	free(c.in);
	if (m->what == MEASURE_ALLGATHER)
		ringup_free(c.out);
	else
		free(c.out);
	return rc;
}
