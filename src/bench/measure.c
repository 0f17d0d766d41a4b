/* measure.c - carry out a task as one rank, by way of ringup.h alone, and time it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/gradset.h"
#include "bench/pattern.h"
#include "coll/reduce.h"

struct measure {
	struct ringup_group *g;
	int rank, ranks;

	struct task task; /* that the rest of the fields is for */
	bool ready;
	size_t size; /* of an element */
	void *in, *out;
	char name[128];
	uint64_t *counts;       /* of the blocks in an allgather */
	struct ringup_op **ops; /* of a set */
	struct pattern pattern;
};

static int told(int rc, struct err *e)
{
	return rc ? fail(e, rc, "%s", ringup_error()) : 0;
}

/* -- buffers -------------------------------------------------------------- */

static void release(struct measure *m)
{
	if (m->task.what == TASK_ALLGATHER)
		ringup_free(m->out);
	else if (m->out != m->in)
		free(m->out);
	free(m->in);
	m->in = m->out = NULL;
	m->ready = false;
}

static bool is_same(const struct task *a, const struct task *b)
{
	return a->what == b->what && a->set == b->set && a->dtype == b->dtype &&
	       a->redop == b->redop && a->in_place == b->in_place && a->count == b->count;
}

/* The library itself makes room for what an allgather yields. */
static int acquire(struct measure *m, struct err *e)
{
	uint64_t bytes = m->task.count * m->size;

	if (!bytes)
		return 0;
	m->in = malloc(bytes);
	m->out = m->in;
	if (m->task.what == TASK_ALLGATHER)
		m->out = NULL;
	else if (!m->task.in_place && !m->task.set)
		m->out = malloc(bytes);
	if (!m->in || (!m->out && m->task.what != TASK_ALLGATHER))
		return fail(e, RINGUP_ENOMEM, "buffers of %llu bytes",
			    (unsigned long long)bytes);
	/* No page is touched for the first time in a sample. */
	memset(m->out ? m->out : m->in, 0, bytes);
	return 0;
}

static int prepare(struct measure *m, const struct task *t, struct err *e)
{
	uint32_t iteration = m->pattern.iteration;

	if (m->ready && is_same(&m->task, t))
		return 0;
	release(m);
	m->task = *t;
	m->ready = true;
	m->size = reduce_dtype_bytes(t->dtype);
	/* Only some combine; the others carry a rank's own data. */
	m->pattern = (struct pattern){
		t->dtype,
		t->what == TASK_ALLREDUCE || t->what == TASK_SET ? t->redop : RINGUP_SUM,
		m->ranks,
		iteration,
	};
	snprintf(m->name, sizeof(m->name), "bench/%s/%s/%s/%llu", task_name(t),
		 reduce_dtype_name(t->dtype), reduce_redop_name(t->redop),
		 (unsigned long long)t->count);
	return acquire(m, e);
}

/* -- calls ---------------------------------------------------------------- */

/* Combine a few numbers of all ranks, for the measurement's own use. */
static int agree(struct measure *m, double *v, int count, enum ringup_redop redop,
		 struct err *e)
{
	struct ringup_reduce r = {
		.in = v,
		.out = v,
		.count = (uint64_t)count,
		.dtype = RINGUP_F64,
		.redop = redop,
	};

	return told(ringup_allreduce(m->g, &r, NULL), e);
}

static int call_allreduce(struct measure *m, struct err *e)
{
	struct ringup_reduce r = {
		.name = m->name,
		.in = m->in,
		.out = m->out,
		.count = m->task.count,
		.dtype = m->task.dtype,
		.redop = m->task.redop,
	};

	return told(ringup_allreduce(m->g, &r, NULL), e);
}

static int call_broadcast(struct measure *m, struct err *e)
{
	struct ringup_bcast b = {
		.name = m->name,
		.in = m->rank ? NULL : m->in,
		.out = m->out,
		.count = m->task.count,
		.dtype = m->task.dtype,
	};

	return told(ringup_broadcast(m->g, &b, NULL), e);
}

static int call_allgather(struct measure *m, struct err *e)
{
	struct ringup_gather a = {
		.name = m->name,
		.in = m->in,
		.rows = m->task.count,
		.row = 1,
		.dtype = m->task.dtype,
		.out = &m->out,
		.counts = m->counts,
	};

	ringup_free(m->out);
	m->out = NULL;
	return told(ringup_allgather(m->g, &a, NULL), e);
}

static int call_barrier(struct measure *m, struct err *e)
{
	return told(ringup_barrier(m->g, m->name, NULL), e);
}

/* Everything is submitted before anything is waited for, as a backward pass does. */
static int call_set(struct measure *m, struct err *e)
{
	const struct gradset *s = m->task.set;
	unsigned char *at = m->in;
	int i, n, rc = 0, failed;

	for (n = 0; n < s->count && !rc; n++) {
		struct ringup_reduce r = {
			.name = s->tensor[n].name,
			.in = at,
			.out = at,
			.count = s->tensor[n].count,
			.dtype = m->task.dtype,
			.redop = m->task.redop,
		};

		rc = told(ringup_allreduce(m->g, &r, &m->ops[n]), e);
		at += s->tensor[n].count * m->size;
	}
	if (rc)
		n--;
	for (i = 0; i < n; i++) {
		failed = ringup_wait(m->ops[i], -1);
		if (failed && !rc)
			rc = told(failed, e);
	}
	return rc;
}

static int call(struct measure *m, struct err *e)
{
	static int (*const calls[])(struct measure *, struct err *) = {
		[TASK_ALLREDUCE] = call_allreduce,
		[TASK_BROADCAST] = call_broadcast,
		[TASK_ALLGATHER] = call_allgather,
		[TASK_BARRIER] = call_barrier,
		[TASK_SET] = call_set,
	};

	return calls[m->task.what](m, e);
}

/* -- data ----------------------------------------------------------------- */

static void fill(struct measure *m)
{
	const struct gradset *s = m->task.set;
	unsigned char *at = m->in;
	int i;

	m->pattern.iteration++;
	for (i = 0; s && i < s->count; i++) {
		pattern_fill(&m->pattern, m->rank, at, s->tensor[i].count);
		at += s->tensor[i].count * m->size;
	}
	if (!s && m->in)
		pattern_fill(&m->pattern, m->rank, m->in, m->task.count);
	/* In place, only the root has what is broadcast. */
	if (m->task.what == TASK_BROADCAST && m->task.in_place && m->rank)
		memset(m->in, 0xff, m->task.count * m->size);
}

static uint64_t wrong_of_set(const struct measure *m)
{
	const struct gradset *s = m->task.set;
	const unsigned char *at = m->out;
	uint64_t wrong = 0;
	int i;

	for (i = 0; i < s->count; i++) {
		wrong += pattern_wrong_result(&m->pattern, at, s->tensor[i].count);
		at += s->tensor[i].count * m->size;
	}
	return wrong;
}

static uint64_t wrong_of_blocks(const struct measure *m)
{
	const unsigned char *at = m->out;
	uint64_t wrong = 0, bytes = m->task.count * m->size;
	int i;

	for (i = 0; i < m->ranks; i++, at += bytes)
		wrong += pattern_wrong(&m->pattern, i, at, m->task.count);
	return wrong;
}

static uint64_t wrong_now(const struct measure *m)
{
	switch (m->task.what) {
	case TASK_ALLREDUCE:
		return pattern_wrong_result(&m->pattern, m->out, m->task.count);
	case TASK_BROADCAST:
		return pattern_wrong(&m->pattern, 0, m->out, m->task.count);
	case TASK_ALLGATHER:
		return wrong_of_blocks(m);
	case TASK_SET:
		return wrong_of_set(m);
	default:
		return 0;
	}
}

/* -- samples -------------------------------------------------------------- */

/*
 * Write the input, meet, then @calls calls: microseconds for one.  Ranks leave a
 * meeting at different times, which one short call would show: several dilute it.
 */
static int sample(struct measure *m, int calls, double *us, struct err *e)
{
	double nothing = 0;
	int64_t begun;
	int i, rc;

	fill(m);
	rc = agree(m, &nothing, 1, RINGUP_SUM, e);
	begun = clock_ns();
	for (i = 0; i < calls && !rc; i++)
		rc = call(m, e);
	*us = (double)(clock_ns() - begun) / 1e3 / calls;
	return rc;
}

/* What several sums in place add up to is known to nobody: one call is checked. */
static bool repeats_in_place(const struct task *t, const struct dose *d)
{
	return d->calls > 1 && (t->in_place || t->what == TASK_SET) &&
	       t->what != TASK_BROADCAST && t->what != TASK_BARRIER;
}

int measure_play(struct measure *m, const struct task *t, const struct dose *d, double *us,
		 int64_t *wrong, struct err *e)
{
	bool apart = repeats_in_place(t, d);
	double ignored;
	int i, rc = prepare(m, t, e);

	*wrong = 0;
	for (i = 0; i < d->warm && !rc; i++)
		rc = sample(m, d->calls, &ignored, e);
	if (d->check && apart && !rc) {
		rc = sample(m, 1, &ignored, e);
		*wrong += (int64_t)wrong_now(m);
	}
	for (i = 0; i < d->samples && !rc; i++) {
		rc = sample(m, d->calls, &us[i], e);
		if (d->check && !apart && !rc)
			*wrong += (int64_t)wrong_now(m);
	}
	return rc;
}

static int play(void *self, const struct task *t, const struct dose *d, double *us,
		int64_t *wrong, struct err *e)
{
	struct measure *m = self;
	double all_wrong;
	int rc = measure_play(m, t, d, us, wrong, e);

	all_wrong = (double)*wrong;
	if (!rc)
		rc = agree(m, us, d->samples, RINGUP_MAX, e);
	if (!rc)
		rc = agree(m, &all_wrong, 1, RINGUP_SUM, e);
	*wrong = d->check ? (int64_t)all_wrong : -1;
	return rc;
}

struct player measure_player(struct measure *m)
{
	return (struct player){ .name = "ringup", .play = play, .self = m };
}

int measure_open(struct ringup *r, struct measure **mp, struct err *e)
{
	struct measure *m = calloc(1, sizeof(*m));

	if (!m)
		return fail(e, RINGUP_ENOMEM, "a measurement");
	m->g = ringup_world(r);
	m->rank = ringup_rank(m->g);
	m->ranks = ringup_size(m->g);
	m->counts = calloc((size_t)m->ranks, sizeof(*m->counts));
	m->ops = calloc(GRADSET_TENSORS, sizeof(struct ringup_op *));
	if (!m->counts || !m->ops) {
		fail(e, RINGUP_ENOMEM, "a measurement of %d ranks", m->ranks);
		measure_close(m);
		return RINGUP_ENOMEM;
	}
	*mp = m;
	return 0;
}

void measure_close(struct measure *m)
{
	if (!m)
		return;
	release(m);
	free(m->counts);
	free(m->ops);
	free(m);
}
