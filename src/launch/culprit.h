/* culprit.h - root cause: which of the ranks that exit one after another failed first. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_CULPRIT_H
#define LAUNCH_CULPRIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
	pid_t pid;        /* 0: not known                                   */
	struct cause_seen cause;
};

struct culprit {
	int rank; /* the first that failed; -1: none has                                      */
	int awaited; /* it failed because of this rank, which still runs; -1: of none         */
	enum alarm_stillness stillness; /* of the rank that is awaited                        */
	int left; /* it failed because of this rank, which had left with status 0; -1: none */
	bool proved; /* by another rank's note, so that no later end changes it               */
};

/* How long to wait for others. */
enum {
	CULPRIT_SECOND_LOOK_MS = 100, /* for the end of a killed rank to be seen           */
	CULPRIT_AWAIT_MS = 10000,     /* for the end of a rank that another one blames     */
	CULPRIT_SILENT_MS = 1000,     /* the same of a rank that does not move             */
};

/* culprit_find - the one of @count ranks that failed first. */
struct culprit culprit_find(const struct culprit_end *ends, int count);

/* culprit_has_died - has it ended during the job, without ringup_fini()? */
bool culprit_has_died(const struct culprit_end *end);

/* culprit_patience_ms - how long after the first failure *@c may still change. */
int64_t culprit_patience_ms(const struct culprit *c, const struct culprit_end *ends);

/* culprit_status - the launcher's exit status. */
int culprit_status(const struct culprit_end *end);

/* culprit_describe - "exited with status 3"; with the reason if status 0 is none. */
void culprit_describe(const struct culprit_end *end, char *out, size_t size);

#endif
