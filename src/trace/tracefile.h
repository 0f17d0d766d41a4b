/* tracefile.h - the timeline files of this process, which its recorders share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TRACEFILE_H
#define TRACE_TRACEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct tracefile;

/*
 * A process may be a rank of several jobs at a time, or of one after the other, as with process
 * groups; each job has a recorder.  Recorders with the same path write one file: their records
 * have one time 0, and numbers of the trace's processes that differ.
 */
struct tracefile_place {
	int64_t start_ns;    /* time 0 of the file, by clock_ns()                         */
	int64_t epoch_us;    /* the same moment, since 1970                               */
	uint32_t *processes; /* the latest number of a process of the trace; atomic       */
	uint32_t job;        /* counts the jobs of one part that have written it, from 1 on */
};

/*
 * tracefile_open - let one more recorder write @path; @part: the name of its job, or "".
 *
 * A file that no recorder of this process writes is emptied; with @resumes, it is continued if
 * this process has written it before, with @resumes too, and it is still as it was left.  A
 * child of fork() shares no file with its parent.
 *
 * tracefile_begin - put @text, the header of the file, into it if it is empty.
 * tracefile_append - see outfile_append().
 * tracefile_close - the recorder writes no more; NULL is harmless.
 *
 * Any thread.
 */
int tracefile_open(struct tracefile **fp, const char *path, bool resumes, const char *part,
		   struct tracefile_place *at, struct err *e);
int tracefile_begin(struct tracefile *f, const char *text, size_t len, struct err *e);
int tracefile_append(struct tracefile *f, const char *text, size_t len, struct err *e);
void tracefile_close(struct tracefile *f);

#endif
