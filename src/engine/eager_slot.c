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

static size_t element(const struct op_signature *s)
{
	return reduce_dtype_bytes((enum ringup_dtype)s->dtype);
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

	return collective_is(m->signature.kind, COLLECTIVE_TELLS)
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

uint64_t eager_slot_share(const struct comm *c, const struct request *r)
{
	const struct op_signature *s = &r->signature;
	uint64_t row = s->count * element(s), sum = 0;

	switch ((enum op_kind)s->kind) {
	case OP_ALLREDUCE:
	case OP_REDUCESCATTER:
		return row;
	case OP_BROADCAST:
		return s->root == c->topo.rank ? row : 0;
	case OP_ALLGATHER:
		return r->rows * row;
	case OP_ALLTOALL:
		for (int i = 0; i < c->topo.size; i++)
			sum += r->splits[i] * row;
		return sum + eager_slot_splits_bytes(c);
	case OP_BUNDLE:
		return share_of_members(r);
	case OP_BARRIER:
	case OP_JOIN:
		break;
	}
	return 0;
}

static void eager_slot_fill(void *to, const void *in, uint64_t bytes)
{
	(bytes >= MOVE_LEAST ? copy_over : copy_bytes)(to, in, bytes);
}

/* True for a sum of two ranks, each the only reader of the other's slot, on a processor where
 * the reader owns the cache lines: the slot then comes back whole when it is filled again. */
static bool is_claimed(const struct comm *c, const struct op_signature *s)
{
	return s->count >= OWN_LEAST && c->topo.size == 2 && s->pre == 1 &&
	       s->kind == PLAN_ALLREDUCE && copy_ownership() == COPY_OWNS;
}

/*
 * No rank reads the next round's slot any more, but others may still have it in their caches.
 * A store fetches a line from there without waiting for it: by the time this name is used
 * again, this processor owns the slot.
 */
void eager_slot_fetch(const struct comm *c, const struct eager_round *t,
		      const struct op_signature *s)
{
	struct eager_slots at = ledger_slots(c->ledger, t->id, t->number + 1);
	unsigned char *mine = (unsigned char *)ledger_mark(&at, c->topo.rank);

	__atomic_store_n(ledger_mark(&at, c->topo.rank), 0, __ATOMIC_RELAXED);
	/* A string move fetches nothing. */
	if (is_claimed(c, s) ||
	    (s->pre == 1 && t->bytes >= MOVE_LEAST && copy_ownership() == COPY_STRINGS))
		return;
	for (uint64_t i = FETCH; i < t->bytes + at.head; i += FETCH)
		__atomic_store_n(mine + i, 0, __ATOMIC_RELAXED);
}

/* Writes @bytes, those of signature @s or 0, to a slot. */
static inline void eager_slot_put_bytes(void *to, const struct op_signature *s, const void *in,
					uint64_t bytes)
{
	if (s->pre != 1)
		copy_scaled((enum ringup_dtype)s->dtype, to, in, bytes ? s->count : 0, s->pre);
	else if (bytes <= 16)
		copy_few(to, in, bytes);
	else
		eager_slot_fill(to, in, bytes);
}

/* Publishes that the slot is filled. */
static inline void publish(const struct comm *c, const struct eager_round *t, bool gathers)
{
	if (ledger_asks(c->ledger))
		ledger_tell_when(&t->at, c->topo.rank, gathers, t->when ? t->when : clock_ns());
	ledger_put(&t->at, c->topo.rank, t->number, SLOT_DATA);
}

void eager_slot_put(const struct comm *c, const struct eager_round *t,
		    const struct op_signature *s, const void *in)
{
	eager_slot_put_bytes(ledger_data(&t->at, c->topo.rank), s, in, t->bytes);
	publish(c, t, false);
}

static __attribute__((noinline)) void put_members(void *slot, const struct request *r)
{
	struct walk all = walk(r);
	const struct request *m;
	unsigned char *to = slot;
	uint64_t row;

	while ((m = next_member(&all))) {
		row = m->signature.count * element(&m->signature);
		if (collective_is(m->signature.kind, COLLECTIVE_TELLS)) {
			*(uint64_t *)to = m->rows;
			eager_slot_fill(to + sizeof(m->rows), m->in, m->rows * row);
		} else {
			eager_slot_put_bytes(to, &m->signature, m->in, row);
		}
		to += space(m, m->rows);
	}
}

void eager_slot_write(struct comm *c, const struct eager_round *t, const struct request *r)
{
	unsigned char *to = ledger_data(&t->at, c->topo.rank);
	uint64_t bytes = t->bytes, head;

	switch ((enum op_kind)r->signature.kind) {
	case OP_ALLTOALL:
		head = eager_slot_splits_bytes(c);
		copy_bytes(to, r->splits, head);
		eager_slot_fill(to + head, r->in, bytes - head);
		break;
	case OP_ALLGATHER:
		*ledger_rows(&t->at, c->topo.rank) = r->rows;
		eager_slot_fill(to, r->in, bytes);
		break;
	case OP_BUNDLE:
		put_members(to, r);
		break;
	case OP_ALLREDUCE:
	case OP_BROADCAST:
	case OP_REDUCESCATTER:
	case OP_BARRIER:
	case OP_JOIN:
		eager_slot_put(c, t, &r->signature, r->in);
		return;
	}
	publish(c, t, collective_is(r->signature.kind, COLLECTIVE_TELLS));
}

/* Reduces the ranks' data at @src. */
static inline void add_up(const void **src, const struct comm *c, const struct op_signature *s,
			  const void *in, void *out, uint64_t skip, uint64_t count)
{
	struct reduce how = { (enum ringup_dtype)s->dtype, (enum ringup_redop)s->redop,
			      (uint32_t)c->topo.size, s->post };

	/* Data just stored are slow to load in other pieces: read the input instead. */
	if (s->pre == 1)
		src[c->topo.rank] = (const unsigned char *)in + skip;
	reduce_many(&how, &out, 1, src, c->topo.size, count);
}

/* Reduces from the slots; @src has room for a pointer per rank. */
static inline void reduce_from(const void **src, const struct comm *c,
			       const struct eager_slots *at, const struct op_signature *s,
			       const void *in, void *out, uint64_t skip, uint64_t count)
{
	const unsigned char *data = (const unsigned char *)ledger_data(at, 0) + skip;

	for (int r = 0; r < c->topo.size; r++, data += at->step)
		src[r] = data;
	add_up(src, c, s, in, out, skip, count);
}

static void reduce_slots(const struct comm *c, const struct eager_slots *at,
			 const struct op_signature *s, const void *in, void *out,
			 uint64_t first, uint64_t count)
{
	const void *src[EAGER_SLOT_RANKS];

	reduce_from(src, c, at, s, in, out, first * element(s), count);
}

static __attribute__((noinline)) void sum_owning(const struct comm *c,
						 const struct eager_slots *at,
						 const struct op_signature *s, const void *in,
						 void *out)
{
	unsigned char *theirs = ledger_data(at, !c->topo.rank);
	uint64_t few = COPY_OWN_BYTES / element(s), first, m;
	const void *src[2];

	for (first = 0; first < s->count; first += m) {
		m = s->count - first < few ? s->count - first : few;
		reduce_from(src, c, at, s, in, (unsigned char *)out + first * element(s),
			    first * element(s), m);
		copy_own(theirs + first * element(s), m * element(s));
	}
}

void eager_slot_sum(const struct comm *c, const struct eager_slots *at,
		    const struct op_signature *s, const void *in, void *out)
{
	const void *src[FEW];

	if (is_claimed(c, s)) {
		sum_owning(c, at, s, in, out);
		return;
	}
	if (c->topo.size <= FEW)
		reduce_from(src, c, at, s, in, out, 0, s->count);
	else
		reduce_slots(c, at, s, in, out, 0, s->count);
}

/* Copies @bytes after @skip of rank @r's data at @slot.  With two ranks, this rank is the only
 * reader.  Its own data come from @in, as their slot may be in a reader's cache.
 */
static void eager_slot_take(const struct comm *c, int r, void *to, unsigned char *slot,
			    const void *in, uint64_t skip, uint64_t bytes)
{
	const unsigned char *own = in;

	if (r != c->topo.rank && bytes >= OWN_COPY_LEAST && c->topo.size == 2)
		copy_and_own(to, slot + skip, bytes, false);
	else if (r != c->topo.rank)
		copy_bytes(to, slot + skip, bytes);
	else if (bytes && to != own + skip)
		copy_bytes(to, own + skip, bytes);
}

/* Allocates a result of rows; on failure nothing is set. */
static unsigned char *make_result(const struct comm *c, const uint64_t *rows,
				  const struct request *q, struct err *e)
{
	const struct op_signature *s = &q->signature;
	uint64_t bytes = 0, before = 0;
	unsigned char *result;

	for (int r = 0; r < c->topo.size; r++) {
		before = r == c->topo.rank ? bytes : before;
		bytes += rows[r] * s->count * element(s);
	}
	result = op_room(q, true, bytes, before);
	if (!result)
		fail(e, RINGUP_ENOMEM, "no memory for %llu gathered bytes",
		     (unsigned long long)bytes);
	return result;
}

static int gather_slots(struct comm *c, const struct eager_slots *at, const struct request *q,
			struct err *e)
{
	uint64_t row = q->signature.count * element(&q->signature);
	unsigned char *result, *to;

	for (int r = 0; r < c->topo.size; r++)
		q->counts[r] = r == c->topo.rank ? q->rows : *ledger_rows(at, r);
	result = to = make_result(c, q->counts, q, e);
	if (!result)
		return e->code;
	for (int r = 0; r < c->topo.size; r++) {
		eager_slot_take(c, r, to, ledger_data(at, r), q->in, 0, q->counts[r] * row);
		to += q->counts[r] * row;
	}
	*q->outp = result;
	return 0;
}

/* The splits of rank @r. */
static const uint64_t *splits_of(const struct comm *c, const struct eager_slots *at,
				 const struct request *q, int r)
{
	return r == c->topo.rank ? q->splits : ledger_data(at, r);
}

/* Collects from each slot the rows for this rank. */
static int exchange_slots(struct comm *c, const struct eager_slots *at, const struct request *q,
			  struct err *e)
{
	uint64_t row = q->signature.count * element(&q->signature), before;
	unsigned char *result, *to;
	int k;

	/* In a gather only the root gets rows. */
	if (!q->outp)
		return 0;
	for (int r = 0; r < c->topo.size; r++)
		q->counts[r] = splits_of(c, at, q, r)[c->topo.rank];
	result = to = make_result(c, q->counts, q, e);
	if (!result)
		return e->code;
	for (int r = 0; r < c->topo.size; r++) {
		const uint64_t *splits = splits_of(c, at, q, r);
		unsigned char *rows =
			(unsigned char *)ledger_data(at, r) + eager_slot_splits_bytes(c);

		for (before = 0, k = 0; k < c->topo.rank; k++)
			before += splits[k] * row;
		eager_slot_take(c, r, to, rows, q->in, before, q->counts[r] * row);
		to += q->counts[r] * row;
	}
	*q->outp = result;
	return 0;
}

/* Computes one member of a bundle from the data at @from, and advances @from to the next. */
static int take_member(struct comm *c, unsigned char **from, const struct request *m,
		       struct err *e)
{
	const struct op_signature *s = &m->signature;
	uint64_t first = 0, count = s->count, row = s->count * element(s);
	const void *src[EAGER_SLOT_RANKS];
	unsigned char *result;

	if (collective_is(s->kind, COLLECTIVE_TELLS)) {
		for (int r = 0; r < c->topo.size; r++)
			m->counts[r] = *(const uint64_t *)from[r];
		*m->outp = result = make_result(c, m->counts, m, e);
		if (!result)
			return e->code;
		for (int r = 0; r < c->topo.size; r++) {
			eager_slot_take(c, r, result, from[r] + sizeof(*m->counts), m->in, 0,
					m->counts[r] * row);
			result += m->counts[r] * row;
			from[r] += space(m, m->counts[r]);
		}
		return 0;
	}
	if (collective_is(s->kind, COLLECTIVE_PARTS)) {
		first = op_signature_part_first(s, c->topo.size, c->topo.rank);
		count = op_signature_part_first(s, c->topo.size, c->topo.rank + 1) - first;
	}
	for (int r = 0; r < c->topo.size; r++) {
		src[r] = from[r] + first * element(s);
		from[r] += space(m, 0);
	}
	add_up(src, c, s, m->in, m->out, first * element(s), count);
	return 0;
}

static int take_members(struct comm *c, const struct eager_slots *at, const struct request *q,
			struct err *e)
{
	unsigned char *from[EAGER_SLOT_RANKS];
	struct walk all = walk(q), done = walk(q);
	const struct request *m;
	int rc = 0;

	for (int r = 0; r < c->topo.size; r++)
		from[r] = ledger_data(at, r);
	while (!rc && (m = next_member(&all)))
		rc = take_member(c, from, m, e);
	/* All results or none. */
	for (done.left -= all.left; rc && (m = next_member(&done));) {
		if (!collective_is(m->signature.kind, COLLECTIVE_GROWS))
			continue;
		if (*m->outp != m->into)
			free(*m->outp);
		*m->outp = NULL;
	}
	return rc;
}

/* Finishes all but single reductions.  Kept apart, so that the fast path does not save the
 * registers that these need. */
static __attribute__((noinline)) int hand_out(struct comm *c, const struct eager_slots *at,
					      const struct request *q, struct err *e)
{
	const struct op_signature *s = &q->signature;

	switch ((enum op_kind)s->kind) {
	case OP_BROADCAST:
		eager_slot_take(c, s->root, q->out, ledger_data(at, s->root), q->in, 0,
				s->count * element(s));
		return 0;
	case OP_ALLGATHER:
		return gather_slots(c, at, q, e);
	case OP_ALLTOALL:
		return exchange_slots(c, at, q, e);
	case OP_BUNDLE:
		return take_members(c, at, q, e);
	/* eager_slot_finish() does these, and the others have no data. */
	case OP_ALLREDUCE:
	case OP_REDUCESCATTER:
	case OP_BARRIER:
	case OP_JOIN:
		break;
	}
	return 0;
}

int eager_slot_finish(struct comm *c, const struct eager_slots *at, const struct request *q,
		      struct err *e)
{
	const struct op_signature *s = &q->signature;
	uint64_t first;

	switch ((enum op_kind)s->kind) {
	case OP_ALLREDUCE:
		/* In a reduction to a root only the root needs the result. */
		if (s->digest == OP_ALL || q->out)
			eager_slot_sum(c, at, s, q->in, q->out);
		return 0;
	case OP_REDUCESCATTER:
		first = op_signature_part_first(s, c->topo.size, c->topo.rank);
		reduce_slots(c, at, s, q->in, q->out, first,
			     op_signature_part_first(s, c->topo.size, c->topo.rank + 1) -
				     first);
		return 0;
	case OP_BROADCAST:
	case OP_ALLGATHER:
	case OP_ALLTOALL:
	case OP_BARRIER:
	case OP_JOIN:
	case OP_BUNDLE:
		break;
	}
	return hand_out(c, at, q, e);
}
