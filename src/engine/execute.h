/* execute.h - carries out the operations of a communicator: batches, plans, completion. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_EXECUTE_H
#define ENGINE_EXECUTE_H

#include <stdbool.h>

#include "engine/comm.h"

struct err;

/* execute_open - prepare @c for plans; its first fields are set and its back ends open. */
int execute_open(struct comm *c, struct err *e);

/* execute_close - free all that is its own, operations included; safe on a zeroed one. */
void execute_close(struct comm *c);

/* execute_ready - is there work for the holder of the baton?  Any thread. */
bool execute_ready(struct comm *c);

/* execute_can_begin - with the baton: can another plan begin beside those in flight? */
bool execute_can_begin(struct comm *c);

/* execute_step - with the baton, do one step: 0 if there is nothing to do now, 1 if something
 * was done; negative, with the reason, if the job has to end. */
int execute_step(struct comm *c, struct err *e);

/* execute_fail - fail all operations in flight, messages included, for good.  If a rank has
 * left, only collectives fail, and messages between other ranks go on: see p2p.h. */
void execute_fail(struct comm *c, const struct err *why);

/* execute_flying - collectives that are not complete; execute_messages - likewise. */
int execute_flying(struct comm *c);
int execute_messages(struct comm *c);

/* execute_leave - this rank has left: fail its messages that are not complete. */
void execute_leave(struct comm *c);

#endif
