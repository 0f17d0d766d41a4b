/* join.h - a rank that has no more data takes part with nothing until all have joined. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_JOIN_H
#define ENGINE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

struct lane;
struct request;
struct ringup_op;
struct want;
struct err;

/* join_ready - is this rank's own join to be published?  Any thread. */
bool join_ready(struct lane *l);

/* join_answer - do so, and publish our own join in its turn; returns as execute_step() does. */
int join_answer(struct lane *l, struct err *e);

/* join_done - all ranks have joined: @rows of each, see struct request, tell who was
 * the last. */
void join_done(struct lane *l, struct ringup_op *op, const uint64_t *rows);

#endif
