/* stage.h - an operation with data on a device that is carried out in the host's memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_STAGE_H
#define ENGINE_STAGE_H

#include <stdbool.h>

struct comm;
struct err;
struct ringup_op;
struct run;

/*
 * All ranks learn by the agreement that they differ in the kind of memory and in nothing else,
 * or all ask for what no device does: see op_signature_is_for_host().
 * Then the operation is carried out in the host's memory, the kind that every rank has.  A rank
 * whose data are on a device copies them before its first plan, when what its stream had to do
 * before is done, and copies the result back after its last one.  Meanwhile it makes no other
 * plan.  The engine's thread waits for neither: it looks again, as for a plan.
 */

/* stage_can - is there a back end in @c that copies from and to a device?  Alike on all ranks.
 */
bool stage_can(const struct comm *c);

/* stage_wants - is @op, or a member of this bundle, for the host alone?  Alike on all ranks,
 * but for a rank that has joined, which learns of a bundle's members later. */
bool stage_wants(struct ringup_op *op);

/* stage_begin - @op goes on in the host's memory; again and again before each plan of it: 1 if
 * c->run now fetches its data, 0 if they are here, negative without memory. */
int stage_begin(struct comm *c, struct ringup_op *op, struct err *e);

/* stage_end - @run, which is done, completes an operation whose result has to go to a device;
 * then @run does that. */
bool stage_end(struct comm *c, struct run *run);

/* stage_step - as a back end's step(), for @run, which fetches or brings back. */
int stage_step(struct comm *c, struct run *run, struct err *e);

/* stage_abort - nothing is copied any more. */
void stage_abort(struct run *run);

#endif
