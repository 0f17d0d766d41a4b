/* jobend.h - tell from the processes of a job whether it ended well, failed or fell silent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_JOBEND_H
#define DIAGNOSE_JOBEND_H

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/evidence.h"

enum jobend {
	JOBEND_UNKNOWN, /* the logs do not tell */
	JOBEND_WELL,    /* a launcher says so, or steps go on after the last complaint */
	JOBEND_FAILED,
	JOBEND_SILENT, /* no complaint, but processes stand still */
};

/* jobend_name - "well", "failed", ... */
const char *jobend_name(enum jobend o);

/*
 * jobend_went_on - did the job go on after all that @f tells?
 *
 * Steps have to follow in the process that complained; if it writes none, several different
 * ones in its log.  After the end of a process more are asked for, since the others' last
 * lines come late.
 */
bool jobend_went_on(const struct evidence *v, const struct finding *f,
		    enum signature_kind kind);

/* jobend_is_routine - did the process that complained go back to lines that differ in numbers
 * only?  That counts only in a job without an end that failed. */
bool jobend_is_routine(const struct evidence *v, const struct finding *f,
		       enum signature_kind kind);

/* jobend_ends_calmly - did the log go on after all that @f, a warning, tells, and end with a
 * line that is about no failure and no wait? */
bool jobend_ends_calmly(const struct evidence *v, const struct finding *f);

/* jobend_is_good - do the logs say anything that only a job that runs or ended well says?
 * @at_end: only what a job says that ended well. */
bool jobend_is_good(const struct evidence *v, bool at_end);

/* jobend_odd - the one rank that did not end well, of three or more that did but for it, and
 * wrote something else last; or NULL.  @out, of @size bytes: a sentence on it. */
const struct proc *jobend_odd(const struct evidence *v, char *out, size_t size);

/* jobend_last_words - the last line of the logs that is no step and no end, else the very last
 * one; NULL if they are empty.  *@process wrote it. */
const struct proc_line *jobend_last_words(const struct evidence *v,
					  const struct proc **process);

/*
 * jobend_hang - is a process behind the others, or does the whole job stand still?
 *
 * @out, of @size bytes: a sentence on it.  Returns the process that is behind, or the one
 * with the last step if none is; NULL if nothing stands still.
 */
const struct proc *jobend_hang(const struct evidence *v, char *out, size_t size);

/*
 * jobend_short - do all logs end with a step, well before the last one that they announce, and
 * tell of no end?
 *
 * @out, of @size bytes: a sentence on it.  Returns the process with the last step of the last
 * log, or NULL.
 */
const struct proc *jobend_short(const struct evidence *v, char *out, size_t size);

/* jobend_waits - does the last log end with a line by which a process says that it waits, after
 * many steps?  @out and the result as above. */
const struct proc *jobend_waits(const struct evidence *v, char *out, size_t size);

/* jobend_begun - does the last log end with a line that begins something, and that another line
 * followed each time before?  @out and the result as above. */
const struct proc *jobend_begun(const struct evidence *v, char *out, size_t size);

/*
 * jobend_unset - does the last log end while the job sets up, before any process makes a step
 * or tells of an end?
 *
 * @out, of @size bytes: a sentence on it.  Returns the process with the last line, or NULL.
 */
const struct proc *jobend_unset(const struct evidence *v, char *out, size_t size);

/* jobend_suite - the process whose test runner says that tests failed, or NULL. */
const struct proc *jobend_suite(const struct evidence *v);

/*
 * jobend_behind - the process that the ranks of @f waited for: the lowest sequence number, or
 * the one rank that does not complain.
 *
 * @out as above; NULL if the logs do not tell.  *@process may be NULL: it wrote nothing.
 */
bool jobend_behind(const struct evidence *v, const struct finding *f, char *out, size_t size,
		   const struct proc **process);

/* jobend_unheard - of a job that tells how many of its ranks came, "7/8 clients joined": the
 * ranks that wrote nothing.  @out, of @size bytes: a sentence on them; false if the logs do not
 * tell. */
bool jobend_unheard(const struct evidence *v, const struct finding *f, char *out, size_t size);

#endif
