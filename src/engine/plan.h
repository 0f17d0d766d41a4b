/* plan.h - plans that a back end executes for an operation, one after the other. */
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
 * Called by execute.c and bundle.c, with the baton.  They set c->run->plan, and plan_ends()
 * names the operations that this plan completes.
 */

/* plan_make - the next plan of @op, and of others that are fused with it; an operation may take
 * several.  @rows[r * @stride] is the number of rows of rank r, if ranks differ in it. */
int plan_make(struct comm *c, struct ringup_op *op, const uint64_t *rows, size_t stride,
	      struct err *e);

/* plan_conclude - the last plan is done: complete this rank's local part, and report a failure
 * that was noted before. */
int plan_conclude(struct ringup_op *op, struct err *e);

/* plan_begin - a plan of @kind, with the dtype, operation, scale and root of @s; plan_add - add
 * one tensor; plan_ends - @op is complete when this plan is. */
void plan_begin(struct comm *c, enum plan_kind kind, const struct op_signature *s);
void plan_add(struct comm *c, const void *in, void *out, uint64_t count);
void plan_ends(struct comm *c, struct ringup_op *op);

/* plan_barrier - a plan that moves no data, but keeps all ranks in step. */
void plan_barrier(struct comm *c);

/* plan_tell - every rank sends all others @each numbers: after this plan c->run->numbers has
 * them, in the order of ranks.  Returns where the caller writes this rank's own, or NULL. */
uint64_t *plan_tell(struct comm *c, uint64_t each, struct err *e);

/* plan_room - c->run->numbers, with room for @count; NULL if there is no memory. */
uint64_t *plan_room(struct comm *c, size_t count, struct err *e);

#endif
