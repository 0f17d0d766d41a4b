/* stage.c - an operation with data on a device that is carried out in the host's memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stage.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/op.h"
#include "engine/plan.h"
#include "engine/provider.h"

enum { ABORT_MS = 2000 };

bool stage_can(const struct comm *c)
{
	return provider_of_device(c) != NULL;
}

/* ---- what is copied ---- */

static uint64_t in_bytes(const struct comm *c, const struct request *q)
{
	const struct op_signature *s = &q->signature;
	uint64_t rows = q->rows;

	if (collective_is(s->kind, COLLECTIVE_SPLITS))
		for (int i = 0; i < c->topo.size; i++)
			rows += q->splits[i];
	return collective_is(s->kind, COLLECTIVE_GROWS)
		       ? rows * s->count * reduce_dtype_bytes((enum ringup_dtype)s->dtype)
		       : op_signature_bytes(s);
}

/* This rank's part of the result. */
static uint64_t out_bytes(const struct comm *c, const struct ringup_op *op)
{
	const struct op_signature *s = &op->ask.signature;
	int me = c->topo.rank;

	if (!collective_is(s->kind, COLLECTIVE_PARTS) ||
	    collective_is(s->kind, COLLECTIVE_GROWS))
		return op->far->bytes;
	return (op_signature_part_first(s, c->topo.size, me + 1) -
		op_signature_part_first(s, c->topo.size, me)) *
	       reduce_dtype_bytes((enum ringup_dtype)s->dtype);
}

/* Gives @op memory of the host's in place of the device's. */
static int go_near(const struct comm *c, struct ringup_op *op, struct err *e)
{
	struct request *q = &op->ask;
	bool is_far = q->signature.memory == RINGUP_CUDA && !op->proxy;
	bool rooted = collective_is(q->signature.kind, COLLECTIVE_ROOT);
	bool root = rooted && q->signature.root == c->topo.rank;
	bool gets = q->out != op->own;
	uint64_t bytes = in_bytes(c, q);
	struct op_far *f;

	q->signature.memory = RINGUP_HOST;
	op->mixed = true;
	if (!is_far)
		return 0;
	f = op->far = calloc(1, sizeof(*f));
	if (f)
		f->near = malloc(bytes ? bytes : 1);
	if (!f || !f->near)
		return fail(e, RINGUP_ENOMEM,
			    "%.200s: no memory for the %llu bytes that come from a device",
			    op->entry->name, (unsigned long long)bytes);
	f->in = rooted && !root ? NULL : q->in;
	f->out = !gets || (root && q->out == q->in) ? NULL : q->out;
	f->into = q->into;
	f->into_bytes = q->into_bytes;
	f->bytes = bytes;
	q->in = f->near;
	q->out = q->out ? f->near : NULL;
	q->into = NULL;
	return 1;
}

/* The operation itself, or the members of a bundle. */
static struct ringup_op *parts(struct ringup_op *op)
{
	return op->members ? op->members : op;
}

static struct ringup_op *next_part(const struct ringup_op *op)
{
	return op->bundle ? op->next : NULL;
}

/* ---- copying ---- */

bool stage_wants(struct ringup_op *op)
{
	struct ringup_op *m;

	for (m = parts(op); m; m = next_part(m))
		if (op_signature_is_for_host(&m->ask.signature))
			return true;
	return false;
}

static void run_copies(struct comm *c, struct run *run, struct ringup_op *op)
{
	run->staged = op;
	run->provider = provider_of_device(c);
	run->started = true;
}

int stage_begin(struct comm *c, struct ringup_op *op, struct err *e)
{
	struct ringup_op *m;
	bool any = false;
	int rc = 0;

	if (op->mixed)
		return 0;
	op->mixed = true;
	for (m = parts(op); m && rc >= 0; m = next_part(m)) {
		rc = go_near(c, m, e);
		any |= rc > 0;
	}
	if (rc < 0 || !any)
		return rc;
	run_copies(c, c->run, op);
	return 1;
}

bool stage_end(struct comm *c, struct run *run)
{
	struct ringup_op *op = run->op_count ? run->ops[run->op_count - 1] : NULL;
	struct ringup_op *m;
	bool any = false;

	if (run->staged || run->bad || !op || op->bundle || !op->mixed || op->status)
		return false;
	for (m = parts(op); m; m = next_part(m)) {
		any |= m->far != NULL;
		if (m->far && !m->status)
			m->status = plan_conclude(m, &m->why);
	}
	if (any)
		run_copies(c, run, op);
	return any;
}

/* One tensor: 1 when it is copied. */
static int copy_part(struct comm *c, const struct run *run, struct ringup_op *op, struct err *e)
{
	struct provider *v = run->provider;
	struct op_far *f = op->far;
	const void *from = f->in;
	void *to = f->near;
	uint64_t bytes = f->in ? f->bytes : 0;

	if (run->op_count) {
		from = op->result ? op->result : f->near;
		to = op->result ? f->into : f->out;
		bytes = to && !op->status ? out_bytes(c, op) : 0;
	}
	f->copy.to_device = run->op_count > 0;
	return v->backend->device->copy(v->self, to, from, bytes, op->ready, &f->copy, e);
}

int stage_step(struct comm *c, struct run *run, struct err *e)
{
	struct ringup_op *m;
	int rc = 1;

	for (m = parts(run->staged); m && rc > 0; m = next_part(m)) {
		if (!m->far || m->far->copied)
			continue;
		rc = copy_part(c, run, m, e);
		m->far->copied = rc > 0;
	}
	/* The other way is still to come. */
	for (m = parts(run->staged); m && rc > 0; m = next_part(m))
		if (m->far) {
			m->far->copied = false;
			m->far->copy = (struct staging_copy){ 0 };
		}
	return rc;
}

void stage_abort(struct run *run)
{
	const struct provider *v = run->provider;
	int64_t deadline = clock_deadline(ABORT_MS);
	struct ringup_op *m;

	for (m = run->staged ? parts(run->staged) : NULL; m; m = next_part(m))
		while (m->far && !v->backend->device->drop(v->self, &m->far->copy) &&
		       clock_ns() < deadline)
			clock_sleep_ms(1);
	run->staged = NULL;
}
