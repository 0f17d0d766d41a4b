/* api_coll.c - the collectives of ringup.h: check the arguments, submit, wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/context.h"
#include "base/clock.h"
#include "coll/reduce.h"

static bool is_dtype(int dtype)
{
	return dtype >= 0 && dtype < RINGUP_DTYPE_COUNT;
}

static int check_name(const char *call, const char *name, struct err *e)
{
	if (name && (!*name || strlen(name) > NAME_BYTES))
		return fail(e, RINGUP_EINVAL, "%s: a name has 1 to %d bytes, not %zu", call,
			    NAME_BYTES, strlen(name));
	return 0;
}

/* @count elements of @dtype at @p: are they there, and do they fit in memory? */
static int check_buffer(const char *call, const char *what, const void *p, uint64_t count,
			int dtype, struct err *e)
{
	if (!is_dtype(dtype))
		return fail(e, RINGUP_EINVAL, "%s: no dtype has the number %d", call, dtype);
	if (!p && count)
		return fail(e, RINGUP_EINVAL, "%s: %s is NULL, but there are %llu elements",
			    call, what, (unsigned long long)count);
	if (count > (uint64_t)PTRDIFF_MAX / reduce_dtype_bytes((enum ringup_dtype)dtype))
		return fail(e, RINGUP_EINVAL, "%s: %llu elements do not fit in memory", call,
			    (unsigned long long)count);
	return 0;
}

/* In place, or apart. */
static int check_apart(const char *call, const void *in, const void *out, uint64_t count,
		       int dtype, struct err *e)
{
	uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;
	uint64_t bytes = count * reduce_dtype_bytes((enum ringup_dtype)dtype);

	if (a != b && a < b + bytes && b < a + bytes)
		return fail(e, RINGUP_EINVAL, "%s: in and out overlap without being equal",
			    call);
	return 0;
}

static int submit(struct ringup_group *g, const struct request *q, const char *call,
		  struct ringup_op **opp, struct err *e)
{
	int rc = check_name(call, q->name, e);

	if (!rc)
		rc = engine_submit(&g->ringup->member.engine, q, opp, e);
	return rc;
}

static int check_shape(const char *call, const uint64_t *shape, int dims, struct err *e)
{
	if (dims < 0 || (dims && !shape))
		return fail(e, RINGUP_EINVAL, "%s: a shape of %d dimensions%s", call, dims,
			    dims < 0 ? "" : " is NULL");
	return 0;
}

static double factor(double f)
{
	return f == 0 ? 1 : f;
}

int ringup_allreduce(struct ringup_group *g, const struct ringup_reduce *a,
		     struct ringup_op **opp)
{
	static const char call[] = "ringup_allreduce";
	struct request q = { .name = a->name, .in = a->in, .out = a->out };
	struct err e = { 0 };
	int rc;

	rc = check_buffer(call, "in", a->in, a->count, (int)a->dtype, &e);
	if (!rc)
		rc = check_buffer(call, "out", a->out, a->count, (int)a->dtype, &e);
	if (!rc)
		rc = check_apart(call, a->in, a->out, a->count, (int)a->dtype, &e);
	if (!rc && (int)a->redop >= RINGUP_REDOP_COUNT)
		rc = fail(&e, RINGUP_EINVAL, "%s: no operation has the number %d", call,
			  (int)a->redop);
	if (!rc)
		rc = check_shape(call, a->shape, a->dims, &e);
	if (!rc && (isnan(a->pre) || isnan(a->post)))
		rc = fail(&e, RINGUP_EINVAL, "%s: a scale is not a number", call);
	if (!rc) {
		q.want = (struct want){ .count = a->count,
					.pre = factor(a->pre),
					.post = factor(a->post),
					.kind = PLAN_ALLREDUCE,
					.dtype = (uint8_t)a->dtype,
					.redop = (uint8_t)a->redop };
		want_shape(&q.want, a->shape, a->dims);
		rc = submit(g, &q, call, opp, &e);
	}
	return rc ? context_fail(&e) : 0;
}

int ringup_broadcast(struct ringup_group *g, const struct ringup_bcast *b,
		     struct ringup_op **opp)
{
	static const char call[] = "ringup_broadcast";
	bool root = b->root == ringup_rank(g);
	const void *in = root ? b->in : NULL;
	void *out = root && !b->out ? (void *)(uintptr_t)b->in : b->out;
	struct request q = { .name = b->name, .in = in, .out = out };
	struct err e = { 0 };
	int rc;

	rc = check_buffer(call, "out", out, b->count, (int)b->dtype, &e);
	if (!rc && root)
		rc = check_buffer(call, "in", in, b->count, (int)b->dtype, &e);
	if (!rc && root)
		rc = check_apart(call, in, out, b->count, (int)b->dtype, &e);
	if (!rc)
		rc = check_shape(call, b->shape, b->dims, &e);
	if (!rc && (b->root < 0 || b->root >= ringup_size(g)))
		rc = fail(&e, RINGUP_EINVAL, "%s: root %d is not one of the %d ranks", call,
			  b->root, ringup_size(g));
	if (!rc) {
		q.want = (struct want){ .count = b->count,
					.pre = 1,
					.post = 1,
					.root = b->root,
					.kind = PLAN_BROADCAST,
					.dtype = (uint8_t)b->dtype };
		want_shape(&q.want, b->shape, b->dims);
		rc = submit(g, &q, call, opp, &e);
	}
	return rc ? context_fail(&e) : 0;
}

int ringup_allgather(struct ringup_group *g, const struct ringup_gather *a,
		     struct ringup_op **opp)
{
	static const char call[] = "ringup_allgather";
	struct request q = { .name = a->name,
			     .in = a->in,
			     .rows = a->rows,
			     .outp = a->out,
			     .counts = a->counts };
	struct err e = { 0 };
	uint64_t count = 0;
	int rc = 0;

	if (!a->out || !a->counts)
		rc = fail(&e, RINGUP_EINVAL, "%s: out and counts must not be NULL", call);
	else if (__builtin_mul_overflow(a->rows, a->row, &count))
		rc = fail(&e, RINGUP_EINVAL,
			  "%s: %llu rows of %llu elements do not fit in memory", call,
			  (unsigned long long)a->rows, (unsigned long long)a->row);
	if (!rc)
		rc = check_buffer(call, "in", a->in, count, (int)a->dtype, &e);
	if (!rc)
		rc = check_shape(call, a->shape, a->dims, &e);
	if (!rc) {
		q.want = (struct want){ .count = a->row,
					.pre = 1,
					.post = 1,
					.kind = PLAN_ALLGATHER,
					.dtype = (uint8_t)a->dtype };
		want_shape(&q.want, a->shape, a->dims);
		rc = submit(g, &q, call, opp, &e);
	}
	return rc ? context_fail(&e) : 0;
}

int ringup_barrier(struct ringup_group *g, const char *name, struct ringup_op **opp)
{
	struct request q = { .name = name,
			     .want = { .pre = 1, .post = 1, .kind = PLAN_BARRIER } };
	struct err e = { 0 };
	int rc = submit(g, &q, "ringup_barrier", opp, &e);

	return rc ? context_fail(&e) : 0;
}

int ringup_poll(struct ringup_op *op)
{
	return engine_poll(op);
}

int ringup_wait(struct ringup_op *op, int64_t timeout_ms)
{
	struct err e = { 0 };
	int rc = engine_wait(op, clock_deadline(timeout_ms), &e);

	return rc ? context_fail(&e) : 0;
}

void ringup_free(void *p)
{
	free(p);
}
