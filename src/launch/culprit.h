/* culprit.h - which rank has failed first, of ranks that end one after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_CULPRIT_H
#define LAUNCH_CULPRIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cause.h"

/*
 * Survivors of a rank often end before it does: their operations fail while its destructors, or
 * the end of its interpreter, still run. So the order of the ends says little, and the first
 * failure is found by what each rank has noted (wire/cause.h), from a failed rank to the one
 * because of which it failed, and so on.
 */

/* How a rank has ended. */
struct culprit_end {
	bool ended;
	int code, status; /* as in siginfo                                 */
	unsigned order;   /* in which the launcher has seen the ends, from 1 */
	struct cause_seen cause;
};

struct culprit {
	int rank; /* the first that failed; -1: none has                                      */
	int awaited; /* it has failed because of this one, which still runs; -1: of none      */
	int left; /* because of this one, which had left the job with status 0; -1: of none */
	bool proved; /* by what another rank has noted, so that no later end changes it       */
};

/* How long to wait for others. */
enum {
	CULPRIT_SECOND_LOOK_MS = 100, /* for a rank that was killed to be dead, too         */
	CULPRIT_AWAIT_MS = 10000,     /* for a rank to end because of which another failed */
};

/* culprit_find - which of the @count ranks has failed first? */
struct culprit culprit_find(const struct culprit_end *ends, int count);

/* culprit_patience_ms - so long after the first failure *@c may still change. */
int64_t culprit_patience_ms(const struct culprit *c, const struct culprit_end *ends);

/* culprit_status - what the launcher ends with. */
int culprit_status(const struct culprit_end *end);

/* culprit_describe - "exited with status 3"; with the reason if status 0 is none. */
void culprit_describe(const struct culprit_end *end, char *out, size_t size);

#endif
