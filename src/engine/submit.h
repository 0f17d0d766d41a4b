/* submit.h - from what a caller asks for to an operation in flight. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_SUBMIT_H
#define ENGINE_SUBMIT_H

#include <stdbool.h>

#include "engine/ledger.h"

struct comm;
struct p2p_request;
struct request;
struct ringup_op;
struct ringup_reduce;
struct err;

/*
 * There are three ways into one operation, the shortest first; each leaves to the next what it
 * cannot do:
 *
 *	submit_repeat	a blocking sum that is as it was the last time: nothing is checked again
 *	submit_eager	a blocking small operation whose request all ranks know
 *	submit_queued	any: it enters the list of those in flight, and the agreement
 *
 * The first two complete it at once, without an entry in that list.  If another rank is late
 * the operation is deferred: from then on it is in flight like any other, and engine_deferred()
 * does the rest.
 */

/* submit_queued - with l->lock: start an operation.  @awaits and *@as: see agree_post(); what
 * is published later, or without an agreement, counts as early.  @proxy: of a rank that has
 * joined, and what to free with it; else NULL. */
int submit_queued(struct comm *l, const struct request *r, void *proxy, bool awaits,
		  struct ringup_op **opp, enum arrival *as, struct err *e);

/* submit_p2p - with l->lock: a send or receive that p2p_begin() is to start. */
int submit_p2p(struct comm *l, const struct p2p_request *q, struct ringup_op **opp,
	       struct err *e);

/* submit_notify - tell the ranks that have to know that an operation has been posted; @op, or
 * NULL, which nobody else has yet. */
void submit_notify(struct comm *l, struct ringup_op *op, enum arrival as);

/*
 * submit_join - with l->lock: publish this rank's join, if it is its turn.
 *
 * It comes after all that the rank has submitted before, and that is so when that is
 * complete: until then ranks that have joined answer it, and afterwards no rank has to.
 * Returns whether it was published.  submit_join_ready - is it worth trying?
 *
 * submit_any_eager - does another thread wait by submit_eager(), for a moment more?
 */
bool submit_join(struct comm *l, enum arrival *as);
bool submit_join_ready(const struct comm *l);
bool submit_any_eager(const struct comm *l);

/* submit_eager - carry out @r if it is small and as it was the last time.  Returns 1 if it is
 * done; 0 if it has been deferred, to *@opp, or, with NULL there, if nothing has happened; or
 * RINGUP_ENOMEM. */
int submit_eager(struct comm *l, const struct request *r, struct ringup_op **opp,
		 struct err *e);

/* submit_repeat - the same for a sum, which most are: what @a asks for need not be checked and
 * put in order once more.  After 0 without *@opp it is for engine_submit(). */
int submit_repeat(struct comm *l, const struct ringup_reduce *a, struct ringup_op **opp);

#endif
