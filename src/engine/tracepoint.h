/* tracepoint.h - the trace points of an operation, for timelines and flight recorders. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TRACEPOINT_H
#define ENGINE_TRACEPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/comm.h"
#include "engine/engine_state.h"
#include "trace/trace.h"

struct ringup_op;
struct request;
struct name_entry;
struct eager_round;
struct op_signature;

/* tracepoint_on - does this rank record anything?  Only then call the others. */
static inline bool tracepoint_on(const struct comm *c)
{
	return __builtin_expect(trace_on(&c->engine->trace) != 0, 0);
}

/*
 * tracepoint_submitted - the request @r for the tensor @t is about to be published.
 * tracepoint_short - the same for a round of slots; with @r NULL, for a request like @t's last
 * one.  Sets @round->when.
 *
 * The caller holds c->lock, or no other thread uses @t.
 */
void tracepoint_submitted(struct comm *c, struct name_entry *t, const struct request *r);
void tracepoint_short(struct comm *c, struct name_entry *t, const struct request *r,
		      struct eager_round *round);

/* tracepoint_ready - all ranks are ready for the first @count of c->items: a batch begins. */
void tracepoint_ready(struct comm *c, int count);

/* tracepoint_begin - the plan of @run begins, for its operations; or, without a back end, their
 * results have come.
 * tracepoint_end - it has ended, and the same operations need another plan. */
void tracepoint_begin(struct comm *c, struct run *run);
void tracepoint_end(struct comm *c, const struct run *run);

/* tracepoint_complete - @op has ended with @status.  tracepoint_finished - the same for a round
 * of slots, which has no struct ringup_op. */
void tracepoint_complete(const struct ringup_op *op, int status);
void tracepoint_finished(struct comm *c, const struct name_entry *t,
			 const struct eager_round *round, int status, const uint64_t *counts);

/* tracepoint_message - the send or receive @op is in flight; with the lock of its communicator.
 * tracepoint_matched - its data begin to move, by @way; with NULL there, count or type of the
 * other side differ.  @rank: the other side, which is there; -1: it may not be. */
void tracepoint_message(struct ringup_op *op);
void tracepoint_matched(const struct ringup_op *op, int rank, const char *way);

/* tracepoint_arrived - @ranks are ready for @id: arrived() of struct tree_events. */
void tracepoint_arrived(void *comm, uint32_t id, const struct op_signature *s, const int *ranks,
			int count);

#endif
