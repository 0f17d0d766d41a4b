/* bundle.h - several operations under one name: all of them are carried out, or none. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_BUNDLE_H
#define ENGINE_BUNDLE_H

#include <stdint.h>

struct comm;
struct ringup_op;
struct err;

/*
 * To the agreement a bundle is one operation, whose signature has a hash of its members'
 * signatures.  A small one is eager like any other (eager.c).  Of others, when all ranks have
 * submitted one, the plans follow each other, and no other operation comes between:
 *
 *	- if a rank has joined, one that has not tells it what the members are;
 *	- if there is an allgather among them, all tell how many rows they have;
 *	- the members in their order, but reductions that can run as one, as one.
 *
 * Results are handed out when the last has been carried out.  If the hashes differ, the
 * ranks tell each other the signatures of all members, and each finds the same one that is
 * to blame.
 */

/* bundle_plan - the next plan of @op; @rows are not 0 for those who know its members. */
int bundle_plan(struct comm *l, struct ringup_op *op, const uint64_t *rows, struct err *e);

/* bundle_conclude - the member @op has been carried out, but others have not. */
void bundle_conclude(struct ringup_op *op);

/* bundle_dispute - the next plan for an operation, of any kind, about which ranks disagree:
 * all take part in it, so none of them need know what the others wanted.  bundle_verdict -
 * after the last: why it fails. */
int bundle_dispute(struct comm *l, struct ringup_op *op, struct err *e);
void bundle_verdict(const struct comm *l, const struct ringup_op *op, struct err *why);

#endif
