/* op.h - an operation of a rank: its pool, members, completion and callback. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OP_H
#define ENGINE_OP_H

#include <stdbool.h>

#include "engine/coordinator.h"
#include "engine/op_state.h"

struct callback;

/* An operation that has missed a deadline, and the ranks of this host that had not begun it
 * then. The sentence about it is made later: see engine_describe(). */
struct op_late {
	struct ringup_op *op;                            /* or NULL */
	uint32_t use;                                    /* of op, then */
	uint64_t serial;                                 /* of its communicator, then */
	uint64_t life;                                   /* of its engine: its callers.serial */
	uint64_t missing[(COORDINATOR_RANKS + 63) / 64]; /* a bit for each rank of the group */
};

/* op_note_late - @op of @c is late, if it is not complete by now.  op_was_missing - had @rank
 * of this host not begun it? */
void op_note_late(const struct comm *c, struct ringup_op *op, struct op_late *late);
static inline bool op_was_missing(const struct op_late *late, int rank)
{
	return late->missing[rank / 64] >> rank % 64 & 1;
}

/* op_has_begun - has @rank of the group, on this host, begun @op?  Also once that has ended. */
bool op_has_begun(const struct comm *c, const struct ringup_op *op, int rank);

/* op_open_device - opens the device of @r, if that is not open: it takes long, and may wait for
 * work of the device.  Without the lock of @c. */
void op_open_device(struct comm *c, const struct request *r);

/* op_mark - for data of a device: checks that they exist, and records the
 * work queued on their stream before the operation.  When it is complete, or given back, the
 * mark goes. */
int op_mark(struct ringup_op *op, struct err *e);

/* op_hold - the stream of an operation of @c that is complete, and those of its members, wait
 * for its result on the device; fails, as op_fail_in(), if that was given up.  @c stays open.
 */
int op_hold(const struct comm *c, const struct ringup_op *op, struct err *e);

/* op_claim - claim the right to finish @op: true for the first thread only. */
bool op_claim(struct ringup_op *op);

/* op_complete - with the claim: hand @op to its waiting thread.  Afterwards @op may be gone. */
void op_complete(struct ringup_op *op, int status);

/* op_then - run @back, which the library then owns, when @op of @c is complete; at once if it
 * is.  Any thread, before @op has been waited for; @c stays open meanwhile.  False, without
 * effect, if it has a callback. */
bool op_then(const struct comm *c, struct ringup_op *op, struct callback *back);

/* op_room - memory for a result of @bytes, with this rank's own block @before bytes behind its
 * start: the request's into, or (if @may_own) new memory if into is too small or overlaps this
 * rank's data elsewhere.  NULL: there is none. */
void *op_room(const struct request *r, bool may_own, uint64_t bytes, uint64_t before);

/* op_discard - free a gathered result; op_deliver - hand it to the caller.  Both include a
 * bundle's members. */
void op_discard(struct ringup_op *op);
void op_deliver(struct ringup_op *op);

/* op_empty - free the memory of @op and its members. */
void op_empty(struct ringup_op *op);

/* op_fail - with the claim: complete @op with a failure.  op_fail_in - likewise, with the
 * operation in front of the reason: see op_text_fail(). */
void op_fail(struct ringup_op *op, const struct err *why);
void op_fail_in(struct ringup_op *op, const struct err *why);

/*
 * The pool of a communicator; with its lock, except op_release() and op_hand_over(), which take
 * it.
 *
 * op_new - an operation that is in no list; NULL: no memory, and op_no_memory() says so.
 * op_free - return @op and its members to the pool.
 */
struct ringup_op *op_new(struct comm *c);
int op_no_memory(struct err *e);
void op_free(struct comm *c, struct ringup_op *op);

/* op_enter - put @op, with its entry, id and round set, among those in flight, for @r.  @proxy:
 * see submit_queued().  op_take_back - undo op_enter() for the last operation that entered. */
void op_enter(struct comm *c, struct ringup_op *op, const struct request *r, void *proxy);
void op_take_back(struct comm *c, struct ringup_op *op);

/* op_add_member - add a member to the bundle @op, ahead of those that it has; it completes with
 * the bundle. */
int op_add_member(struct comm *c, struct ringup_op *op, const struct request *r, void *proxy,
		  struct err *e);

/* op_release - give an operation that is done back to the pool. */
void op_release(struct ringup_op *op);

/* op_hand_over - move the operations of @from, all complete but not waited for yet, to @to.
 * Before that, waits for what they have queued on a device. */
void op_hand_over(struct comm *from, struct comm *to);

/* op_free_all - free all operations of @c, also those in flight. */
void op_free_all(struct comm *c);

#endif
