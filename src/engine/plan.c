/* plan.c - plans that a back end executes for an operation, one after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coll/adasum.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/eager.h"
#include "engine/op.h"
#include "engine/op_text.h"
#include "ringup.h"
#include "wire/ranks.h"

static size_t element(const struct op_signature *s)
{
	return reduce_dtype_bytes((enum ringup_dtype)s->dtype);
}

void plan_begin(struct comm *c, enum plan_kind kind, const struct op_signature *s)
{
	c->run->plan = (struct plan){ .kind = kind,
				      .dtype = (enum ringup_dtype)s->dtype,
				      .redop = (enum ringup_redop)s->redop,
				      .memory = (enum ringup_memory)s->memory,
				      .pre = s->pre,
				      .post = s->post,
				      .root = s->root,
				      .piece = c->run->pieces };
}

void plan_add(struct comm *c, const void *in, void *out, uint64_t count)
{
	struct plan *p = &c->run->plan;

	c->run->pieces[p->pieces++] = (struct piece){ .in = in, .out = out, .count = count };
	p->count += count;
}

/* Adds the data of @op to the plan, in place. */
static void add_op(struct comm *c, const struct ringup_op *op, void *out, uint64_t count)
{
	struct piece *piece = &c->run->pieces[c->run->plan.pieces];

	plan_add(c, op->ask.in, out, count);
	/* A proxy's buffers, for a rank that has joined, are in host memory. */
	piece->memory = op->proxy ? RINGUP_HOST : (enum ringup_memory)op->ask.signature.memory;
	piece->stream = op->ask.stream;
	piece->ready = op->ready;
	if (!c->run->plan.name)
		c->run->plan.name = op_text_name(op);
}

/* The item is then done, unless @op is a part of a bundle. */
void plan_ends(struct comm *c, struct ringup_op *op)
{
	c->run->ops[c->run->op_count++] = op;
	if (op->bundle) {
		op->state = OP_CLAIMED;
	} else {
		c->item_at++;
		c->phase = 0;
	}
}

void plan_barrier(struct comm *c)
{
	static const struct op_signature nothing = { .pre = 1, .post = 1 };

	plan_begin(c, PLAN_BARRIER, &nothing);
	c->run->plan.piece = NULL;
}

uint64_t *plan_room(struct comm *c, size_t count, struct err *e)
{
	uint64_t *more;

	if (count > c->run->number_count) {
		more = count <= SIZE_MAX / 16 ? realloc(c->run->numbers, count * sizeof(*more))
					      : NULL;
		if (!more) {
			fail(e, RINGUP_ENOMEM, "out of memory for the rows of %d ranks",
			     c->topo.size);
			return NULL;
		}
		c->run->numbers = more;
		c->run->number_count = count;
	}
	return c->run->numbers;
}

uint64_t *plan_tell(struct comm *c, uint64_t each, struct err *e)
{
	static const struct op_signature numbers = { .pre = 1, .post = 1, .dtype = RINGUP_I64 };
	size_t n = (size_t)c->topo.size, r;
	uint64_t *all = plan_room(c, n * each, e), *mine;

	if (!all)
		return NULL;
	for (r = 0; r < n; r++)
		c->run->counts[r] = each;
	mine = all + (size_t)c->topo.rank * each;
	plan_begin(c, PLAN_ALLGATHER, &numbers);
	plan_add(c, mine, all, each);
	c->run->plan.counts = c->run->counts;
	return mine;
}

/* Ranks do not ask each other about smaller results: asking takes longer than the exchange.  A
 * rank without memory for one receives it into the run's spare room instead, and its own
 * operation fails alone. */
enum { ASK_BYTES = 4 << 20 };

/* What a rank tells the others. */
enum { HAS_ROOM, HAS_NO_MEMORY, HAS_SMALL_INTO };

static uint64_t room_of(const struct ringup_op *op)
{
	if (op->result)
		return HAS_ROOM;
	/* The caller has to bring a device's memory. */
	if (op->far ? op->far->bytes > op->far->into_bytes
		    : !op->proxy && !op_signature_is_of_host(&op->ask.signature))
		return HAS_SMALL_INTO;
	return HAS_NO_MEMORY;
}

/* All ranks know that the result of @op is large: they tell each other whether they have room
 * for it.  If a rank has none, the operation fails on all ranks; other operations do not. */
static int plan_ask(struct comm *c, struct ringup_op *op)
{
	static const struct op_signature number = { .pre = 1, .post = 1, .dtype = RINGUP_I64 };

	for (int r = 0; r < c->topo.size; r++)
		c->run->counts[r] = 1;
	c->run->no_room[c->topo.rank] = room_of(op);
	plan_begin(c, PLAN_ALLGATHER, &number);
	plan_add(c, c->run->no_room + c->topo.rank, c->run->no_room, 1);
	c->run->plan.counts = c->run->counts;
	op->asked = true;
	return 1;
}

/* Evaluates the answers: 0, or 1 if a plan has been made with which @op fails. */
static int plan_answered(struct comm *c, struct ringup_op *op)
{
	int r;

	for (r = 0; r < c->topo.size && !c->run->no_room[r]; r++)
		;
	op->asked = false;
	if (r == c->topo.size)
		return 0;
	op_discard(op);
	op->status =
		fail(&op->why, RINGUP_ENOMEM, "%.200s: rank %d %s", op->entry->name,
		     ranks_in_world(c->ranks, r),
		     c->run->no_room[r] == HAS_SMALL_INTO
			     ? "has no room for the result on its GPU: into is too small, or "
			       "in lies in it"
			     : "is out of memory for the result");
	plan_barrier(c);
	plan_ends(c, op);
	return 1;
}

/* Do ranks ask each other before a result of @all bytes is moved? */
static bool plan_asks(const struct comm *c, const struct ringup_op *op, uint64_t all)
{
	return c->topo.size > 1 &&
	       (all >= ASK_BYTES || !op_signature_is_of_host(&op->ask.signature) || op->mixed ||
		(op->bundle && op->bundle->mixed));
}

/* Allocates the spare room early, while there is memory; unused pages of it cost none. */
static void plan_spare(struct comm *c, const struct ringup_op *op, uint64_t all)
{
	if (c->topo.size > 1 && !c->run->spare && !plan_asks(c, op, all))
		c->run->spare = malloc(ASK_BYTES);
}

/* The buffer in which the plan of @op gathers its result. */
static void *plan_result(const struct comm *c, const struct ringup_op *op)
{
	return op->result ? op->result : c->run->spare;
}

/* @rc: the outcome of allocating the result; @all: its bytes on all ranks together.  Returns 0,
 * or 1 if another plan comes before that of @op, or why the job ends. */
static int plan_all_room(struct comm *c, struct ringup_op *op, uint64_t all, int rc)
{
	if (rc && rc != RINGUP_ENOMEM)
		return rc;
	if (plan_asks(c, op, all) || (rc && c->topo.size == 1))
		return plan_ask(c, op);
	if (!rc || !c->run->spare)
		return rc;
	op->status = fail(
		&op->why, RINGUP_ENOMEM,
		"%.200s: rank %d is out of memory for the result; the other ranks have theirs",
		op->entry->name, ranks_in_world(c->ranks, c->topo.rank));
	return 0;
}

/* The bytes of @rows; UINT64_MAX: too many. */
static uint64_t bytes_of(const struct op_signature *s, uint64_t rows)
{
	uint64_t bytes;

	return __builtin_mul_overflow(rows, s->count, &bytes) ||
			       __builtin_mul_overflow(bytes, element(s), &bytes)
		       ? UINT64_MAX
		       : bytes;
}

/* Allocates the gathered result, @rows of each rank, and sets c->run->counts, in elements. */
static int plan_make_room(struct comm *c, struct ringup_op *op, const uint64_t *rows,
			  size_t stride, struct err *e)
{
	const struct op_signature *s = &op->ask.signature;
	uint64_t total = 0, before = 0, bytes;

	for (int r = 0; r < c->topo.size; r++) {
		before = r == c->topo.rank ? total : before;
		if (__builtin_mul_overflow(rows[(size_t)r * stride], s->count,
					   &c->run->counts[r]) ||
		    __builtin_add_overflow(total, c->run->counts[r], &total))
			total = UINT64_MAX;
	}
	if (__builtin_mul_overflow(total, element(s), &bytes) || bytes > SIZE_MAX / 2)
		return fail(e, RINGUP_EMISMATCH,
			    "%.200s: the blocks of all ranks are too large", op->entry->name);
	/* The result goes to the caller's memory on a device. */
	if (op->far)
		op->far->bytes = bytes;
	if (!op->result && (!op->far || bytes <= op->far->into_bytes))
		/* The engine allocates host memory only, and a proxy's is host memory too. */
		op->result = op_room(&op->ask, op->proxy || op_signature_is_of_host(s), bytes,
				     before * element(s));
	if (!op->result)
		return fail(e, RINGUP_ENOMEM, "%.200s: no memory for %llu gathered bytes",
			    op->entry->name, (unsigned long long)bytes);
	return 0;
}

/* As plan_all_room(), the same on all ranks.  @all: bytes of all ranks together. */
static int make_all_room(struct comm *c, struct ringup_op *op, const uint64_t *rows,
			 size_t stride, uint64_t all, struct err *e)
{
	bool answered = op->asked;
	int rc;

	if (answered && plan_answered(c, op))
		return 1;
	plan_spare(c, op, all);
	rc = plan_make_room(c, op, rows, stride, e);
	return answered ? rc : plan_all_room(c, op, all, rc);
}

static int plan_allgather(struct comm *c, struct ringup_op *op, const uint64_t *rows,
			  size_t stride, struct err *e)
{
	const struct op_signature *s = &op->ask.signature;
	size_t n = (size_t)c->topo.size, r;
	uint64_t all = 0;
	int rc;

	if (!rows)
		return fail(e, RINGUP_EPEER, "%.200s: no row counts", op->entry->name);
	for (r = 0; r < n; r++)
		if (__builtin_add_overflow(all, rows[r * stride], &all))
			all = UINT64_MAX;
	rc = make_all_room(c, op, rows, stride, bytes_of(s, all), e);
	if (rc)
		return rc;
	plan_begin(c, PLAN_ALLGATHER, s);
	add_op(c, op, plan_result(c, op), op->ask.rows * s->count);
	c->run->plan.counts = c->run->counts;
	for (r = 0; r < n; r++)
		op->ask.counts[r] = rows[r * stride];
	plan_ends(c, op);
	return 0;
}

/* Adasum depends on whole vectors: every rank gathers all tensors and computes the same. */
static int plan_adasum(struct comm *c, struct ringup_op *op, struct err *e)
{
	const struct op_signature *s = &op->ask.signature;
	uint64_t bytes = op_signature_bytes(s), all;
	unsigned char *mine, *room;
	int rc;

	if (__builtin_mul_overflow(bytes, (uint64_t)c->topo.size, &all) || all > SIZE_MAX / 2)
		all = 0;
	if (op->asked) {
		if (plan_answered(c, op))
			return 0;
	} else {
		plan_spare(c, op, bytes && !all ? UINT64_MAX : all);
		op->result = all || !bytes ? malloc(all ? all : 1) : NULL;
		rc = op->result
			     ? 0
			     : fail(e, RINGUP_ENOMEM,
				    "%.200s: no memory for %d tensors of %llu bytes",
				    op->entry->name, c->topo.size, (unsigned long long)bytes);
		rc = plan_all_room(c, op, bytes && !all ? UINT64_MAX : all, rc);
		if (rc)
			return rc > 0 ? 0 : rc;
	}
	room = plan_result(c, op);
	mine = room + bytes * (uint64_t)c->topo.rank;
	copy_scaled((enum ringup_dtype)s->dtype, mine, op->ask.in, s->count, s->pre);
	for (int r = 0; r < c->topo.size; r++)
		c->run->counts[r] = s->count;
	plan_begin(c, PLAN_ALLGATHER, s);
	c->run->plan.pre = c->run->plan.post = 1;
	plan_add(c, mine, room, s->count);
	c->run->plan.counts = c->run->counts;
	plan_ends(c, op);
	return 0;
}

/* A first plan, in which every rank tells every other rank how many rows it has for it. */
static int plan_splits(struct comm *c, struct ringup_op *op, struct err *e)
{
	uint64_t n = (uint64_t)c->topo.size, *mine = plan_tell(c, n, e);

	if (!mine)
		return e->code;
	memcpy(mine, op->ask.splits, n * sizeof(*mine));
	c->phase = 1;
	return 0;
}

static int plan_alltoall(struct comm *c, struct ringup_op *op, struct err *e)
{
	const struct op_signature *s = &op->ask.signature;
	size_t n = (size_t)c->topo.size, me = (size_t)c->topo.rank, i;
	uint64_t mine = 0, all = 0;
	int rc;

	if (!c->phase && !plan_room(c, n * n, e))
		return e->code;
	if (!c->phase && !eager_splits(c, op, c->run->numbers))
		return plan_splits(c, op, e);
	c->phase = 1;
	for (i = 0; i < n * n; i++)
		if (__builtin_add_overflow(all, c->run->numbers[i], &all))
			all = UINT64_MAX;
	rc = make_all_room(c, op, c->run->numbers + me, n, bytes_of(s, all), e);
	if (rc)
		return rc;
	for (i = 0; i < n && op->ask.counts; i++)
		op->ask.counts[i] = c->run->numbers[i * n + me];
	for (i = 0; i < n * n; i++)
		if (__builtin_mul_overflow(c->run->numbers[i], s->count, &c->run->numbers[i]))
			return fail(e, RINGUP_EMISMATCH,
				    "%.200s: the blocks of all ranks are too large",
				    op->entry->name);
	for (i = 0; i < n; i++)
		mine += c->run->numbers[me * n + i];
	plan_begin(c, PLAN_ALLTOALL, s);
	add_op(c, op, plan_result(c, op), mine);
	c->run->plan.matrix = c->run->numbers;
	plan_ends(c, op);
	return 0;
}

static void plan_reducescatter(struct comm *c, struct ringup_op *op)
{
	const struct op_signature *s = &op->ask.signature;

	for (int r = 0; r < c->topo.size; r++)
		c->run->counts[r] = op_signature_part_first(s, c->topo.size, r + 1) -
				    op_signature_part_first(s, c->topo.size, r);
	plan_begin(c, PLAN_REDUCESCATTER, s);
	add_op(c, op, op->ask.out, s->count);
	c->run->plan.counts = c->run->counts;
	plan_ends(c, op);
}

static bool same_kind(const struct op_signature *a, const struct op_signature *b)
{
	return b->kind == PLAN_ALLREDUCE && b->redop != RINGUP_ADASUM && a->dtype == b->dtype &&
	       a->redop == b->redop && a->memory == b->memory && a->pre == b->pre &&
	       a->post == b->post && !op_signature_is_for_host(b);
}

/* The next operation to fuse with @op: the next one alike of its bundle, wherever it stands, or
 * the next of the batch, if it is alike, up to the fusion threshold. */
static struct ringup_op *next_like(struct comm *c, struct ringup_op *op, uint64_t bytes)
{
	const struct op_signature *s = &op->ask.signature;

	if (op->bundle) {
		do
			op = op->next;
		while (op && (op->state != OP_FLYING || !same_kind(s, &op->ask.signature)));
		return op;
	}
	if (op->mixed || c->item_at == c->item_count || c->items[c->item_at].bad ||
	    c->items[c->item_at].result)
		return NULL;
	op = comm_op(c, &c->items[c->item_at]);
	return op && same_kind(s, &op->ask.signature) &&
			       bytes + op_signature_bytes(&op->ask.signature) <= c->fusion_bytes
		       ? op
		       : NULL;
}

static void plan_allreduce(struct comm *c, struct ringup_op *op)
{
	uint64_t bytes = 0;

	plan_begin(c, PLAN_ALLREDUCE, &op->ask.signature);
	do {
		bytes += op_signature_bytes(&op->ask.signature);
		add_op(c, op, op->ask.out, op->ask.signature.count);
		plan_ends(c, op);
		op = next_like(c, op, bytes);
	} while (op && c->run->op_count < BATCH_ITEMS);
}

int plan_make(struct comm *c, struct ringup_op *op, const uint64_t *rows, size_t stride,
	      struct err *e)
{
	const struct op_signature *s = &op->ask.signature;
	int rc;

	switch ((enum op_kind)s->kind) {
	case OP_ALLREDUCE:
		if (s->redop == RINGUP_ADASUM)
			return plan_adasum(c, op, e);
		plan_allreduce(c, op);
		return 0;
	case OP_ALLGATHER:
		rc = plan_allgather(c, op, rows, stride, e);
		return rc > 0 ? 0 : rc;
	case OP_ALLTOALL:
		rc = plan_alltoall(c, op, e);
		return rc > 0 ? 0 : rc;
	case OP_REDUCESCATTER:
		plan_reducescatter(c, op);
		return 0;
	case OP_BROADCAST:
		plan_begin(c, PLAN_BROADCAST, s);
		add_op(c, op, op->ask.out, s->count);
		plan_ends(c, op);
		return 0;
	case OP_BARRIER:
	case OP_JOIN:
	case OP_BUNDLE:
		plan_barrier(c);
		plan_ends(c, op);
		return 0;
	}
	return fail(e, RINGUP_EINVAL, "%.200s: collective %u is unknown", op->entry->name,
		    (unsigned int)s->kind);
}

/* With Adasum all ranks' tensors are here: combines them, and leaves only the result. */
int plan_conclude(struct ringup_op *op, struct err *e)
{
	const struct comm *c = op->comm;
	const struct op_signature *s = &op->ask.signature;
	enum ringup_dtype dtype = (enum ringup_dtype)s->dtype;
	size_t bytes;
	void *scratch;

	if (op->status) {
		*e = op->why;
		return op->status;
	}
	/* Without the tensors it has been done already, by stage.c. */
	if (s->kind != PLAN_ALLREDUCE || s->redop != RINGUP_ADASUM || !op->result)
		return 0;
	bytes = adasum_scratch_bytes(dtype, c->topo.size, s->count);
	scratch = bytes < SIZE_MAX ? malloc(bytes ? bytes : 1) : NULL;
	if (!scratch)
		return fail(e, RINGUP_ENOMEM, "%.200s: no memory to combine %d tensors",
			    op->entry->name, c->topo.size);
	adasum(dtype, op->ask.out, op->result, c->topo.size, s->count, scratch);
	if (s->post != 1)
		copy_scaled(dtype, op->ask.out, op->ask.out, s->count, s->post);
	free(scratch);
	op_discard(op);
	return 0;
}
