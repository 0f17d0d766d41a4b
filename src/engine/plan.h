/* plan.h - what the back end has to do for an operation: plans, one after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

struct comm;
struct ringup_op;
struct op_signature;
struct err;

/*
 * Called by execute.c and bundle.c, with the baton.  They set l->run->plan, and say with
 * plan_ends() which operations are carried out when it has been.
 */

/* plan_make - the next plan of @op, and of others that run with it as one; it may take
 * several.  @rows[r * @stride] are the rows of rank r, where each has its own. */
int plan_make(struct comm *l, struct ringup_op *op, const uint64_t *rows, size_t stride,
	      struct err *e);

/* plan_conclude - the last one is done: what this rank has to do by itself.  Of a bundle:
 * did a member fail? */
int plan_conclude(struct ringup_op *op, struct err *e);

/* plan_begin - of @kind, with the dtype, operation, scale and root of @w; plan_add - one
 * tensor; plan_ends - @op is carried out when this plan is. */
void plan_begin(struct comm *l, enum plan_kind kind, const struct op_signature *w);
void plan_add(struct comm *l, const void *in, void *out, uint64_t count);
void plan_ends(struct comm *l, struct ringup_op *op);

/* plan_barrier - nothing is moved, but all stay in step. */
void plan_barrier(struct comm *l);

/* plan_tell - every rank tells all others @each numbers: a plan after which l->run->numbers has
 * them, in the order of ranks.  Returns where this rank's go before it starts, or NULL. */
uint64_t *plan_tell(struct comm *l, uint64_t each, struct err *e);

/* plan_room - l->run->numbers, with room for @count; NULL if there is no memory. */
uint64_t *plan_room(struct comm *l, size_t count, struct err *e);

#endif
