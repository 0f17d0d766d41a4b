/* tracepoint.h - what the engine tells a timeline of its operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TRACEPOINT_H
#define ENGINE_TRACEPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/lane.h"
#include "trace/trace.h"

struct ringup_op;
struct request;
struct tensor;
struct turn;
struct want;

/* tracepoint_on - is there a timeline of this rank?  Only then call what follows. */
static inline bool tracepoint_on(const struct lane *l)
{
	return __builtin_expect(trace_on(&l->engine->trace) != 0, 0);
}

/* The five points of an operation's life, and where a batch begins. */

/*
 * tracepoint_submitted - what @r asks for of @t is about to be published.
 * tracepoint_short - the same of a round of lines, and of @t's last want if @r is NULL; sets
 * @turn->when.
 *
 * With l->lock, or while @t is this thread's.
 */
void tracepoint_submitted(struct lane *l, struct tensor *t, const struct request *r);
void tracepoint_short(struct lane *l, struct tensor *t, const struct request *r,
		      struct turn *turn);

/* tracepoint_ready - the first @count of l->items are agreed: a batch begins. */
void tracepoint_ready(struct lane *l, int count);

/* tracepoint_begin - l->plan begins, for l->ops; or, @inlined, their results have come.
 * tracepoint_end - it has ended, and there is more of these operations to come. */
void tracepoint_begin(struct lane *l, bool inlined);
void tracepoint_end(struct lane *l);

/* tracepoint_complete - @op has ended with @status.  tracepoint_finished - the same of a round
 * of lines that is no operation in flight. */
void tracepoint_complete(const struct ringup_op *op, int status);
void tracepoint_finished(struct lane *l, const struct tensor *t, const struct turn *turn,
			 int status, const uint64_t *counts);

/* tracepoint_arrived - a struct tree_events' arrived(). */
void tracepoint_arrived(void *lane, uint32_t id, const struct want *w, const int *ranks,
			int count);

#endif
