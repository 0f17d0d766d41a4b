/* engine.h - Horovod's semantics: submit by name, complete once all ranks have submitted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine_state.h"

struct op_late;
struct p2p_request;
struct request;

/* engine_start - start the progress thread; the fields of engine_state.h are set. */
int engine_start(struct engine *g, struct err *e);

/* engine_flying - collectives that are not complete, in all communicators. */
int engine_flying(struct engine *g);

/* engine_stop - end the progress thread; other threads may still notify or raise the alarm.
 * Safe on a zeroed engine. */
void engine_stop(struct engine *g);

/* engine_submit - start an operation.  With @deadline_ns != 0, wait as engine_wait() does, and
 * set *@opp only if it is still under way. */
int engine_submit(struct comm *c, const struct request *r, int64_t deadline_ns,
		  struct ringup_op **opp, struct err *e);

/* engine_p2p - the same for a send or a receive. */
int engine_p2p(struct comm *c, const struct p2p_request *q, int64_t deadline_ns,
	       struct ringup_op **opp, struct err *e);

/* engine_deferred - the rest of engine_submit(), for an operation that submit_repeat() or
 * submit_eager() has deferred. */
int engine_deferred(struct ringup_op *op, int64_t deadline_ns, struct ringup_op **opp,
		    struct err *e);

/* engine_poll - 1 if @op is done; does a little work if no other thread has the baton. */
int engine_poll(struct ringup_op *op);

/* engine_result_stream - see ringup_result_stream(). */
void engine_result_stream(struct ringup_op *op, void *stream);

/* engine_wait - see ringup_wait(); @slice: ringup_wait_on(). */
int engine_wait(struct ringup_op *op, int64_t deadline_ns, bool slice, struct err *e);

/* engine_then - call @fn when @op is complete, in a thread of its own; see ringup_then(). */
int engine_then(struct ringup_op *op, void (*fn)(void *ctx, int status), void *ctx,
		struct err *e);

/* engine_settle - this rank has left: its messages in flight fail now and, if the job has been
 * ended, so do all operations; all callbacks run to their end. */
void engine_settle(struct engine *g);

/* engine_note_late - @op has missed a deadline: note the ranks of this host that have not begun
 * it, which engine_describe() names whatever happens before it is called. */
void engine_note_late(struct ringup_op *op, struct op_late *late);

/* engine_describe - write to @out a sentence about what the operation @late waited for; nothing
 * if another thread has given it back since, or @g no longer runs.  It may ask other hosts: see
 * p2p_ask().  Any thread of the process that has started @g. */
void engine_describe(struct engine *g, const struct op_late *late, char *out, size_t len);

#endif
