/* eager_slot.c - write eager slots, and compute results from those of all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/eager_slot.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/ledger.h"
#include "engine/op.h"
#include "ringup.h"

/*
 * Contents of a slot: the rank's tensor (allreduce, reduce-scatter, the root's of a broadcast);
 * its rows, with their number beside the mark (allgather); the splits and then the rows
 * (all-to-all); for a bundle, what its members would have in slots of their own, side by side,
 * with the number of rows before each allgather's rows.
 */
enum {
	FEW = 8,           /* ranks up to which the list of their slots takes no stack page */
	FETCH = 64,        /* a cache line */
	MOVE_LEAST = 1024, /* bytes of a slot from which a string move is faster    */
	OWN_LEAST = 512,   /* elements of a sum from which owning its slots pays   */
	OWN_COPY_LEAST = 2048, /* bytes from which owning pays if data are only copied     */
};

static size_t element(const struct op_signature *w)
{
	return reduce_dtype_bytes((enum ringup_dtype)w->dtype);
}

/* Iterates over the members of a bundle: the caller's requests, or the copies of them. */
struct walk {
	const struct request *asked;
	const struct ringup_op *copied;
	uint32_t left;
};

static struct walk walk(const struct request *bundle)
{
	return (struct walk){ bundle->members, bundle->copies, bundle->signature.members };
}

/* The next member, or NULL. */
static const struct request *next_member(struct walk *w)
{
	const struct ringup_op *op = w->copied;

	if (!w->left)
		return NULL;
	w->left--;
	if (w->asked)
		return w->asked++;
	w->copied = op->next;
	return &op->ask;
}

/* Bytes of member @m in its bundle's slot, for a rank with @rows. */
static uint64_t space(const struct request *m, uint64_t rows)
{
	uint64_t row = m->signature.count * element(&m->signature);

	return m->signature.kind == PLAN_ALLGATHER
		       ? sizeof(rows) + op_signature_eight(rows * row)
		       : op_signature_eight(row);
}

static __attribute__((noinline)) uint64_t share_of_members(const struct request *r)
{
	struct walk all = walk(r);
	const struct request *m;
	uint64_t sum = 0;

	while ((m = next_member(&all)))
		sum += space(m, m->rows);
	return sum;
}

uint64_t eager_slot_share(const struct comm *l, const struct request *r)
{
	const struct op_signature *w = &r->signature;
	uint64_t row = w->count * element(w), sum = 0;

	switch (w->kind) {
	case PLAN_ALLREDUCE:
	case PLAN_REDUCESCATTER:
		return row;
	case PLAN_BROADCAST:
		return w->root == l->topo.rank ? row : 0;
	case PLAN_ALLGATHER:
		return r->rows * row;
	case PLAN_ALLTOALL:
		for (int i = 0; i < l->topo.size; i++)
			sum += r->splits[i] * row;
		return sum + eager_slot_splits_bytes(l);
	case OP_BUNDLE:
		return share_of_members(r);
	default:
		return 0;
	}
}

static void eager_slot_fill(void *to, const void *in, uint64_t bytes)
{
	(bytes >= MOVE_LEAST ? copy_over : copy_bytes)(to, in, bytes);
}

/* True for a sum of two ranks, each the only reader of the other's slot, on a processor where
 * the reader owns the cache lines: the slot then comes back whole when it is filled again. */
static bool is_claimed(const struct comm *l, const struct op_signature *w)
{
	return w->count >= OWN_LEAST && l->topo.size == 2 && w->pre == 1 &&
	       w->kind == PLAN_ALLREDUCE && copy_ownership() == COPY_OWNS;
}

/*
 * No rank reads the next round's slot any more, but others may still have it in their caches.
 * A store fetches a line from there without waiting for it: by the time this name is used
 * again, this processor owns the slot.
 */
void eager_slot_fetch(const struct comm *l, const struct eager_round *t,
		      const struct op_signature *w)
{
	struct eager_slots at = ledger_slots(l->ledger, t->id, t->number + 1);
	unsigned char *mine = (unsigned char *)ledger_mark(&at, l->topo.rank);

	__atomic_store_n(ledger_mark(&at, l->topo.rank), 0, __ATOMIC_RELAXED);
	/* A string move fetches nothing. */
	if (is_claimed(l, w) ||
	    (w->pre == 1 && t->bytes >= MOVE_LEAST && copy_ownership() == COPY_STRINGS))
		return;
	for (uint64_t i = FETCH; i < t->bytes + at.head; i += FETCH)
		__atomic_store_n(mine + i, 0, __ATOMIC_RELAXED);
}

/* Writes @bytes, those of signature @w or 0, to a slot. */
static inline void eager_slot_put_bytes(void *to, const struct op_signature *w, const void *in,
					uint64_t bytes)
{
	if (w->pre != 1)
		copy_scaled((enum ringup_dtype)w->dtype, to, in, bytes ? w->count : 0, w->pre);
	else if (bytes <= 16)
		copy_few(to, in, bytes);
	else
		eager_slot_fill(to, in, bytes);
}

/* Publishes that the slot is filled. */
static inline void publish(const struct comm *l, const struct eager_round *t, bool gathers)
{
	if (ledger_asks(l->ledger))
		ledger_tell_when(&t->at, l->topo.rank, gathers, t->when ? t->when : clock_ns());
	ledger_put(&t->at, l->topo.rank, t->number, SLOT_DATA);
}

void eager_slot_put(const struct comm *l, const struct eager_round *t,
		    const struct op_signature *w, const void *in)
{
	eager_slot_put_bytes(ledger_data(&t->at, l->topo.rank), w, in, t->bytes);
	publish(l, t, false);
}

static __attribute__((noinline)) void put_members(void *slot, const struct request *r)
{
	struct walk all = walk(r);
	const struct request *m;
	unsigned char *to = slot;
	uint64_t row;

	while ((m = next_member(&all))) {
		row = m->signature.count * element(&m->signature);
		if (m->signature.kind == PLAN_ALLGATHER) {
			*(uint64_t *)to = m->rows;
			eager_slot_fill(to + sizeof(m->rows), m->in, m->rows * row);
		} else {
			eager_slot_put_bytes(to, &m->signature, m->in, row);
		}
		to += space(m, m->rows);
	}
}

void eager_slot_write(struct comm *l, const struct eager_round *t, const struct request *r)
{
	unsigned char *to = ledger_data(&t->at, l->topo.rank);
	uint64_t bytes = t->bytes, head;

	switch (r->signature.kind) {
	case PLAN_ALLTOALL:
		head = eager_slot_splits_bytes(l);
		copy_bytes(to, r->splits, head);
		eager_slot_fill(to + head, r->in, bytes - head);
		break;
	case PLAN_ALLGATHER:
		*ledger_rows(&t->at, l->topo.rank) = r->rows;
		eager_slot_fill(to, r->in, bytes);
		break;
	case OP_BUNDLE:
		put_members(to, r);
		break;
	default:
		eager_slot_put(l, t, &r->signature, r->in);
		return;
	}
	publish(l, t, r->signature.kind == PLAN_ALLGATHER);
}

/* Reduces the ranks' data at @src. */
static inline void add_up(const void **src, const struct comm *l, const struct op_signature *w,
			  const void *in, void *out, uint64_t skip, uint64_t count)
{
	struct reduce how = { (enum ringup_dtype)w->dtype, (enum ringup_redop)w->redop,
			      (uint32_t)l->topo.size, w->post };

	/* Data just stored are slow to load in other pieces: read the input instead. */
	if (w->pre == 1)
		src[l->topo.rank] = (const unsigned char *)in + skip;
	reduce_many(&how, &out, 1, src, l->topo.size, count);
}

/* Reduces from the slots; @src has room for a pointer per rank. */
static inline void reduce_from(const void **src, const struct comm *l,
			       const struct eager_slots *at, const struct op_signature *w,
			       const void *in, void *out, uint64_t skip, uint64_t count)
{
	const unsigned char *data = (const unsigned char *)ledger_data(at, 0) + skip;

	for (int r = 0; r < l->topo.size; r++, data += at->step)
		src[r] = data;
	add_up(src, l, w, in, out, skip, count);
}

static void reduce_slots(const struct comm *l, const struct eager_slots *at,
			 const struct op_signature *w, const void *in, void *out,
			 uint64_t first, uint64_t count)
{
	const void *src[EAGER_SLOT_RANKS];

	reduce_from(src, l, at, w, in, out, first * element(w), count);
}

static __attribute__((noinline)) void sum_owning(const struct comm *l,
						 const struct eager_slots *at,
						 const struct op_signature *w, const void *in,
						 void *out)
{
	unsigned char *theirs = ledger_data(at, !l->topo.rank);
	uint64_t few = COPY_OWN_BYTES / element(w), first, m;
	const void *src[2];

	for (first = 0; first < w->count; first += m) {
		m = w->count - first < few ? w->count - first : few;
		reduce_from(src, l, at, w, in, (unsigned char *)out + first * element(w),
			    first * element(w), m);
		copy_own(theirs + first * element(w), m * element(w));
	}
}

void eager_slot_sum(const struct comm *l, const struct eager_slots *at,
		    const struct op_signature *w, const void *in, void *out)
{
	const void *src[FEW];

	if (is_claimed(l, w)) {
		sum_owning(l, at, w, in, out);
		return;
	}
	if (l->topo.size <= FEW)
		reduce_from(src, l, at, w, in, out, 0, w->count);
	else
		reduce_slots(l, at, w, in, out, 0, w->count);
}

/* Copies @bytes after @skip of rank @r's data at @slot.  With two ranks, this rank is the only
 * reader.  Its own data come from @in, as their slot may be in a reader's cache.
 */
static void eager_slot_take(const struct comm *l, int r, void *to, unsigned char *slot,
			    const void *in, uint64_t skip, uint64_t bytes)
{
	const unsigned char *own = in;

	if (r != l->topo.rank && bytes >= OWN_COPY_LEAST && l->topo.size == 2)
		copy_and_own(to, slot + skip, bytes, false);
	else if (r != l->topo.rank)
		copy_bytes(to, slot + skip, bytes);
	else if (bytes && to != own + skip)
		copy_bytes(to, own + skip, bytes);
}

/* Allocates a result of rows; on failure nothing is set. */
static unsigned char *make_result(const struct comm *l, const uint64_t *rows,
				  const struct request *q, struct err *e)
{
	const struct op_signature *w = &q->signature;
	uint64_t bytes = 0, before = 0;
	unsigned char *result;

	for (int r = 0; r < l->topo.size; r++) {
		before = r == l->topo.rank ? bytes : before;
		bytes += rows[r] * w->count * element(w);
	}
	result = op_room(q, true, bytes, before);
	if (!result)
		fail(e, RINGUP_ENOMEM, "no memory for %llu gathered bytes",
		     (unsigned long long)bytes);
	return result;
}

static int gather_slots(struct comm *l, const struct eager_slots *at, const struct request *q,
			struct err *e)
{
	uint64_t row = q->signature.count * element(&q->signature);
	unsigned char *result, *to;

	for (int r = 0; r < l->topo.size; r++)
		q->counts[r] = r == l->topo.rank ? q->rows : *ledger_rows(at, r);
	result = to = make_result(l, q->counts, q, e);
	if (!result)
		return e->code;
	for (int r = 0; r < l->topo.size; r++) {
		eager_slot_take(l, r, to, ledger_data(at, r), q->in, 0, q->counts[r] * row);
		to += q->counts[r] * row;
	}
	*q->outp = result;
	return 0;
}

/* The splits of rank @r. */
static const uint64_t *splits_of(const struct comm *l, const struct eager_slots *at,
				 const struct request *q, int r)
{
	return r == l->topo.rank ? q->splits : ledger_data(at, r);
}

/* Collects from each slot the rows for this rank. */
static int exchange_slots(struct comm *l, const struct eager_slots *at, const struct request *q,
			  struct err *e)
{
	uint64_t row = q->signature.count * element(&q->signature), before;
	unsigned char *result, *to;
	int k;

	/* In a gather only the root gets rows. */
	if (!q->outp)
		return 0;
	for (int r = 0; r < l->topo.size; r++)
		q->counts[r] = splits_of(l, at, q, r)[l->topo.rank];
	result = to = make_result(l, q->counts, q, e);
	if (!result)
		return e->code;
	for (int r = 0; r < l->topo.size; r++) {
		const uint64_t *splits = splits_of(l, at, q, r);
		unsigned char *rows =
			(unsigned char *)ledger_data(at, r) + eager_slot_splits_bytes(l);

		for (before = 0, k = 0; k < l->topo.rank; k++)
			before += splits[k] * row;
		eager_slot_take(l, r, to, rows, q->in, before, q->counts[r] * row);
		to += q->counts[r] * row;
	}
	*q->outp = result;
	return 0;
}

/* Computes one member of a bundle from the data at @from, and advances @from to the next. */
static int take_member(struct comm *l, unsigned char **from, const struct request *m,
		       struct err *e)
{
	const struct op_signature *w = &m->signature;
	uint64_t first = 0, count = w->count, row = w->count * element(w);
	const void *src[EAGER_SLOT_RANKS];
	unsigned char *result;

	if (w->kind == PLAN_ALLGATHER) {
		for (int r = 0; r < l->topo.size; r++)
			m->counts[r] = *(const uint64_t *)from[r];
		*m->outp = result = make_result(l, m->counts, m, e);
		if (!result)
			return e->code;
		for (int r = 0; r < l->topo.size; r++) {
			eager_slot_take(l, r, result, from[r] + sizeof(*m->counts), m->in, 0,
					m->counts[r] * row);
			result += m->counts[r] * row;
			from[r] += space(m, m->counts[r]);
		}
		return 0;
	}
	if (w->kind == PLAN_REDUCESCATTER) {
		first = op_signature_part_first(w, l->topo.size, l->topo.rank);
		count = op_signature_part_first(w, l->topo.size, l->topo.rank + 1) - first;
	}
	for (int r = 0; r < l->topo.size; r++) {
		src[r] = from[r] + first * element(w);
		from[r] += space(m, 0);
	}
	add_up(src, l, w, m->in, m->out, first * element(w), count);
	return 0;
}

static int take_members(struct comm *l, const struct eager_slots *at, const struct request *q,
			struct err *e)
{
	unsigned char *from[EAGER_SLOT_RANKS];
	struct walk all = walk(q), done = walk(q);
	const struct request *m;
	int rc = 0;

	for (int r = 0; r < l->topo.size; r++)
		from[r] = ledger_data(at, r);
	while (!rc && (m = next_member(&all)))
		rc = take_member(l, from, m, e);
	/* All results or none. */
	for (done.left -= all.left; rc && (m = next_member(&done));) {
		if (m->signature.kind != PLAN_ALLGATHER)
			continue;
		if (*m->outp != m->into)
			free(*m->outp);
		*m->outp = NULL;
	}
	return rc;
}

/* Finishes all but single reductions.  Kept apart, so that the fast path does not save the
 * registers that these need. */
static __attribute__((noinline)) int hand_out(struct comm *l, const struct eager_slots *at,
					      const struct request *q, struct err *e)
{
	const struct op_signature *w = &q->signature;

	switch (w->kind) {
	case PLAN_BROADCAST:
		eager_slot_take(l, w->root, q->out, ledger_data(at, w->root), q->in, 0,
				w->count * element(w));
		return 0;
	case PLAN_ALLGATHER:
		return gather_slots(l, at, q, e);
	case PLAN_ALLTOALL:
		return exchange_slots(l, at, q, e);
	case OP_BUNDLE:
		return take_members(l, at, q, e);
	default:
		return 0;
	}
}

int eager_slot_finish(struct comm *l, const struct eager_slots *at, const struct request *q,
		      struct err *e)
{
	const struct op_signature *w = &q->signature;
	uint64_t first;

	switch (w->kind) {
	case PLAN_ALLREDUCE:
		/* In a reduction to a root only the root needs the result. */
		if (w->digest == OP_ALL || q->out)
			eager_slot_sum(l, at, w, q->in, q->out);
		return 0;
	case PLAN_REDUCESCATTER:
		first = op_signature_part_first(w, l->topo.size, l->topo.rank);
		reduce_slots(l, at, w, q->in, q->out, first,
			     op_signature_part_first(w, l->topo.size, l->topo.rank + 1) -
				     first);
		return 0;
	default:
		return hand_out(l, at, q, e);
	}
}
