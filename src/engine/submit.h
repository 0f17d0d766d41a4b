/* submit.h - turns a caller's request into an operation in flight. */
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
 * There are three ways into one operation, the shortest first; a request that one way cannot
 * serve goes to the next:
 *
 *	submit_repeat	a blocking sum with the signature of the last time, not checked again
 *	submit_eager	a blocking small operation whose signature all ranks know
 *	submit_queued	any operation: enters the list of those in flight and the agreement
 *
 * The first two complete the operation at once, without an entry in that list.  If another rank
 * is late, the operation is deferred: it is then in flight like any other, and
 * engine_deferred() completes it.
 */

/* submit_queued - start an operation; c->lock is held.  @awaits and *@as: see agree_post(); an
 * operation that is published later, or without an agreement, counts as early.  @proxy: memory
 * of a joined rank's stand-in, freed with the operation; else NULL. */
int submit_queued(struct comm *c, const struct request *r, void *proxy, bool awaits,
		  struct ringup_op **opp, enum arrival *as, struct err *e);

/* submit_p2p - make the operation of a send or receive for p2p_begin(); c->lock is held. */
int submit_p2p(struct comm *c, const struct p2p_request *q, struct ringup_op **opp,
	       struct err *e);

/* submit_notify - notify the ranks concerned that an operation has been posted.  @op, or NULL:
 * the operation, which no other thread uses yet. */
void submit_notify(struct comm *c, struct ringup_op *op, enum arrival as);

/*
 * submit_join - publish this rank's join once that is allowed; c->lock is held.
 *
 * A join waits until all earlier operations of the rank are complete: until then joined ranks
 * answer them, and afterwards no rank has to.
 * Returns whether it was published.  submit_join_ready - may the join be published?
 *
 * submit_any_eager - is another thread in submit_eager() or submit_repeat(), for a moment?
 */
bool submit_join(struct comm *c, enum arrival *as);
bool submit_join_ready(const struct comm *c);
bool submit_any_eager(const struct comm *c);

/* submit_eager - carry out @r if it is small and has the signature of the last time.  Returns 1
 * if it is done; 0 if it is deferred as *@opp, or, with *@opp NULL, if nothing has happened; or
 * RINGUP_ENOMEM. */
int submit_eager(struct comm *c, const struct request *r, struct ringup_op **opp,
		 struct err *e);

/* submit_repeat - as submit_eager() for a repeated sum, which skips all checks and conversion.
 * After 0 with *@opp NULL the caller uses engine_submit(). */
int submit_repeat(struct comm *c, const struct ringup_reduce *a, struct ringup_op **opp);

#endif
