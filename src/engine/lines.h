/* lines.h - what ranks write into their lines, and what comes out of all of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_LINES_H
#define ENGINE_LINES_H

#include <stdint.h>

#include "engine/comm.h"
#include "engine/ledger.h"

struct request;
struct op_signature;
struct err;

/* Ranks whose lines are added up at a time. */
enum { LINES_RANKS = 4096 };

/* lines_share - bytes that this rank puts into its line for @r. */
uint64_t lines_share(const struct comm *l, const struct request *r);

/* lines_splits_bytes - of which so many say how many rows go where, in an all-to-all. */
static inline uint64_t lines_splits_bytes(const struct comm *l)
{
	return (uint64_t)l->topo.size * sizeof(uint64_t);
}

/* lines_write - fill this rank's line and publish it. */
void lines_write(struct comm *l, const struct turn *t, const struct request *r);

/* lines_put - the same of a sum, as @w says. */
void lines_put(const struct comm *l, const struct turn *t, const struct op_signature *w,
	       const void *in);

/* lines_fetch - have this rank's line of the next round, probably as @w says, here by the time
 * it is written. */
void lines_fetch(const struct comm *l, const struct turn *t, const struct op_signature *w);

/* lines_finish - compute the result from all lines.  Returns 0 or RINGUP_ENOMEM; then nothing
 * has been handed out. */
int lines_finish(struct comm *l, const struct lines *at, const struct request *r,
		 struct err *e);

/* lines_sum - the same of a sum, as @w says. */
void lines_sum(const struct comm *l, const struct lines *at, const struct op_signature *w,
	       const void *in, void *out);

#endif
