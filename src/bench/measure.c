/* measure.c - carry out a task as one rank, through ringup.h alone, and time it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/gradset.h"
#include "bench/groups.h"
#include "bench/pattern.h"
#include "coll/reduce.h"

/* The place of the members in their buffer, in bytes. */
struct layout {
	uint64_t first, step; /* offset of the first one, distance to the next */
};

/* The task in one group of this rank. */
struct part {
	struct ringup_group *g;
	int rank, ranks;         /* in the group */
	void *in, *out;          /* buffers of the members; in place, the same */
	struct layout ins, outs; /* the members' places in them               */
	uint64_t gives, takes;   /* elements of one member in each */
	void **got;              /* members in out, allocated by the library */
	uint64_t *counts;        /* received block lengths; ranks entries */
	uint64_t *blocks;        /* expected block lengths; ranks entries */
	struct ringup_op **ops;  /* of a set, or one */
	struct pattern pattern;
};

struct measure {
	struct ringup_group *world;
	struct part *part;
	int parts;
	bool shared; /* buffers that other ranks can reach */

	struct task task; /* the task that the buffers are for */
	bool ready;
	size_t size; /* of an element */
	char name[128];
};

static int checked(int rc, struct err *e)
{
	return rc ? fail(e, rc, "%s", ringup_error()) : 0;
}

/* -- buffers -------------------------------------------------------------- */

static bool is_in_place(const struct task *t)
{
	return t->set || (t->in_place && task_has_place(t));
}

static void measure_drop(bool theirs, void *buffer)
{
	if (theirs)
		ringup_free(buffer);
	else
		free(buffer);
}

void measure_rest(struct measure *m)
{
	for (int i = 0; i < m->parts; i++) {
		struct part *p = &m->part[i];

		if (p->out != p->in)
			measure_drop(m->shared, p->out);
		measure_drop(m->shared, p->in);
		p->in = p->out = NULL;
		free(p->got);
		free(p->counts);
		p->got = NULL;
		p->counts = NULL;
	}
	m->ready = false;
}

static bool measure_is_same(const struct task *a, const struct task *b)
{
	return a->what == b->what && a->set == b->set && a->dtype == b->dtype &&
	       a->redop == b->redop && a->in_place == b->in_place && a->uneven == b->uneven &&
	       a->count == b->count && a->members == b->members;
}

/* Allocates and writes a buffer, so that no sample is the first to touch a page. */
static void *room(const struct measure *m, uint64_t count)
{
	/* An empty buffer needs an address, too. */
	uint64_t bytes = count ? count * m->size : 1;
	void *p = m->shared ? ringup_alloc(bytes) : malloc(bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

/* In place, the shorter side lies at this rank's block of the longer one. */
static void lay(struct measure *m, struct part *p)
{
	const struct task *t = &m->task;
	uint64_t before = task_before(t, p->ranks, p->rank) * m->size;

	p->ins = (struct layout){ 0, p->gives * m->size };
	p->outs = (struct layout){ 0, p->takes * m->size };
	if (is_in_place(t) && p->gives < p->takes)
		p->ins = (struct layout){ before, p->outs.step };
	if (is_in_place(t) && p->takes < p->gives)
		p->outs = (struct layout){ before, p->ins.step };
}

static int acquire(struct measure *m, struct part *p, struct err *e)
{
	const struct task *t = &m->task;
	uint64_t members = (uint64_t)task_members(t);

	for (int i = 0; i < p->ranks; i++)
		p->blocks[i] = task_block(t, p->ranks, i);
	p->gives = task_gives(t, p->ranks, p->rank);
	p->takes = task_takes(t, p->ranks, p->rank);
	lay(m, p);
	if (is_in_place(t)) {
		p->in = p->out = room(m, (p->gives < p->takes ? p->takes : p->gives) * members);
	} else {
		p->in = room(m, p->gives * members);
		p->out = room(m, p->takes * members);
	}
	p->got = calloc(members, sizeof(*p->got));
	p->counts = calloc(members * (uint64_t)p->ranks, sizeof(*p->counts));
	if (!p->in || !p->out || !p->got || !p->counts)
		return fail(e, RINGUP_ENOMEM,
			    "no memory for %llu buffers of %llu and %llu elements",
			    (unsigned long long)members, (unsigned long long)p->gives,
			    (unsigned long long)p->takes);
	return 0;
}

static int measure_prepare(struct measure *m, const struct task *t, struct err *e)
{
	int rc = 0;

	if (m->ready && measure_is_same(&m->task, t))
		return 0;
	measure_rest(m);
	m->task = *t;
	m->ready = true;
	m->size = reduce_dtype_bytes(t->dtype);
	snprintf(m->name, sizeof(m->name), "bench/%s/%s/%s/%llu", task_name(t),
		 reduce_dtype_name(t->dtype), reduce_redop_name(t->redop),
		 (unsigned long long)t->count);
	for (int i = 0; i < m->parts && !rc; i++) {
		struct part *p = &m->part[i];

		p->pattern.dtype = t->dtype;
		/* A task that does not combine moves a rank's own data. */
		p->pattern.redop = task_combines(t) ? t->redop : RINGUP_SUM;
		p->pattern.ranks = p->ranks;
		rc = acquire(m, p, e);
	}
	return rc;
}

/* -- calls ---------------------------------------------------------------- */

/* Combines a few numbers of all ranks, for the measurement's own use.  It has a @name, since an
 * unnamed call would get a new number, and cold memory, each time. */
static int agree(struct measure *m, const char *name, double *v, int count,
		 enum ringup_redop redop, struct err *e)
{
	struct ringup_reduce r = {
		.bytes = sizeof(struct ringup_reduce),
		.name = name,
		.in = v,
		.out = v,
		.count = (uint64_t)count,
		.dtype = RINGUP_F64,
		.redop = redop,
	};

	return checked(ringup_allreduce(m->world, &r, NULL), e);
}

/* The place of member @i. */
static void *in_of(const struct part *p, int i)
{
	return (unsigned char *)p->in + p->ins.first + (uint64_t)i * p->ins.step;
}

static void *out_of(const struct part *p, int i)
{
	return (unsigned char *)p->out + p->outs.first + (uint64_t)i * p->outs.step;
}

static struct ringup_reduce sum_of(const struct measure *m, const struct part *p, int i)
{
	return (struct ringup_reduce){
		.bytes = sizeof(struct ringup_reduce),
		.name = m->name,
		.in = in_of(p, i),
		.out = out_of(p, i),
		.count = m->task.count,
		.dtype = m->task.dtype,
		.redop = m->task.redop,
	};
}

static struct ringup_gather gather_of(const struct measure *m, struct part *p, int i)
{
	return (struct ringup_gather){
		.bytes = sizeof(struct ringup_gather),
		.name = m->name,
		.in = in_of(p, i),
		.rows = p->gives,
		.row = 1,
		.dtype = m->task.dtype,
		.out = &p->got[i],
		.counts = p->counts + i * p->ranks,
		.into = out_of(p, i),
		.into_bytes = p->takes * m->size,
	};
}

static struct ringup_scatter scatter_of(const struct measure *m, const struct part *p, int i)
{
	uint64_t rows = task_rows(&m->task, p->ranks);

	return (struct ringup_scatter){
		.bytes = sizeof(struct ringup_scatter),
		.name = m->name,
		.in = in_of(p, i),
		.rows = rows,
		.row = p->gives / rows,
		.out = out_of(p, i),
		.dtype = m->task.dtype,
		.redop = m->task.redop,
	};
}

/* Calls members together.  A separate function, since its large stack would slow the others. */
static __attribute__((noinline)) int call_members(const struct measure *m, struct part *p,
						  struct ringup_op **op)
{
	union {
		struct ringup_reduce sum[TASK_MEMBERS];
		struct ringup_gather gather[TASK_MEMBERS];
		struct ringup_scatter scatter[TASK_MEMBERS];
	} of;
	int i, n = task_members(&m->task);

	switch (m->task.what) {
	case TASK_ALLREDUCE:
		for (i = 0; i < n; i++)
			of.sum[i] = sum_of(m, p, i);
		return ringup_allreduce_many(p->g, of.sum, n, op);
	case TASK_ALLGATHER:
		for (i = 0; i < n; i++)
			of.gather[i] = gather_of(m, p, i);
		return ringup_allgather_many(p->g, of.gather, n, op);
	default:
		for (i = 0; i < n; i++)
			of.scatter[i] = scatter_of(m, p, i);
		return ringup_reducescatter_many(p->g, of.scatter, n, op);
	}
}

/* Each of these carries out the task in a group: with @op NULL to its end, else it only starts
 * it. */
static int call_allreduce(const struct measure *m, struct part *p, struct ringup_op **op)
{
	struct ringup_reduce r = sum_of(m, p, 0);

	return ringup_allreduce(p->g, &r, op);
}

static int call_broadcast(const struct measure *m, struct part *p, struct ringup_op **op)
{
	struct ringup_bcast b = {
		.bytes = sizeof(struct ringup_bcast),
		.name = m->name,
		.in = p->rank ? NULL : p->in,
		.out = p->out,
		.count = m->task.count,
		.dtype = m->task.dtype,
	};

	return ringup_broadcast(p->g, &b, op);
}

static int call_allgather(const struct measure *m, struct part *p, struct ringup_op **op)
{
	struct ringup_gather a = gather_of(m, p, 0);

	return ringup_allgather(p->g, &a, op);
}

static int call_reducescatter(const struct measure *m, struct part *p, struct ringup_op **op)
{
	struct ringup_scatter r = scatter_of(m, p, 0);

	return ringup_reducescatter(p->g, &r, op);
}

static int call_alltoall(const struct measure *m, struct part *p, struct ringup_op **op)
{
	struct ringup_exchange x = {
		.bytes = sizeof(struct ringup_exchange),
		.name = m->name,
		.in = p->in,
		.rows = p->gives,
		.row = 1,
		.splits = m->task.uneven ? p->blocks : NULL,
		.dtype = m->task.dtype,
		.out = p->got,
		.counts = p->counts,
		.into = p->out,
		.into_bytes = p->takes * m->size,
	};

	return ringup_alltoall(p->g, &x, op);
}

static int call_barrier(const struct measure *m, struct part *p, struct ringup_op **op)
{
	return ringup_barrier(p->g, m->name, op);
}

typedef int start_fn(const struct measure *m, struct part *p, struct ringup_op **op);

static start_fn *const starts[] = {
#define X(kind, word, activity, traits) call_##word,
	COLLECTIVES(X)
#undef X
};

static start_fn *start_of(const struct task *t)
{
	return task_members(t) > 1 ? call_members : starts[t->what];
}

/* Submits everything before it waits for anything, as a backward pass does.  Sets *@started to
 * the number of p->ops to wait for. */
static int start_set(const struct measure *m, struct part *p, int *started)
{
	const struct gradset *s = m->task.set;
	unsigned char *at = p->in;
	int rc = 0;

	for (*started = 0; *started < s->count; (*started)++) {
		const struct gradset_tensor *t = &s->tensor[*started];
		struct ringup_reduce r = {
			.bytes = sizeof(struct ringup_reduce),
			.name = t->name,
			.in = at,
			.out = at,
			.count = t->count,
			.dtype = m->task.dtype,
			.redop = m->task.redop,
		};

		rc = ringup_allreduce(p->g, &r, &p->ops[*started]);
		if (rc)
			break;
		at += t->count * m->size;
	}
	return rc;
}

static int wait_all(struct part *p, int started, struct err *e)
{
	int one, rc = 0;

	for (int i = 0; i < started; i++) {
		one = ringup_wait(p->ops[i], -1);
		if (one && !rc)
			rc = checked(one, e);
	}
	return rc;
}

/* For several groups, or a set: starts all, then waits for all. */
static int call_many(struct measure *m, struct err *e)
{
	int started[GROUPS_MOST] = { 0 }, i, rc = 0, other;

	for (i = 0; i < m->parts && !rc; i++) {
		if (m->task.set) {
			rc = checked(start_set(m, &m->part[i], &started[i]), e);
			continue;
		}
		rc = checked(start_of(&m->task)(m, &m->part[i], &m->part[i].ops[0]), e);
		started[i] = !rc;
	}
	for (i = 0; i < m->parts; i++) {
		other = wait_all(&m->part[i], started[i], rc ? NULL : e);
		rc = rc ? rc : other;
	}
	return rc;
}

static int call(struct measure *m, struct err *e)
{
	if (m->parts != 1 || m->task.set)
		return call_many(m, e);
	return checked(start_of(&m->task)(m, m->part, NULL), e);
}

/* -- data ----------------------------------------------------------------- */

/* The pattern of block @i of a rank's member; each block has another. */
static struct pattern measure_block(const struct part *p, int member, int i)
{
	struct pattern one = p->pattern;

	/* An odd number, since results repeat with every eighth iteration. */
	one.iteration += (uint32_t)(member * 3 + i);
	return one;
}

static void fill_set(struct measure *m, struct part *p)
{
	const struct gradset *s = m->task.set;
	unsigned char *at = p->in;

	for (int i = 0; i < s->count; i++) {
		pattern_fill(&p->pattern, p->rank, at, s->tensor[i].count);
		at += s->tensor[i].count * m->size;
	}
}

static void measure_fill(struct measure *m, struct part *p)
{
	/* A block for each rank, or only this rank's own. */
	bool all = collective_is(m->task.what, COLLECTIVE_PARTS);
	const uint64_t *blocks = all ? p->blocks : p->blocks + p->rank;

	p->pattern.iteration++;
	if (m->task.set) {
		fill_set(m, p);
		return;
	}
	for (int j = 0; j < task_members(&m->task); j++) {
		unsigned char *at = in_of(p, j);

		for (int i = 0; i < (all ? p->ranks : 1); i++) {
			struct pattern one = measure_block(p, j, i);

			pattern_fill(&one, p->rank, at, blocks[i]);
			at += blocks[i] * m->size;
		}
	}
	/* In place, only the root has the data of a broadcast. */
	if (collective_is(m->task.what, COLLECTIVE_ROOT) && m->task.in_place && p->rank)
		memset(p->in, 0xff, p->gives * m->size);
}

static uint64_t wrong_of_set(const struct measure *m, const struct part *p)
{
	const struct gradset *s = m->task.set;
	const unsigned char *at = p->out;
	uint64_t wrong = 0;

	for (int i = 0; i < s->count; i++) {
		wrong += pattern_wrong_result(&p->pattern, at, s->tensor[i].count);
		at += s->tensor[i].count * m->size;
	}
	return wrong;
}

/* Wrong elements in blocks of all ranks: their only one, or the one for this rank. */
static uint64_t wrong_of_blocks(const struct measure *m, const struct part *p, int member)
{
	bool mine = collective_is(m->task.what, COLLECTIVE_PARTS);
	struct pattern one = measure_block(p, member, mine ? p->rank : 0);
	const unsigned char *at = out_of(p, member);
	const uint64_t *counts = p->counts + member * p->ranks;
	uint64_t wrong = 0, n;

	for (int i = 0; i < p->ranks; i++, at += n * m->size) {
		n = p->blocks[mine ? p->rank : i];
		wrong += counts[i] == n ? pattern_wrong(&one, i, at, n) : n + counts[i];
	}
	return wrong;
}

static uint64_t wrong_in(const struct measure *m, const struct part *p, int member)
{
	struct pattern first = measure_block(p, member, 0),
		       mine = measure_block(p, member, p->rank);
	const void *out = out_of(p, member);

	switch (m->task.what) {
	case TASK_ALLREDUCE:
		return pattern_wrong_result(&first, out, p->takes);
	case TASK_BROADCAST:
		return pattern_wrong(&first, 0, out, p->takes);
	case TASK_ALLGATHER:
	case TASK_ALLTOALL:
		return wrong_of_blocks(m, p, member);
	case TASK_REDUCESCATTER:
		return pattern_wrong_result(&mine, out, p->takes);
	case TASK_SET:
		return wrong_of_set(m, p);
	case TASK_BARRIER:
		break;
	}
	return 0;
}

static int64_t wrong_now(const struct measure *m)
{
	uint64_t wrong = 0;

	for (int i = 0; i < m->parts; i++)
		for (int j = 0; j < task_members(&m->task); j++)
			wrong += wrong_in(m, &m->part[i], j);
	return (int64_t)wrong;
}

/* -- samples -------------------------------------------------------------- */

static int meet(struct measure *m, struct err *e)
{
	double nothing = 0;

	return agree(m, "bench/meet", &nothing, 1, RINGUP_SUM, e);
}

/*
 * Writes the input, meets, then makes @calls calls: microseconds for one.  Ranks leave a
 * meeting at different times, which one short call would show: several dilute it.  A second
 * meeting keeps ranks that are done from writing their next input on a processor that the
 * others still need.
 */
static int sample(struct measure *m, int calls, double *us, struct err *e)
{
	int64_t begun;
	int rc;

	for (int i = 0; i < m->parts; i++)
		measure_fill(m, &m->part[i]);
	rc = meet(m, e);
	begun = clock_ns();
	for (int i = 0; i < calls && !rc; i++)
		rc = call(m, e);
	*us = (double)(clock_ns() - begun) / 1e3 / calls;
	return rc ? rc : meet(m, e);
}

/* The result of several sums in place is unknown: a single call is checked instead. */
static bool repeats_in_place(const struct task *t, const struct dose *d)
{
	return d->calls > 1 && is_in_place(t) && task_combines(t);
}

int measure_play(struct measure *m, const struct task *t, const struct dose *d, double *us,
		 int64_t *wrong, struct err *e)
{
	bool apart = repeats_in_place(t, d);
	double ignored;
	int i, rc = measure_prepare(m, t, e);

	*wrong = 0;
	for (i = 0; i < d->warm && !rc; i++)
		rc = sample(m, d->calls, &ignored, e);
	if (d->check && apart && !rc) {
		rc = sample(m, 1, &ignored, e);
		*wrong += wrong_now(m);
	}
	for (i = 0; i < d->samples && !rc; i++) {
		rc = sample(m, d->calls, &us[i], e);
		if (d->check && !apart && !rc)
			*wrong += wrong_now(m);
	}
	return rc;
}

int measure_play_all(struct measure *m, const struct task *t, const struct dose *d, double *us,
		     int64_t *wrong, double *spent_us, struct err *e)
{
	int64_t begun = clock_ns();
	double all_wrong;
	int rc = measure_play(m, t, d, us, wrong, e);

	all_wrong = (double)*wrong;
	*spent_us = (double)(clock_ns() - begun) / 1e3;
	if (!rc)
		rc = agree(m, "bench/samples", us, d->samples, RINGUP_MAX, e);
	if (!rc)
		rc = agree(m, "bench/wrong", &all_wrong, 1, RINGUP_SUM, e);
	if (!rc)
		rc = agree(m, "bench/spent", spent_us, 1, RINGUP_MAX, e);
	*wrong = d->check ? (int64_t)all_wrong : -1;
	return rc;
}

/* -- groups --------------------------------------------------------------- */

static int add_part(struct measure *m, struct ringup_group *g, struct err *e)
{
	struct part *p = &m->part[m->parts];

	if (ringup_rank(g) < 0)
		return 0;
	m->parts++;
	p->g = g;
	p->rank = ringup_rank(g);
	p->ranks = ringup_size(g);
	p->blocks = calloc((size_t)p->ranks, sizeof(*p->blocks));
	p->ops = calloc(GRADSET_TENSORS, sizeof(struct ringup_op *));
	return p->blocks && p->ops ? 0 : fail(e, RINGUP_ENOMEM, "a group of %d", p->ranks);
}

static int add_parts(struct measure *m, struct ringup *r, const struct groups *groups,
		     struct err *e)
{
	int rc = 0;

	if (!groups || !groups->count)
		return add_part(m, m->world, e);
	for (int i = 0; i < groups->count && !rc; i++) {
		struct ringup_group *g;

		rc = checked(ringup_group_add(r, groups->ranks + groups->first[i],
					      groups->size[i], &g),
			     e);
		if (!rc)
			rc = add_part(m, g, e);
	}
	return rc;
}

int measure_open(struct ringup *r, const struct measure_options *how, struct measure **mp,
		 struct err *e)
{
	struct measure *m = calloc(1, sizeof(*m));
	int rc;

	if (m)
		m->part = calloc(GROUPS_MOST, sizeof(*m->part));
	if (!m || !m->part) {
		free(m);
		return fail(e, RINGUP_ENOMEM, "a measurement");
	}
	m->world = ringup_world(r);
	m->shared = how->shared;
	rc = add_parts(m, r, how->groups, e);
	if (rc)
		measure_close(m);
	else
		*mp = m;
	return rc;
}

void measure_close(struct measure *m)
{
	if (!m)
		return;
	measure_rest(m);
	for (int i = 0; i < m->parts; i++) {
		free(m->part[i].blocks);
		free(m->part[i].ops);
	}
	free(m->part);
	free(m);
}
