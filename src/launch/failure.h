/* failure.h - the first failure of a job: which rank, if that is certain, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_FAILURE_H
#define LAUNCH_FAILURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/culprit.h"

struct err;
struct output;

/* A launcher's view of its ranks, on any host. */
struct failure_owner {
	/* "rank 3 (pid 4711) on node-b" */
	void (*describe)(void *ctx, int rank, char *out, size_t size);
	/* Send SIGKILL to the rank and all processes of its group; @if_stopped: only if it is
	 * stopped (ending_kill_stopped()). */
	void (*kill)(void *ctx, int rank, bool if_stopped);
	void *ctx;
};

/*
 * The ranks' ends and notes (wire/cause.h).  A rank that others have found frozen is named with
 * their sentence and killed as soon as the first of them says so: it would hold up the end of
 * the job, and an elastic job.
 */
struct failure {
	struct failure_owner owner;
	struct output *output; /* set before the first note                          */
	struct failure_rank {
		bool asked, named; /* it was to be killed if stopped; it was named       */
		char *remark;      /* about how it ended; NULL: none                     */
	} * ranks;
	struct culprit_end *ends;
	int count;
	unsigned ended;
	int64_t failed_ns; /* when the first failure was seen; 0: none was               */
	int64_t name_ns;   /* when the culprit is named at the latest                    */
};

/* failure_grow - for @count ranks; failure_close - safe on a zeroed struct. */
int failure_grow(struct failure *f, int count, struct err *e);
void failure_close(struct failure *f);

/* failure_note - a rank has written a note. */
void failure_note(struct failure *f, const struct cause_note *note, const char *why);

/* failure_ended - a rank has ended, after all of its notes; @remark: what is known besides. */
void failure_ended(struct failure *f, int rank, pid_t pid, int code, int status,
		   const char *remark);

/* failure_reason - why the launcher has killed frozen rank @rank, as a clause to @out: ", since
 * it has not moved for 10.0 s: ..."; "" if it is not frozen. */
void failure_reason(const struct failure *f, int rank, char *out, size_t size);

/*
 * failure_look - has the job failed?  Then names the culprit, once it is certain, and returns
 * the launcher's exit status; else 0.  @running: ranks that have not ended.
 */
int failure_look(struct failure *f, int running);

/* failure_until - when failure_look() may have an answer even if nothing happens. */
int64_t failure_until(const struct failure *f);

/* failure_awaits - for how many milliseconds the end of a rank that @rank blames, and that
 * still runs, may come before that of @rank is judged; 0: none does. */
int64_t failure_awaits(const struct failure *f, int rank);

/* failure_say - of a job that goes on without it: how @rank has failed, if that was not said.
 */
void failure_say(struct failure *f, int rank);

#endif
