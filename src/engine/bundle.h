/* bundle.h - grouped operations: several under one name, carried out together or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_BUNDLE_H
#define ENGINE_BUNDLE_H

#include <stdint.h>

struct comm;
struct ringup_op;
struct err;

/*
 * To the agreement a bundle is one operation, whose signature has a hash of its members'
 * signatures.  A small bundle is eager like any other operation (eager.c).  For another, when
 * all ranks have submitted it, plans follow each other, without another operation between:
 *
 *	- if a rank has joined, a rank that has not tells it the members;
 *	- if a member is an allgather, all ranks exchange their numbers of rows;
 *	- the members in their order, but reductions that can be fused, as one.
 *
 * Results are handed out when the last member has been carried out.  If the hashes differ, the
 * ranks exchange the signatures of all members, and each finds the same member to blame.
 */

/* bundle_plan - the next plan of @op; @rows is not 0 for a rank that knows the members. */
int bundle_plan(struct comm *c, struct ringup_op *op, const uint64_t *rows, struct err *e);

/* bundle_conclude - the member @op has been carried out; other members may follow. */
void bundle_conclude(struct ringup_op *op);

/* bundle_dispute - the next plan for an operation, of any kind, about which ranks disagree: all
 * ranks take part in it, whatever the others wanted.  bundle_verdict - after the last plan: the
 * reason why it fails. */
int bundle_dispute(struct comm *c, struct ringup_op *op, struct err *e);
void bundle_verdict(const struct comm *c, const struct ringup_op *op, struct err *why);

#endif
