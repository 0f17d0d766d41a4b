/* join.h - a rank that has joined takes part with neutral data until all have joined. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_JOIN_H
#define ENGINE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

struct comm;
struct request;
struct ringup_op;
struct op_signature;
struct err;

/* join_ready - is this rank's own join to be published?  Any thread. */
bool join_ready(struct comm *c);

/* join_answer - answer calls, and publish this rank's join; returns as execute_step() does. */
int join_answer(struct comm *c, struct err *e);

/* join_done - all ranks have joined: @rows of each, see struct request, tell the last one to
 * join. */
void join_done(struct comm *c, struct ringup_op *op, const uint64_t *rows);

#endif
