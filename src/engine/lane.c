/* lane.c - carry out what a group of ranks has agreed: batches, plans, completion. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coll/adasum.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "engine/eager.h"
#include "engine/engine.h"
#include "engine/join.h"
#include "engine/ledger.h"
#include "engine/op.h"
#include "ringup.h"

void lane_fail(struct lane *l, const struct err *why)
{
	struct ringup_op *op;

	lock_take(&l->lock);
	for (op = l->flying; op; op = op->next)
		if (op_claim(op)) {
			if (op_is_eager(op))
				__atomic_fetch_sub(&l->eager_count, 1, __ATOMIC_RELAXED);
			op_fail(op, why);
		}
	l->running = false;
	__atomic_store_n(&l->join, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&l->item_count, 0, __ATOMIC_RELAXED);
	lock_give(&l->lock);
}

void lane_leave(uint32_t *left, int rank)
{
	uint32_t nobody = 0;

	__atomic_compare_exchange_n(left, &nobody, (uint32_t)rank + 1, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

bool lane_is_over(const struct lane *l, struct err *e)
{
	int left = (int)__atomic_load_n(l->left, __ATOMIC_ACQUIRE) - 1;

	if (left >= 0 && e)
		fail(e, RINGUP_ESHUTDOWN, "rank %d has left the job",
		     l->ranks ? l->ranks[left] : left);
	return left >= 0;
}

int lane_flying(struct lane *l)
{
	struct ringup_op *op;
	int n = 0;

	lock_take(&l->lock);
	for (op = l->flying; op; op = op->next)
		n += !op_is_done(op);
	lock_give(&l->lock);
	return n;
}

/* ---- plans ---- */

static struct ringup_op *op_of(struct lane *l, const struct item *it)
{
	struct tensor *t;

	lock_take(&l->lock);
	t = tensors_by_id(&l->tensors, it->id);
	lock_give(&l->lock);
	return t ? __atomic_load_n(&t->op, __ATOMIC_ACQUIRE) : NULL;
}

static size_t element(const struct want *w)
{
	return reduce_dtype_bytes((enum ringup_dtype)w->dtype);
}

uint64_t lane_part_first(const struct lane *l, const struct want *w, int rank)
{
	uint64_t rows = w->digest, size = (uint64_t)l->team.size, r = (uint64_t)rank;
	uint64_t more = rows % size;

	return rows ? w->count / rows * (rows / size * r + (r < more ? r : more)) : 0;
}

/* The first dtype, operation and scale; pieces are added by the caller. */
static void begin(struct lane *l, enum plan_kind kind, const struct want *w)
{
	l->plan = (struct plan){ .kind = kind,
				 .dtype = (enum ringup_dtype)w->dtype,
				 .redop = (enum ringup_redop)w->redop,
				 .pre = w->pre,
				 .post = w->post,
				 .root = w->root,
				 .piece = l->pieces };
}

static void add(struct lane *l, const void *in, void *out, uint64_t count)
{
	l->pieces[l->plan.pieces++] = (struct piece){ in, out, count };
	l->plan.count += count;
}

/* The item is dealt with when this plan is done. */
static void ends(struct lane *l, struct ringup_op *op)
{
	l->ops[l->op_count++] = op;
	l->item_at++;
	l->phase = 0;
}

/* Room for what is gathered: @rows of each rank; writes their elements to l->counts. */
static int make_room(struct lane *l, struct ringup_op *op, const uint64_t *rows, size_t stride,
		     struct err *e)
{
	const struct want *w = &op->ask.want;
	uint64_t total = 0, bytes;
	int r;

	for (r = 0; r < l->team.size; r++)
		if (__builtin_mul_overflow(rows[(size_t)r * stride], w->count, &l->counts[r]) ||
		    __builtin_add_overflow(total, l->counts[r], &total))
			total = UINT64_MAX;
	if (__builtin_mul_overflow(total, element(w), &bytes) || bytes > SIZE_MAX / 2)
		return fail(e, RINGUP_EMISMATCH, "%.200s: the blocks are too large together",
			    op->tensor->name);
	op->result = op_room(&op->ask, bytes);
	if (!op->result)
		return fail(e, RINGUP_ENOMEM, "%.200s: no memory for %llu gathered bytes",
			    op->tensor->name, (unsigned long long)bytes);
	return 0;
}

static int plan_allgather(struct lane *l, const struct item *it, struct ringup_op *op,
			  struct err *e)
{
	const struct want *w = &op->ask.want;
	int rc;

	if (!it->rows)
		return fail(e, RINGUP_EPEER, "%.200s: no row counts", op->tensor->name);
	rc = make_room(l, op, it->rows, 1, e);
	if (rc)
		return rc;
	begin(l, PLAN_ALLGATHER, w);
	add(l, op->ask.in, op->result, op->ask.rows * w->count);
	l->plan.counts = l->counts;
	memcpy(op->ask.counts, it->rows, (size_t)l->team.size * sizeof(*it->rows));
	ends(l, op);
	return 0;
}

/* Adasum is not an element's own business: all have all, and compute the same. */
static int plan_adasum(struct lane *l, struct ringup_op *op, struct err *e)
{
	const struct want *w = &op->ask.want;
	uint64_t bytes = want_bytes(w), all;
	unsigned char *mine;
	int r;

	if (__builtin_mul_overflow(bytes, (uint64_t)l->team.size, &all) || all > SIZE_MAX / 2)
		all = 0;
	op->result = all || !bytes ? malloc(all ? all : 1) : NULL;
	if (!op->result)
		return fail(e, RINGUP_ENOMEM, "%.200s: no memory for %d tensors of %llu bytes",
			    op->tensor->name, l->team.size, (unsigned long long)bytes);
	mine = (unsigned char *)op->result + bytes * (uint64_t)l->team.rank;
	copy_scaled((enum ringup_dtype)w->dtype, mine, op->ask.in, w->count, w->pre);
	for (r = 0; r < l->team.size; r++)
		l->counts[r] = w->count;
	begin(l, PLAN_ALLGATHER, w);
	l->plan.pre = l->plan.post = 1;
	add(l, mine, op->result, w->count);
	l->plan.counts = l->counts;
	ends(l, op);
	return 0;
}

/* First every rank tells every other how many rows it has for it. */
static int plan_splits(struct lane *l, struct ringup_op *op, struct err *e)
{
	static const struct want numbers = { .pre = 1, .post = 1, .dtype = RINGUP_I64 };
	size_t n = (size_t)l->team.size, r;

	if (!l->matrix)
		l->matrix = calloc(n * n, sizeof(*l->matrix));
	if (!l->matrix)
		return fail(e, RINGUP_ENOMEM, "no memory for %zu ranks' splits", n);
	for (r = 0; r < n; r++)
		l->counts[r] = n;
	begin(l, PLAN_ALLGATHER, &numbers);
	add(l, op->ask.splits, l->matrix, n);
	l->plan.counts = l->counts;
	l->phase = 1;
	return 0;
}

static int plan_alltoall(struct lane *l, struct ringup_op *op, struct err *e)
{
	const struct want *w = &op->ask.want;
	size_t n = (size_t)l->team.size, me = (size_t)l->team.rank, i;
	uint64_t mine = 0;
	int rc;

	if (!l->phase)
		return plan_splits(l, op, e);
	rc = make_room(l, op, l->matrix + me, n, e);
	if (rc)
		return rc;
	for (i = 0; i < n; i++)
		op->ask.counts[i] = l->matrix[i * n + me];
	for (i = 0; i < n * n; i++)
		if (__builtin_mul_overflow(l->matrix[i], w->count, &l->matrix[i]))
			return fail(e, RINGUP_EMISMATCH,
				    "%.200s: the blocks are too large together",
				    op->tensor->name);
	for (i = 0; i < n; i++)
		mine += l->matrix[me * n + i];
	begin(l, PLAN_ALLTOALL, w);
	add(l, op->ask.in, op->result, mine);
	l->plan.matrix = l->matrix;
	ends(l, op);
	return 0;
}

static void plan_reducescatter(struct lane *l, struct ringup_op *op)
{
	const struct want *w = &op->ask.want;
	int r;

	for (r = 0; r < l->team.size; r++)
		l->counts[r] = lane_part_first(l, w, r + 1) - lane_part_first(l, w, r);
	begin(l, PLAN_REDUCESCATTER, w);
	add(l, op->ask.in, op->ask.out, w->count);
	l->plan.counts = l->counts;
	ends(l, op);
}

static bool same_kind(const struct want *a, const struct want *b)
{
	return b->kind == PLAN_ALLREDUCE && b->redop != RINGUP_ADASUM && !b->members &&
	       a->dtype == b->dtype && a->redop == b->redop && a->pre == b->pre &&
	       a->post == b->post;
}

/* As many tensors as run as one: of one type and operation, up to the threshold.
 * Those that were submitted together run together, and alone. */
static void plan_allreduce(struct lane *l, struct ringup_op *op)
{
	const struct want *w = &op->ask.want;
	uint64_t bytes = want_bytes(w);

	begin(l, PLAN_ALLREDUCE, w);
	if (w->members) {
		add(l, op->ask.in, op->ask.out, w->count);
		/* To a rank that has joined they are one. */
		if (op->ask.piece) {
			l->plan.piece = op->ask.piece;
			l->plan.pieces = (int)w->members;
		}
		ends(l, op);
		return;
	}
	do {
		add(l, op->ask.in, op->ask.out, op->ask.want.count);
		ends(l, op);
		if (l->item_at == l->item_count || l->items[l->item_at].bad)
			return;
		op = op_of(l, &l->items[l->item_at]);
		if (!op || !same_kind(w, &op->ask.want))
			return;
		bytes += want_bytes(&op->ask.want);
	} while (bytes <= l->fusion_bytes);
}

/* Make a plan of the items from item_at on. */
static int plan_next(struct lane *l, struct err *e)
{
	static const struct want nothing = { .pre = 1, .post = 1 };
	struct item *it = &l->items[l->item_at];
	struct ringup_op *op = op_of(l, it);
	int rc = 0;

	if (!op)
		return fail(e, RINGUP_EPEER,
			    "a batch names a tensor that is not in flight here");
	l->plan_bad = it->bad;
	l->op_count = 0;
	/* Where ranks disagree nothing is touched, but all stay in step. */
	switch (it->bad ? PLAN_BARRIER : (int)op->ask.want.kind) {
	case PLAN_ALLREDUCE:
		if (op->ask.want.redop == RINGUP_ADASUM)
			rc = plan_adasum(l, op, e);
		else
			plan_allreduce(l, op);
		break;
	case PLAN_BROADCAST:
		begin(l, PLAN_BROADCAST, &op->ask.want);
		add(l, op->ask.in, op->ask.out, op->ask.want.count);
		ends(l, op);
		break;
	case PLAN_ALLGATHER:
		rc = plan_allgather(l, it, op, e);
		break;
	case PLAN_REDUCESCATTER:
		plan_reducescatter(l, op);
		break;
	case PLAN_ALLTOALL:
		rc = plan_alltoall(l, op, e);
		break;
	default:
		begin(l, PLAN_BARRIER, &nothing);
		l->plan.piece = NULL;
		if (!it->bad && op->ask.want.kind == WANT_JOIN && it->rows)
			join_done(l, op, it->rows);
		ends(l, op);
	}
	return rc ? rc : l->backend->start(l->carrier, &l->plan, e);
}

/* All ranks' tensors are here: combine them, and leave only the result. */
static int finish_adasum(struct lane *l, struct ringup_op *op, struct err *e)
{
	const struct want *w = &op->ask.want;
	enum ringup_dtype dtype = (enum ringup_dtype)w->dtype;
	size_t bytes = adasum_scratch_bytes(dtype, l->team.size, w->count);
	void *scratch = bytes < SIZE_MAX ? malloc(bytes ? bytes : 1) : NULL;

	if (!scratch)
		return fail(e, RINGUP_ENOMEM, "%.200s: no memory to combine %d tensors",
			    op->tensor->name, l->team.size);
	adasum(dtype, op->ask.out, op->result, l->team.size, w->count, scratch);
	if (w->post != 1)
		copy_scaled(dtype, op->ask.out, op->ask.out, w->count, w->post);
	free(scratch);
	op_discard(op);
	return 0;
}

/* What is left to do on this rank alone. */
static int conclude(struct lane *l, struct ringup_op *op, struct err *e)
{
	const struct want *w = &op->ask.want;

	if (w->kind == PLAN_ALLREDUCE && w->redop == RINGUP_ADASUM)
		return finish_adasum(l, op, e);
	if (w->kind == PLAN_ALLGATHER || w->kind == PLAN_ALLTOALL) {
		/* What a rank that has joined receives, nobody wants. */
		if (op->ghost)
			op_discard(op);
		else
			*op->ask.outp = op->result;
		op->result = NULL;
	}
	return 0;
}

static void plan_done(struct lane *l)
{
	struct err why = { 0 };
	int i, rc;

	if (l->plan_bad)
		fail(&why, RINGUP_EMISMATCH, "%s", l->plan_bad);
	for (i = 0; i < l->op_count; i++) {
		struct ringup_op *op = l->ops[i];

		op->tensor->verified = !l->plan_bad;
		if (!op_claim(op))
			continue;
		rc = l->plan_bad ? why.code : conclude(l, op, &why);
		if (rc)
			op_fail(op, &why);
		else
			op_complete(op, 0);
	}
	l->running = false;
	if (l->item_at == l->item_count) {
		__atomic_store_n(&l->item_count, 0, __ATOMIC_RELAXED);
		l->agree->done(l->agreement);
	}
	engine_completed(l->engine);
}

bool lane_ready(struct lane *l)
{
	return __atomic_load_n(&l->item_count, __ATOMIC_RELAXED) ||
	       l->agree->ready(l->agreement) ||
	       (lane_is_over(l, NULL) && !__atomic_load_n(&l->over, __ATOMIC_RELAXED)) ||
	       (__atomic_load_n(&l->joined, __ATOMIC_RELAXED) &&
		(ledger_calls(l->ledger) != __atomic_load_n(&l->calls_seen, __ATOMIC_RELAXED) ||
		 join_ready(l)));
}

/* Whoever left has sent all that it had before: what is not complete now never will be. */
static int end(struct lane *l)
{
	struct err why;

	lane_is_over(l, &why);
	eager_scan(l);
	/* First, so that what comes meanwhile by the short way makes us look again. */
	__atomic_store_n(&l->over, true, __ATOMIC_SEQ_CST);
	lane_fail(l, &why);
	engine_completed(l->engine);
	return 1;
}

int lane_step(struct lane *l, struct err *e)
{
	/* Asked first, see end(). */
	bool over = lane_is_over(l, NULL) && !__atomic_load_n(&l->over, __ATOMIC_RELAXED);
	int rc;

	if (l->running) {
		rc = l->backend->step(l->carrier, e);
		if (rc > 0)
			plan_done(l);
		return rc;
	}
	if (l->item_at < l->item_count) {
		rc = plan_next(l, e);
		l->running = rc == 0;
		return rc < 0 ? rc : 1;
	}
	if (l->agree->ready(l->agreement)) {
		rc = l->agree->next(l->agreement, l->fusion_bytes, l->items);
		l->item_at = 0;
		__atomic_fetch_add(&l->batches, rc > 0, __ATOMIC_RELAXED);
		__atomic_store_n(&l->item_count, rc, __ATOMIC_RELAXED);
		return rc > 0;
	}
	rc = __atomic_load_n(&l->joined, __ATOMIC_RELAXED) ? join_answer(l, e) : 0;
	return !rc && over ? end(l) : rc;
}

/* ---- life ---- */

int lane_open(struct lane *l, struct err *e)
{
	l->counts = calloc((size_t)l->team.size, sizeof(*l->counts));
	if (!l->counts)
		return fail(e, RINGUP_ENOMEM, "no memory for the engine");
	return 0;
}

void lane_close(struct lane *l)
{
	struct ringup_op *block, *op;

	for (op = l->flying; op; op = op->next) {
		op_discard(op);
		free(op->own);
	}
	while ((block = l->blocks)) {
		l->blocks = block->block_next;
		free(block);
	}
	tensors_free(&l->tensors);
	free(l->counts);
	free(l->matrix);
	free(l->seen);
	memset(l, 0, sizeof(*l));
}
