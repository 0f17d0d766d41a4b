/* op.h - one operation of a rank, from its start to its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OP_H
#define ENGINE_OP_H

#include <stdbool.h>

#include "engine/op_state.h"

struct callback;

/* op_claim - only one thread may finish an operation: true for the first that asks. */
bool op_claim(struct ringup_op *op);

/* op_complete - with the claim: let the waiter have it.  After this @op may be gone. */
void op_complete(struct ringup_op *op, int status);

/* op_then - run @c, which becomes the library's, when @op is complete; at once if it is.  Any
 * thread, before it has been waited for.  False, and nothing happens: it has a callback. */
bool op_then(struct ringup_op *op, struct callback *c);

/* op_room - memory for a result of @bytes, of which @before come before this rank's own block:
 * @r's own, or (if @may_own) new where that is too small or what this rank brings would be in
 * the way.  NULL: there is none. */
void *op_room(const struct request *r, bool may_own, uint64_t bytes, uint64_t before);

/* op_discard - give up what was being gathered; op_deliver - it is the caller's.  Both also
 * of a bundle's members. */
void op_discard(struct ringup_op *op);
void op_deliver(struct ringup_op *op);

/* op_empty - free what it and its members hold. */
void op_empty(struct ringup_op *op);

/* op_fail - with the claim: the same, with the reason. */
void op_fail(struct ringup_op *op, const struct err *why);

/*
 * The pool of a communicator; all with its lock, but op_release() and op_hand_over(), which
 * take it.
 *
 * op_new - an operation that is in no list; NULL: no memory, and op_no_memory() says so.
 * op_free - give it and its members back.
 */
struct ringup_op *op_new(struct comm *l);
int op_no_memory(struct err *e);
void op_free(struct comm *l, struct ringup_op *op);

/* op_enter - put @op, whose tensor, id and round are set, among those in flight, for @r. @proxy
 * as for submit_queued().  op_take_back - it did not begin after all: it is the last that
 * entered.
 */
void op_enter(struct comm *l, struct ringup_op *op, const struct request *r, void *proxy);
void op_take_back(struct comm *l, struct ringup_op *op);

/* op_add_member - an operation that completes with the bundle @op, before those that it has
 * already. */
int op_add_member(struct comm *l, struct ringup_op *op, const struct request *r, void *proxy,
		  struct err *e);

/* op_release - give an operation that is done back to the pool. */
void op_release(struct ringup_op *op);

/* op_hand_over - the operations of @from, which are complete but nobody has waited for them
 * yet, are @to's from now on. */
void op_hand_over(struct comm *from, struct comm *to);

/* op_free_all - free all operations of @l, also those in flight. */
void op_free_all(struct comm *l);

#endif
