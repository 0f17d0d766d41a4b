/* bundle.c - grouped operations: several under one name, carried out together or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bundle.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/op.h"
#include "engine/plan.h"
#include "engine/proxy.h"
#include "ringup.h"
#include "wire/ranks.h"

/* Values of c->phase: the part that is done. */
enum { BEGUN, TOLD, COUNTED };

/* A signature in an exchange, in 64-bit numbers. */
enum { OP_SIGNATURE_NUMBERS = OP_SIGNATURE_WIRE / sizeof(uint64_t) };

/* Writes the signatures of the members that this rank knows, and a join for each other one. */
static void put_signatures(const struct ringup_op *op, uint64_t *to)
{
	struct op_signature unknown = { .kind = OP_JOIN };
	const struct ringup_op *m = op->members;

	for (uint32_t i = 0; i < op->ask.signature.members; i++, to += OP_SIGNATURE_NUMBERS) {
		op_signature_put((unsigned char *)to, m ? &m->ask.signature : &unknown);
		m = m ? m->next : NULL;
	}
}

static bool get_signature(const uint64_t *from, int size, struct op_signature *s)
{
	op_signature_get((const unsigned char *)from, s);
	return op_signature_valid(s, size);
}

/* ---- a bundle that all ranks agree about ---- */

/* Plans a broadcast of the members, by the first rank that knows them. */
static int bundle_tell(struct comm *c, const struct ringup_op *op, const uint64_t *rows,
		       struct err *e)
{
	static const struct op_signature numbers = { .pre = 1, .post = 1, .dtype = RINGUP_I64 };
	uint64_t count = (uint64_t)op->ask.signature.members * OP_SIGNATURE_NUMBERS, *all;

	all = plan_room(c, count, e);
	if (!all)
		return e->code;
	plan_begin(c, PLAN_BROADCAST, &numbers);
	while (!rows[c->run->plan.root] && c->run->plan.root < c->topo.size - 1)
		c->run->plan.root++;
	if (c->run->plan.root == c->topo.rank)
		put_signatures(op, all);
	plan_add(c, c->run->plan.root == c->topo.rank ? all : NULL, all, count);
	return 0;
}

/* This rank has joined, and now has the members' signatures: makes proxies of them. */
static int learn(struct comm *c, struct ringup_op *op, struct err *e)
{
	struct request q = { 0 };
	int rc = 0;

	for (uint32_t i = op->ask.signature.members; i > 0 && !rc; i--) {
		void *own = NULL;
		struct op_signature w;

		if (!get_signature(c->run->numbers + (size_t)(i - 1) * OP_SIGNATURE_NUMBERS,
				   c->topo.size, &w) ||
		    w.kind >= PLAN_KINDS)
			return fail(e, RINGUP_EPEER, "%.200s: not allowed in a group",
				    op->entry->name);
		rc = proxy_request(c, &w, &q, &own, e);
		if (rc)
			return rc;
		/* See cannot_go(). */
		q.signature.kind = w.kind;
		if (op->mixed)
			q.signature.memory = RINGUP_HOST;
		lock_take(&c->lock);
		rc = op_add_member(c, op, &q, own, e);
		lock_give(&c->lock);
		if (rc)
			free(own);
	}
	return rc;
}

/* Do all ranks know the members? */
static bool all_know(const struct comm *c, const uint64_t *rows)
{
	for (int r = 0; r < c->topo.size; r++)
		if (!rows[r])
			return false;
	return true;
}

static const char *bundle_name_of(const struct ringup_op *op)
{
	return *op->entry->name ? op->entry->name : "one without a name";
}

/* Is there a member that a joined rank has no neutral data for?  All ranks find the same, and
 * then no member is carried out. */
static bool cannot_go(const struct comm *c, struct ringup_op *op, const uint64_t *rows)
{
	const struct ringup_op *m;
	const struct op_signature *s;
	uint32_t i;
	int r = 0;

	for (i = 0, m = op->members; m && proxy_can(c, &m->ask.signature); m = m->next)
		i++;
	if (!m)
		return false;
	s = &m->ask.signature;
	while (rows[r])
		r++;
	if (c->join_sums && s->kind != PLAN_ALLREDUCE) {
		op->status = fail(&op->why, RINGUP_EMISMATCH,
				  "%.200s[%u]: rank %d has joined, so only sums may continue "
				  "(unless RINGUP_JOIN=all)",
				  bundle_name_of(op), i, ranks_in_world(c->ranks, r));
		return true;
	}
	op->status = fail(&op->why, RINGUP_EMISMATCH,
			  "%.200s[%u]: rank %d has joined, but no value that is scaled by %g "
			  "leaves a %s of %s unchanged",
			  bundle_name_of(op), i, ranks_in_world(c->ranks, r), s->pre,
			  reduce_redop_name((enum ringup_redop)s->redop),
			  reduce_dtype_name((enum ringup_dtype)s->dtype));
	return true;
}

static bool has_rows(const struct ringup_op *op)
{
	const struct ringup_op *m;

	for (m = op->members; m; m = m->next)
		if (op_signature_has_rows(&m->ask.signature))
			return true;
	return false;
}

/* Plans an exchange of each rank's rows in each member. */
static int count(struct comm *c, const struct ringup_op *op, struct err *e)
{
	uint64_t *mine = plan_tell(c, op->ask.signature.members, e);
	const struct ringup_op *m;

	if (!mine)
		return e->code;
	for (m = op->members; m; m = m->next)
		*mine++ = m->ask.rows;
	return 0;
}

/* The first member that has not been carried out. */
static struct ringup_op *first_left(const struct ringup_op *op, uint32_t *place)
{
	struct ringup_op *m;

	for (*place = 0, m = op->members; m && m->state != OP_FLYING; m = m->next)
		++*place;
	return m;
}

static int plan_member(struct comm *c, struct ringup_op *op, struct err *e)
{
	uint32_t place;
	struct ringup_op *m = first_left(op, &place);
	const uint64_t *rows = c->run->numbers ? c->run->numbers + place : NULL;
	int rc = plan_make(c, m, rows, op->ask.signature.members, e);

	if (!rc && !first_left(op, &place))
		plan_ends(c, op);
	return rc;
}

int bundle_plan(struct comm *c, struct ringup_op *op, const uint64_t *rows, struct err *e)
{
	int rc;

	if (!rows)
		return fail(e, RINGUP_EPEER, "%.200s: unknown group", op->entry->name);
	if (c->phase == BEGUN) {
		c->phase = TOLD;
		if (!all_know(c, rows))
			return bundle_tell(c, op, rows, e);
	}
	if (c->phase == TOLD) {
		c->phase = COUNTED;
		rc = op->proxy ? learn(c, op, e) : 0;
		if (rc)
			return rc;
		if (!all_know(c, rows) && cannot_go(c, op, rows)) {
			plan_barrier(c);
			plan_ends(c, op);
			return 0;
		}
		if (has_rows(op))
			return count(c, op, e);
	}
	return plan_member(c, op, e);
}

void bundle_conclude(struct ringup_op *op)
{
	struct ringup_op *all = op->bundle;
	struct err why;
	int rc = plan_conclude(op, &why);

	if (!rc || all->status)
		return;
	all->status = rc;
	all->why = why;
}

/* ---- a bundle that ranks disagree about ---- */

/* Have all ranks a bundle of @members members? */
static bool same_number(const struct comm *c, uint32_t members)
{
	for (int r = 0; r < c->topo.size; r++)
		if (c->run->numbers[r] != members)
			return false;
	return members > 0;
}

int bundle_dispute(struct comm *c, struct ringup_op *op, struct err *e)
{
	uint32_t members = op->ask.signature.members;
	uint64_t *mine;

	if (c->phase == BEGUN) {
		mine = plan_tell(c, 1, e);
		if (!mine)
			return e->code;
		*mine = members;
		c->phase = TOLD;
		return 0;
	}
	if (same_number(c, members)) {
		mine = plan_tell(c, (uint64_t)members * OP_SIGNATURE_NUMBERS, e);
		if (!mine)
			return e->code;
		put_signatures(op, mine);
	} else {
		plan_barrier(c);
	}
	plan_ends(c, op);
	return 0;
}

/* Collects the signatures of member number @i; a rank that has joined has none. */
static void collect(const struct comm *c, uint32_t members, uint32_t i,
		    struct op_signatures *all)
{
	struct op_signature w;

	*all = (struct op_signatures){ 0 };
	for (int r = 0; r < c->topo.size; r++)
		if (get_signature(c->run->numbers +
					  ((size_t)r * members + i) * OP_SIGNATURE_NUMBERS,
				  c->topo.size, &w) &&
		    w.kind != OP_JOIN)
			op_signatures_add(all, r, &w);
}

void bundle_verdict(const struct comm *c, const struct ringup_op *op, struct err *why)
{
	const char *name = bundle_name_of(op);
	uint32_t members = op->ask.signature.members;
	char called[NAME_BYTES + 16], text[sizeof(why->text)];
	struct op_signatures all;

	fail(why, RINGUP_EMISMATCH, "%s", c->run->bad);
	for (uint32_t i = 0; c->run->plan.kind == PLAN_ALLGATHER && i < members; i++) {
		collect(c, members, i, &all);
		if (all.count < 2)
			continue;
		snprintf(called, sizeof(called), "%s[%u]", name, i);
		op_signatures_text(&all, called, c->ranks, text, sizeof(text));
		fail(why, RINGUP_EMISMATCH, "%s", text);
		return;
	}
}
