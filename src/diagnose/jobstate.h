/* jobstate.h - tell whether a record or table of a scheduler says that a job ended well. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_JOBSTATE_H
#define DIAGNOSE_JOBSTATE_H

#include <stdbool.h>
#include <stddef.h>

enum { JOBSTATE_ROWS = 64 }; /* of a table; a longer one says nothing */

enum jobstate {
	JOBSTATE_NONE,   /* a word of another meaning, or a part of the job failed */
	JOBSTATE_SCRIPT, /* the batch script did, which may not notice that its programs failed
			  */
	JOBSTATE_JOB,    /* the job did */
};

/* jobstate_is_zero - does a script say by @line, and the line @before it, that its command
 * ended with status 0: "torchrun rc=0", "exit code: 0", "0" after "$ echo $?"? */
bool jobstate_is_zero(const char *line, const char *before);

/* jobstate_runs - is the line a scheduler's row of a job or pod that runs: state R of squeue,
 * RUN of LSF, Running of kubectl? */
bool jobstate_runs(const char *line, const char *end);

/*
 * jobstate_read - what the word around @at, such as COMPLETED, is about.
 *
 * "JobState=COMPLETED" is a record.  A word in a column that is called State or Status is a row
 * of a table; one that fails in the same table, even a step's, speaks against the job, unless a
 * later row of the same id ended well.  The title of a column stands for all its rows.  The log
 * may be read from @start to @end.  Adds the number of bytes read to *@looked.
 */
enum jobstate jobstate_read(const char *start, const char *at, const char *end, size_t *looked);

#endif
