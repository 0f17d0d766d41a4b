/* submit.h - from what a caller asks for to an operation in flight. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_SUBMIT_H
#define ENGINE_SUBMIT_H

#include <stdbool.h>

struct lane;
struct request;
struct ringup_op;
struct err;

/* submit_op - with l->lock: start an operation.  Sets *@news if others should look
 * now.  @ghost: of a rank that has joined, and what to free with it; else NULL. */
int submit_op(struct lane *l, const struct request *r, void *ghost, struct ringup_op **opp,
	      bool *news, struct err *e);

/* submit_short - a blocking eager operation, without an entry among those in flight,
 * if all is as it was the last time.  Returns 1 if it is done; 0 if *@opp is to be
 * waited for, or NULL if nothing has happened; or RINGUP_ENOMEM. */
int submit_short(struct lane *l, const struct request *r, struct ringup_op **opp,
		 struct err *e);

/* submit_release - give an operation that is done back to the pool. */
void submit_release(struct ringup_op *op);

#endif
