/* execute.h - carry out what a group of ranks has agreed: batches, plans, completion. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_EXECUTE_H
#define ENGINE_EXECUTE_H

#include <stdbool.h>

#include "engine/comm.h"

struct err;

/* execute_open - with the fields of @l that are set before it, its back ends open. */
int execute_open(struct comm *l, struct err *e);

/* execute_close - free everything of its own, also operations; safe on a zeroed communicator.
 */
void execute_close(struct comm *l);

/* execute_ready - is there work for the holder of the baton?  Any thread. */
bool execute_ready(struct comm *l);

/* execute_can_begin - with the baton: is there more than to go on with what is in flight? */
bool execute_can_begin(struct comm *l);

/* execute_step - with the baton, do one thing: 0 if there is nothing to do now, 1 if
 * something was done; negative, with the reason, if the job has to end. */
int execute_step(struct comm *l, struct err *e);

/* execute_fail - everything in flight fails, and nothing will be carried out any more. Messages
 * between two ranks go on when a third one has left, which ends collectives: see p2p.h. */
void execute_fail(struct comm *l, const struct err *why);

/* execute_flying - operations that are not complete. */
int execute_flying(struct comm *l);

#endif
