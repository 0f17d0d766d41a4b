/* api_coll.c - the collectives of ringup.h: check the arguments, submit, wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/clock.h"
#include "base/kinds.h"
#include "coll/reduce.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/stage.h"
#include "engine/submit.h"
#include "wire/share.h"

/* An empty range overlaps no other, wherever it is. */
static bool do_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

/* Checks that out equals in or does not overlap it. */
static int check_apart(const char *call, const void *in, const void *out, uint64_t count,
		       int dtype, struct err *e)
{
	uint64_t bytes = count * reduce_dtype_bytes((enum ringup_dtype)dtype);

	if (in != out && do_overlap(in, bytes, out, bytes))
		return fail(e, RINGUP_EINVAL, "%s: in and out overlap without being equal",
			    call);
	return 0;
}

static int submit_until(struct ringup_group *g, const struct request *q, const char *call,
			int64_t deadline_ns, struct ringup_op **opp, struct err *e)
{
	int rc;

	if (g->group->rank < 0)
		return fail(e, RINGUP_EINVAL, "%s: this rank is not in the group", call);
	rc = engine_submit(&g->group->comm, q, deadline_ns, opp, e);
	return rc == RINGUP_EINVAL ? fail_in(e, "%s", call) : rc;
}

/* Submits @q unless @rc is a failure; the result of a call. */
static int submit(int rc, struct ringup_group *g, const struct request *q, const char *call,
		  struct ringup_op **opp, struct err *e)
{
	if (!rc)
		rc = submit_until(g, q, call, opp ? 0 : INT64_MAX, opp, e);
	return rc ? call_fail(e) : 0;
}

/* Checks that the shape has @count elements; without dimensions there is no shape to check. */
static int check_shape(const char *call, const uint64_t *shape, int dims, uint64_t count,
		       struct err *e)
{
	uint64_t product = 1;
	bool none = false;

	if (dims < 0 || (dims && !shape))
		return fail(e, RINGUP_EINVAL, "%s: a shape of %d dimensions%s", call, dims,
			    dims < 0 ? "" : " is NULL");
	for (int i = 0; i < dims; i++) {
		none |= !shape[i];
		if (__builtin_mul_overflow(product, shape[i], &product))
			product = UINT64_MAX;
	}
	if (dims && (none ? 0 : product) != count)
		return fail(e, RINGUP_EINVAL, "%s: the shape has %llu elements, the array %llu",
			    call, none ? 0ULL : (unsigned long long)product,
			    (unsigned long long)count);
	return 0;
}

/* Checks that @redop exists for @dtype; Adasum is for floating types. */
static inline int check_redop(const char *call, int redop, int dtype, struct err *e)
{
	if (redop < 0 || redop >= REDOP_COUNT)
		return fail(e, RINGUP_EINVAL,
			    "%s: redop=%d is not a value of enum ringup_redop", call, redop);
	if ((redop == RINGUP_AVERAGE && dtype == RINGUP_BOOL) ||
	    (redop == RINGUP_ADASUM && !reduce_is_floating((enum ringup_dtype)dtype)))
		return fail(e, RINGUP_EINVAL, "%s: %s is not defined for %s", call,
			    reduce_redop_name((enum ringup_redop)redop),
			    reduce_dtype_name((enum ringup_dtype)dtype));
	return 0;
}

/* Adasum and reductions to one rank are the host's: data on a device are copied. */
static int check_stage(const char *call, const struct ringup_group *g, struct err *e)
{
	return g->group->rank < 0 || stage_can(&g->group->comm)
		       ? 0
		       : fail(e, RINGUP_EINVAL,
			      "%s: this group's back end does not copy CUDA memory to the "
			      "host; "
			      "copy the data yourself",
			      call);
}

/* A GPU faults on an unaligned element, and the process can then no longer use that GPU. */
static int check_aligned(const char *call, const struct request *q, struct err *e)
{
	const struct op_signature *s = &q->signature;
	size_t element = reduce_dtype_bytes((enum ringup_dtype)s->dtype);

	if (!s->count || !collective_is(s->kind, COLLECTIVE_REDUCES) ||
	    !(((uintptr_t)q->in | (uintptr_t)q->out) % element))
		return 0;
	return fail(e, RINGUP_EINVAL,
		    "%s: in=%p and out=%p are not both aligned to %s; a GPU cannot reduce "
		    "unaligned data: copy it",
		    call, q->in, q->out, reduce_dtype_name((enum ringup_dtype)s->dtype));
}

/* Checks the memory kind of the data, which a back end of the group has to take. */
static int ask_memory(const char *call, const struct ringup_group *g, int memory, void *stream,
		      struct request *q, struct err *e)
{
	if (memory < 0 || memory >= MEMORY_COUNT)
		return fail(e, RINGUP_EINVAL,
			    "%s: memory=%d is not a value of enum ringup_memory", call, memory);
	q->signature.memory = (uint8_t)memory & 15;
	q->stream = stream;
	if (stream && memory != RINGUP_CUDA)
		return fail(e, RINGUP_EINVAL, "%s: a stream needs data in CUDA memory", call);
	if (g->group->rank >= 0 && !(g->group->comm.memory >> memory & 1))
		return fail(e, RINGUP_ENOBACKEND,
			    "%s: no back end of this group accepts %s memory; copy the data to "
			    "host memory",
			    call, op_signature_memory_name((enum ringup_memory)memory));
	if (memory == RINGUP_CUDA && q->signature.redop == RINGUP_ADASUM &&
	    check_stage(call, g, e))
		return e->code;
	return memory == RINGUP_CUDA ? check_aligned(call, q, e) : 0;
}

static double factor(double f)
{
	return f == 0 ? 1 : f;
}

/* Checks one tensor of a reduction, alone or among others. */
static inline int check_reduce(const char *call, const struct ringup_reduce *a, struct err *e)
{
	int rc = call_check(call, "in", a->in, a->count, (int)a->dtype, e);

	if (!rc)
		rc = call_check(call, "out", a->out, a->count, (int)a->dtype, e);
	if (!rc)
		rc = check_apart(call, a->in, a->out, a->count, (int)a->dtype, e);
	if (!rc)
		rc = check_redop(call, (int)a->redop, (int)a->dtype, e);
	if (!rc)
		rc = check_shape(call, a->shape, a->dims, a->count, e);
	if (!rc && (isnan(a->pre) || isnan(a->post)))
		rc = fail(e, RINGUP_EINVAL, "%s: a scale is not a number", call);
	return rc;
}

static inline int ask_reduce(const char *call, const struct ringup_group *g,
			     const struct ringup_reduce *a, struct request *q, struct err *e)
{
	int rc = check_reduce(call, a, e);

	if (rc)
		return rc;
	request_init(q, a->name, a->in, a->out);
	op_signature_init(&q->signature, PLAN_ALLREDUCE, a->dtype, a->count);
	q->signature.pre = factor(a->pre);
	q->signature.post = factor(a->post);
	q->signature.redop = (uint8_t)a->redop & 15;
	op_signature_shape(&q->signature, a->shape, a->dims);
	return a->memory || a->stream ? ask_memory(call, g, (int)a->memory, a->stream, q, e)
				      : 0;
}

static int allreduce(const char *call, struct ringup_group *g, const struct ringup_reduce *a,
		     int64_t deadline_ns, struct ringup_op **opp)
{
	struct request q;
	struct err e;
	int rc;

	fail_none(&e);
	rc = ask_reduce(call, g, a, &q, &e);
	if (!rc)
		rc = submit_until(g, &q, call, deadline_ns, opp, &e);
	return rc ? call_late(&e, rc == RINGUP_ETIMEDOUT && opp ? *opp : NULL) : 0;
}

/* The operation is published, and another rank is late. */
static __attribute__((noinline)) int wait_deferred(int rc, struct ringup_op *op,
						   int64_t deadline_ns, struct ringup_op **opp)
{
	struct err e;

	fail_none(&e);
	rc = rc ? fail(&e, rc, "no memory for another operation")
		: engine_deferred(op, deadline_ns, opp, &e);
	return rc ? call_late(&e, rc == RINGUP_ETIMEDOUT && opp ? *opp : NULL) : 0;
}

static __attribute__((noinline)) const struct ringup_reduce *
take_reduce(const char *call, const struct ringup_group *g, const struct ringup_reduce *a,
	    struct ringup_reduce *room)
{
	return CALL_TAKE(call, g, a, room, memory);
}

/* The fast path of a repeated sum, as in each step of a training: for a few bytes, checking
 * the arguments would take most of the time. */
static inline int allreduce_repeat(const char *call, struct ringup_group *g,
				   const struct ringup_reduce *a, int64_t timeout_ms,
				   struct ringup_op **opp)
{
	struct ringup_op *op = NULL;
	struct ringup_reduce room;
	int rc;

	if (__builtin_expect(!g || !a || a->bytes != sizeof(*a), 0))
		a = take_reduce(call, g, a, &room);
	if (!a)
		return RINGUP_EINVAL;
	rc = g->group->rank < 0 ? 0 : submit_repeat(&g->group->comm, a, &op);
	if (rc > 0)
		return 0;
	return rc || op ? wait_deferred(rc, op, clock_deadline(timeout_ms), opp)
			: allreduce(call, g, a, clock_deadline(timeout_ms), opp);
}

int ringup_allreduce(struct ringup_group *g, const struct ringup_reduce *a,
		     struct ringup_op **opp)
{
	static const char call[] = "ringup_allreduce";
	struct ringup_reduce room;

	if (!opp)
		return allreduce_repeat(call, g, a, -1, NULL);
	a = take_reduce(call, g, a, &room);
	return a ? allreduce(call, g, a, 0, opp) : RINGUP_EINVAL;
}

int ringup_allreduce_within(struct ringup_group *g, const struct ringup_reduce *a,
			    int64_t timeout_ms, struct ringup_op **opp)
{
	return allreduce_repeat("ringup_allreduce_within", g, a, timeout_ms, opp);
}

static int check_root(const char *call, const struct ringup_group *g, int root, struct err *e)
{
	if (root < 0 || root >= ringup_size(g))
		return fail(e, RINGUP_EINVAL, "%s: root %d is not one of the %d ranks", call,
			    root, ringup_size(g));
	return 0;
}

int ringup_broadcast(struct ringup_group *g, const struct ringup_bcast *b,
		     struct ringup_op **opp)
{
	static const char call[] = "ringup_broadcast";
	const void *in;
	struct request q;
	struct err e;
	void *out;
	bool root;
	struct ringup_bcast room;
	int rc;

	b = CALL_TAKE(call, g, b, &room, memory);
	if (!b)
		return RINGUP_EINVAL;
	root = b->root == ringup_rank(g);
	in = root ? b->in : NULL;
	out = root && !b->out ? (void *)(uintptr_t)b->in : b->out;
	fail_none(&e);
	rc = call_check(call, "out", out, b->count, (int)b->dtype, &e);
	if (!rc && root)
		rc = call_check(call, "in", in, b->count, (int)b->dtype, &e);
	if (!rc && root)
		rc = check_apart(call, in, out, b->count, (int)b->dtype, &e);
	if (!rc)
		rc = check_shape(call, b->shape, b->dims, b->count, &e);
	if (!rc)
		rc = check_root(call, g, b->root, &e);
	if (!rc) {
		request_init(&q, b->name, in, out);
		op_signature_init(&q.signature, PLAN_BROADCAST, b->dtype, b->count);
		q.signature.root = b->root;
		op_signature_shape(&q.signature, b->shape, b->dims);
		rc = ask_memory(call, g, (int)b->memory, b->stream, &q, &e);
	}
	return submit(rc, g, &q, call, opp, &e);
}

/* Checks the rows to send and the places for the result. */
static int check_rows(const char *call, const void *in, uint64_t rows, uint64_t row, int dtype,
		      void *const *out, const uint64_t *counts, struct err *e)
{
	uint64_t count;

	if (!out || !counts)
		return fail(e, RINGUP_EINVAL, "%s: out and counts must not be NULL", call);
	/* A row has to make sense even if this rank has none. */
	if (row > CALL_ELEMENTS || __builtin_mul_overflow(rows, row, &count))
		return fail(e, RINGUP_EINVAL,
			    "%s: %llu rows of %llu elements do not fit in memory", call,
			    (unsigned long long)rows, (unsigned long long)row);
	return call_check(call, "in", in, count, dtype, e);
}

static int ask_gather(const char *call, const struct ringup_group *g,
		      const struct ringup_gather *a, struct request *q, struct err *e)
{
	int rc = check_rows(call, a->in, a->rows, a->row, (int)a->dtype, a->out, a->counts, e);

	if (!rc)
		rc = check_shape(call, a->shape, a->dims, a->row, e);
	if (rc)
		return rc;
	request_init(q, a->name, a->in, NULL);
	q->rows = a->rows;
	q->outp = a->out;
	q->counts = a->counts;
	q->into = a->into;
	q->into_bytes = a->into_bytes;
	op_signature_init(&q->signature, PLAN_ALLGATHER, a->dtype, a->row);
	op_signature_shape(&q->signature, a->shape, a->dims);
	return ask_memory(call, g, (int)a->memory, a->stream, q, e);
}

int ringup_allgather(struct ringup_group *g, const struct ringup_gather *a,
		     struct ringup_op **opp)
{
	static const char call[] = "ringup_allgather";
	struct request q;
	struct err e;
	struct ringup_gather room;
	int rc;

	a = CALL_TAKE(call, g, a, &room, memory);
	if (!a)
		return RINGUP_EINVAL;
	fail_none(&e);
	rc = ask_gather(call, g, a, &q, &e);
	return submit(rc, g, &q, call, opp, &e);
}

/* Sets the number of rows for each rank, @rows together. */
static int split_rows(const char *call, const struct ringup_exchange *a, int size,
		      uint64_t *splits, struct err *e)
{
	uint64_t sum = 0;

	if (!a->splits && a->rows % (uint64_t)size)
		return fail(e, RINGUP_EINVAL, "%s: %llu rows cannot be split evenly among %d",
			    call, (unsigned long long)a->rows, size);
	for (int i = 0; i < size; i++) {
		splits[i] = a->splits ? a->splits[i] : a->rows / (uint64_t)size;
		if (__builtin_add_overflow(sum, splits[i], &sum))
			sum = UINT64_MAX;
	}
	if (sum != a->rows)
		return fail(e, RINGUP_EINVAL,
			    "%s: the splits add up to %llu rows instead of %llu", call,
			    (unsigned long long)sum, (unsigned long long)a->rows);
	return 0;
}

/* An all-to-all; with @end, one in which only the rank @root receives, or sends, rows. */
static int exchange(struct ringup_group *g, const char *call, const struct ringup_exchange *a,
		    int root, uint64_t end, struct ringup_op **opp)
{
	bool is_root = root == ringup_rank(g), gets = end != OP_TO_ROOT || is_root;
	int size = ringup_size(g), rc;
	uint64_t few[64], *splits = size > 64 ? malloc((size_t)size * sizeof(*splits)) : few;
	struct request q;
	struct err e;

	fail_none(&e);
	rc = splits ? 0 : fail(&e, RINGUP_ENOMEM, "%s: no memory for the splits", call);
	if (!rc && end)
		rc = check_root(call, g, root, &e);
	if (!rc)
		rc = check_rows(call, a->in, a->rows, a->row, (int)a->dtype, a->out, a->counts,
				&e);
	if (!rc)
		rc = check_shape(call, a->shape, a->dims, a->row, &e);
	if (!rc && end)
		memset(splits, 0, (size_t)size * sizeof(*splits));
	if (!rc && end == OP_TO_ROOT)
		splits[root] = a->rows;
	else if (!rc && (!end || is_root))
		rc = split_rows(call, a, size, splits, &e);
	if (!rc && a->into &&
	    do_overlap(a->in, a->rows * a->row * reduce_dtype_bytes(a->dtype), a->into,
		       a->into_bytes))
		rc = fail(&e, RINGUP_EINVAL, "%s: in and into overlap", call);
	if (!rc) {
		request_init(&q, a->name, a->in, NULL);
		q.outp = gets ? a->out : NULL;
		q.counts = gets ? a->counts : NULL;
		q.into = gets ? a->into : NULL;
		q.into_bytes = gets ? a->into_bytes : 0;
		q.splits = splits;
		op_signature_init(&q.signature, PLAN_ALLTOALL, a->dtype, a->row);
		q.signature.root = root;
		q.signature.digest = end;
		op_signature_shape(&q.signature, a->shape, a->dims);
		rc = ask_memory(call, g, (int)a->memory, a->stream, &q, &e);
	}
	rc = submit(rc, g, &q, call, opp, &e);
	if (splits != few)
		free(splits);
	return rc;
}

int ringup_alltoall(struct ringup_group *g, const struct ringup_exchange *a,
		    struct ringup_op **opp)
{
	static const char call[] = "ringup_alltoall";
	struct ringup_exchange room;

	a = CALL_TAKE(call, g, a, &room, memory);
	return a ? exchange(g, call, a, 0, OP_ALL, opp) : RINGUP_EINVAL;
}

/* ---- rooted collectives ---- */

int ringup_reduce_to(struct ringup_group *g, const struct ringup_reduce *a, int root,
		     struct ringup_op **opp)
{
	static const char call[] = "ringup_reduce_to";
	struct ringup_reduce b;
	struct request q;
	struct err e;
	struct ringup_reduce room;
	int rc;

	a = CALL_TAKE(call, g, a, &room, memory);
	if (!a)
		return RINGUP_EINVAL;
	b = *a;
	fail_none(&e);
	/* The out of other ranks is ignored. */
	if (root != ringup_rank(g))
		b.out = (void *)(uintptr_t)b.in;
	rc = check_root(call, g, root, &e);
	if (!rc)
		rc = ask_reduce(call, g, &b, &q, &e);
	if (!rc && a->memory == RINGUP_CUDA)
		rc = check_stage(call, g, &e);
	if (!rc) {
		q.out = root == ringup_rank(g) ? q.out : NULL;
		q.signature.root = root;
		q.signature.digest = OP_TO_ROOT;
	}
	return submit(rc, g, &q, call, opp, &e);
}

int ringup_gather_to(struct ringup_group *g, const struct ringup_gather *a, int root,
		     struct ringup_op **opp)
{
	struct ringup_exchange b;
	/* Places for the result of other ranks, which receive nothing. */
	uint64_t count;
	void *nowhere;
	bool gets;
	struct ringup_gather room;

	a = CALL_TAKE("ringup_gather_to", g, a, &room, memory);
	if (!a)
		return RINGUP_EINVAL;
	gets = root == ringup_rank(g);
	b = (struct ringup_exchange){ .name = a->name,
				      .in = a->in,
				      .rows = a->rows,
				      .row = a->row,
				      .dtype = a->dtype,
				      .out = gets ? a->out : &nowhere,
				      .counts = gets ? a->counts : &count,
				      .shape = a->shape,
				      .dims = a->dims,
				      .into = gets ? a->into : NULL,
				      .into_bytes = gets ? a->into_bytes : 0,
				      .memory = a->memory,
				      .stream = a->stream };
	return exchange(g, "ringup_gather_to", &b, root, OP_TO_ROOT, opp);
}

int ringup_scatter_from(struct ringup_group *g, const struct ringup_exchange *a, int root,
			struct ringup_op **opp)
{
	struct ringup_exchange b;
	struct ringup_exchange room;

	a = CALL_TAKE("ringup_scatter_from", g, a, &room, memory);
	if (!a)
		return RINGUP_EINVAL;
	b = *a;
	if (root != ringup_rank(g)) {
		b.in = NULL;
		b.rows = 0;
		b.splits = NULL;
	}
	return exchange(g, "ringup_scatter_from", &b, root, OP_FROM_ROOT, opp);
}

/* ---- reduce-scatter ---- */

/* The number of this rank's rows, of @rows. */
static uint64_t own_rows(const struct ringup_group *g, uint64_t rows)
{
	uint64_t size = (uint64_t)ringup_size(g), rank = (uint64_t)ringup_rank(g);

	return rows / size + (rank < rows % size);
}

/* Checks that out does not overlap in, or equals it, or is at this rank's rows in it. */
static int check_part(const char *call, const struct ringup_group *g,
		      const struct ringup_scatter *a, struct err *e)
{
	uint64_t size = (uint64_t)ringup_size(g), rank = (uint64_t)ringup_rank(g);
	uint64_t row = a->row * reduce_dtype_bytes(a->dtype), more = a->rows % size;
	uint64_t before = (a->rows / size * rank + (rank < more ? rank : more)) * row;

	if (a->out != a->in && (uintptr_t)a->out != (uintptr_t)a->in + before &&
	    do_overlap(a->in, a->rows * row, a->out, own_rows(g, a->rows) * row))
		return fail(e, RINGUP_EINVAL,
			    "%s: in and out overlap, but out is neither in nor the rows of "
			    "this rank in it",
			    call);
	return 0;
}

static int ask_scatter(const char *call, const struct ringup_group *g,
		       const struct ringup_scatter *a, struct request *q, struct err *e)
{
	uint64_t count = 0;
	int rc = 0;

	if (__builtin_mul_overflow(a->rows, a->row, &count))
		rc = fail(e, RINGUP_EINVAL,
			  "%s: %llu rows of %llu elements do not fit in memory", call,
			  (unsigned long long)a->rows, (unsigned long long)a->row);
	if (!rc)
		rc = call_check(call, "in", a->in, count, (int)a->dtype, e);
	if (!rc)
		rc = call_check(call, "out", a->out, own_rows(g, a->rows) * a->row,
				(int)a->dtype, e);
	if (!rc)
		rc = check_part(call, g, a, e);
	if (!rc)
		rc = check_redop(call, (int)a->redop, (int)a->dtype, e);
	if (!rc && a->redop == RINGUP_ADASUM)
		rc = fail(e, RINGUP_EINVAL, "%s: reducescatter does not support Adasum", call);
	if (!rc)
		rc = check_shape(call, a->shape, a->dims, a->row, e);
	if (!rc && (isnan(a->pre) || isnan(a->post)))
		rc = fail(e, RINGUP_EINVAL, "%s: a scale is not a number", call);
	if (rc)
		return rc;
	request_init(q, a->name, a->in, a->out);
	op_signature_init(&q->signature, PLAN_REDUCESCATTER, a->dtype, count);
	q->signature.pre = factor(a->pre);
	q->signature.post = factor(a->post);
	q->signature.digest = a->rows;
	q->signature.redop = (uint8_t)a->redop & 15;
	op_signature_shape(&q->signature, a->shape, a->dims);
	return ask_memory(call, g, (int)a->memory, a->stream, q, e);
}

int ringup_reducescatter(struct ringup_group *g, const struct ringup_scatter *a,
			 struct ringup_op **opp)
{
	static const char call[] = "ringup_reducescatter";
	struct request q;
	struct err e;
	struct ringup_scatter room;
	int rc;

	a = CALL_TAKE(call, g, a, &room, memory);
	if (!a)
		return RINGUP_EINVAL;
	fail_none(&e);
	rc = ask_scatter(call, g, a, &q, &e);
	return submit(rc, g, &q, call, opp, &e);
}

/* ---- several tensors, carried out together or not at all ---- */

/* Up to this number of tensors, no allocation is needed. */
enum { FEW_MEMBERS = 32 };

/* The tensors of one call: count structs of one of the three kinds. */
struct many {
	const char *call;
	int count;
	enum plan_kind kind;
	const void *at;
};

static int ask_member(const struct many *m, const struct ringup_group *g, int i,
		      struct request *q, struct err *e)
{
	union {
		struct ringup_reduce reduce;
		struct ringup_gather gather;
		struct ringup_scatter scatter;
	} room;
	size_t each, mine;
	const void *at;

	/* The caller's array has structs of the caller's size. */
	memcpy(&each, m->at, sizeof(each));
	if (!each && m->count > 1)
		return fail(e, RINGUP_EINVAL, "%s: set bytes of each struct to its size",
			    m->call);
	at = (const unsigned char *)m->at + each * (size_t)i;
	memcpy(&mine, at, sizeof(mine));
	if (mine != each)
		return fail(e, RINGUP_EINVAL, "%s: bytes is %zu, and %zu in number 0", m->call,
			    mine, each);
#define FIT(as)                                                                \
	call_fit(m->call, at, offsetof(__typeof__(room.as), memory), &room.as, \
		 sizeof(room.as), e)
	switch (m->kind) {
	case PLAN_ALLREDUCE:
		at = FIT(reduce);
		return at ? ask_reduce(m->call, g, at, q, e) : e->code;
	case PLAN_ALLGATHER:
		at = FIT(gather);
		return at ? ask_gather(m->call, g, at, q, e) : e->code;
	case PLAN_REDUCESCATTER:
		at = FIT(scatter);
		return at ? ask_scatter(m->call, g, at, q, e) : e->code;
	case PLAN_BROADCAST:
	case PLAN_ALLTOALL:
	case PLAN_BARRIER:
		break;
	}
#undef FIT
	return fail(e, RINGUP_EINVAL, "%s: cannot run several of these together", m->call);
}

/* Makes all tensors one request, with the caller's room for its members. */
static int ask_many(const struct many *m, const struct ringup_group *g, struct request *member,
		    struct request *q, struct err *e)
{
	struct err why;
	int rc;

	op_signature_init(&q->signature, OP_BUNDLE, RINGUP_U8, 0);
	for (int i = 0; i < m->count; i++) {
		rc = ask_member(m, g, i, &member[i], &why);
		if (rc)
			return fail(e, rc, "%s, in number %d", why.text, i);
		op_signature_member(&q->signature, &member[i].signature);
	}
	request_init(q, member[0].name, NULL, NULL);
	q->rows = 1;
	q->members = member;
	return 0;
}

static int submit_many(struct ringup_group *g, const char *call, int count, enum plan_kind kind,
		       const void *at, struct ringup_op **opp)
{
	const struct many many = { call, count, kind, at }, *m = &many;
	struct request q, few[FEW_MEMBERS], *member = few;
	struct err e;
	int rc = call_given(m->call, g, m->at);

	if (rc)
		return rc;
	fail_none(&e);
	if (m->count < 1)
		rc = fail(&e, RINGUP_EINVAL, "%s: %d tensors", m->call, m->count);
	else if (m->count > FEW_MEMBERS &&
		 !(member = malloc((size_t)m->count * sizeof(*member))))
		rc = fail(&e, RINGUP_ENOMEM, "%s: no memory for %d tensors", m->call, m->count);
	if (!rc)
		rc = ask_many(m, g, member, &q, &e);
	rc = submit(rc, g, &q, m->call, opp, &e);
	if (member != few)
		free(member);
	return rc;
}

int ringup_allreduce_many(struct ringup_group *g, const struct ringup_reduce *a, int count,
			  struct ringup_op **opp)
{
	return submit_many(g, "ringup_allreduce_many", count, PLAN_ALLREDUCE, a, opp);
}

int ringup_allgather_many(struct ringup_group *g, const struct ringup_gather *a, int count,
			  struct ringup_op **opp)
{
	return submit_many(g, "ringup_allgather_many", count, PLAN_ALLGATHER, a, opp);
}

int ringup_reducescatter_many(struct ringup_group *g, const struct ringup_scatter *a, int count,
			      struct ringup_op **opp)
{
	return submit_many(g, "ringup_reducescatter_many", count, PLAN_REDUCESCATTER, a, opp);
}

/* An operation without data. */
static int submit_plain(struct ringup_group *g, const char *call, const char *name, int kind,
			int *last, struct ringup_op **opp)
{
	struct request q;
	struct err e;
	int rc = call_given(call, g, g);

	if (rc)
		return rc;
	fail_none(&e);
	request_init(&q, name, NULL, NULL);
	q.last = last;
	op_signature_init(&q.signature, kind, RINGUP_U8, 0);
	return submit(0, g, &q, call, opp, &e);
}

int ringup_join(struct ringup_group *g, int *last, struct ringup_op **opp)
{
	return submit_plain(g, "ringup_join", "\x01join", OP_JOIN, last, opp);
}

int ringup_barrier(struct ringup_group *g, const char *name, struct ringup_op **opp)
{
	return submit_plain(g, "ringup_barrier", name, PLAN_BARRIER, NULL, opp);
}

int ringup_poll(struct ringup_op *op)
{
	return op ? engine_poll(op) : call_null("ringup_poll", "the operation");
}

int ringup_wait(struct ringup_op *op, int64_t timeout_ms)
{
	struct err e;
	int rc;

	if (!op)
		return call_null("ringup_wait", "the operation");
	fail_none(&e);
	rc = engine_wait(op, clock_deadline(timeout_ms), false, &e);
	return rc ? call_late(&e, rc == RINGUP_ETIMEDOUT ? op : NULL) : 0;
}

int ringup_wait_on(struct ringup_op *op, int64_t slice_ms)
{
	struct err e;
	int rc;

	if (!op)
		return call_null("ringup_wait_on", "the operation");
	fail_none(&e);
	rc = engine_wait(op, clock_deadline(slice_ms < 0 ? 0 : slice_ms), true, &e);
	return rc ? call_late(&e, rc == RINGUP_ETIMEDOUT ? op : NULL) : 0;
}

int ringup_result_stream(struct ringup_op *op, void *stream)
{
	static const char call[] = "ringup_result_stream";

	if (!op || !stream)
		return call_null(call, op ? "the stream" : "the operation");
	engine_result_stream(op, stream);
	return 0;
}

int ringup_then(struct ringup_op *op, void (*fn)(void *ctx, int status), void *ctx)
{
	static const char call[] = "ringup_then";
	struct err e;
	int rc;

	fail_none(&e);
	rc = op && fn ? engine_then(op, fn, ctx, &e)
		      : fail(&e, RINGUP_EINVAL, "%s: %s is NULL", call, op ? "fn" : "op");
	if (rc && rc != RINGUP_EINVAL)
		fail_in(&e, "%s", call);
	return rc ? call_fail(&e) : 0;
}

void *ringup_alloc(size_t bytes)
{
	struct err e = { 0 };
	void *p = share_alloc(bytes, &e);

	if (!p)
		call_fail(&e);
	return p;
}

void ringup_free(void *p)
{
	if (!share_free(p))
		free(p);
}
