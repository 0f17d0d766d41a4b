/* trace.h - a rank's trace recorder: trace points, rings, the thread that writes the file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/record.h"

struct err;
struct recorder;
struct ringup_points;

/*
 * A thread that comes to a trace point puts a record on a ring of its own: no lock, no system
 * call, no allocation; if the ring is full the record is dropped and counted.  The writer, a
 * thread that exists while a file is being written, takes the records from all rings, in order
 * of time, and writes them every TRACE_FLUSH_MS, or sooner when a ring is half full.
 *
 * A rank may also keep its latest records without a file, for a flight recorder: then a record
 * overwrites the oldest of its ring.
 *
 * All zero is off; a trace point then costs one load, that of `on`.
 */
enum { TRACE_FLUSH_MS = 20, TRACE_THREADS = 64 };

enum trace_on {
	TRACE_ON = 1,     /* a file is being written           */
	TRACE_CYCLES = 2, /* also mark where batches begin     */
	TRACE_KEEP = 4,   /* for trace_points()                */
};

struct trace {
	uint32_t on;               /* enum trace_on; atomic                       */
	uint32_t session;          /* how often it has been started; atomic       */
	uint64_t numbers;          /* see trace_number(); atomic                  */
	struct recorder *recorder; /* NULL before the first start; atomic */
	const int *ranks; /* see trace_rank(); set before any thread reaches a trace point */
};

/* trace_on - enum trace_on; 0: nothing is recorded, and trace_put() and the others below must
 * not be called. */
static inline uint32_t trace_on(const struct trace *t)
{
	return __atomic_load_n(&t->on, __ATOMIC_RELAXED);
}

/* trace_session - a number that changes with each recording. */
static inline uint32_t trace_session(const struct trace *t)
{
	return __atomic_load_n(&t->session, __ATOMIC_RELAXED);
}

/* trace_number - a number that none of the latest 2^32 before it has. */
static inline uint32_t trace_number(struct trace *t)
{
	return (uint32_t)__atomic_add_fetch(&t->numbers, 1, __ATOMIC_RELAXED);
}

/* trace_writes - is there a file? */
static inline bool trace_writes(const struct trace *t)
{
	return trace_on(t) & TRACE_ON;
}

/* See struct chrome_origin, which also has the times. */
struct trace_origin {
	int rank, size;
	bool merges;
	const char *host, *clock;
	const char *part; /* the name of the job among those of this process; NULL: none */
	bool resumes;     /* see tracefile_open()                                        */
};

/* trace_rank - the number that a timeline has for a rank: that of @t->ranks, its own if NULL.
 */
static inline int trace_rank(const struct trace *t, int rank)
{
	return t->ranks ? t->ranks[rank] : rank;
}

/*
 * trace_start - write @path from now on, with enum trace_on in @on.
 *
 * If @path is being written already, recording goes on, with @on as it is now; a recording to
 * another file is ended first.  Recorders of one process share a file: see tracefile.h. Returns
 * RINGUP_ESYSTEM if the file cannot be written, and then an earlier recording goes on; or if
 * there is no thread.  A failure of the writer is logged once, and ends the recording.
 *
 * trace_stop - write remaining records, and close the file; nothing happens if there is none.
 * trace_close - the same, and free all; no thread may be at a trace point.
 *
 * One thread at a time.  All three block until the file is written.
 */
int trace_start(struct trace *t, const char *path, uint32_t on, const struct trace_origin *from,
		struct err *e);
void trace_stop(struct trace *t);
void trace_close(struct trace *t);

/*
 * trace_keep - keep the latest records from now on, until trace_close(); RINGUP_ENOMEM.
 * trace_points - of the operations with the numbers @first to @first + @count - 1, as
 * points_find(), with times since 1970; RINGUP_ENOMEM.
 *
 * As trace_start(), one thread at a time; neither blocks.
 */
int trace_keep(struct trace *t, struct err *e);
int trace_points(const struct trace *t, uint64_t first, uint64_t count,
		 struct ringup_points *out, struct err *e);

/* trace_put - record @r, whose time is not before the last record's of this thread.  Any
 * thread, after trace_on(). */
void trace_put(const struct trace *t, const struct trace_record *r);

/* trace_label - see label_enter(); trace_ranks - see label_set(). */
uint32_t trace_label(const struct trace *t, uint64_t group, const char *name, size_t len);
int trace_ranks(const struct trace *t, const int *ranks, int count);

#endif
