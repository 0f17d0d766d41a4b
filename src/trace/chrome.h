/* chrome.h - trace records as events of a Chrome trace, with Horovod's names. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_CHROME_H
#define TRACE_CHROME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/label.h"
#include "trace/record.h"

/*
 * Each tensor is a process of the trace.  Its events are B NEGOTIATE_x, an X of no length (a
 * tick) for each rank that is ready, E; then B x, B and E of activities within, and E with the
 * dtype and shape.  Events of one tensor nest, whatever records are missing.
 *
 * Messages between two ranks have no name; their label says where they go.  Of messages with
 * one label that are in flight at the same time each is a process: "send to rank 1, tag 5 (2)".
 *
 * The times at which other ranks of the host were ready come only with the record that all are
 * ready.  So the beginning of a negotiation is kept back until then, or until chrome_settle()
 * finds it old.  An old one begins when this rank was ready, even if another was earlier.
 */

/* The rank and the moment that a file begins with; strings belong to the caller. */
struct chrome_origin {
	int rank;          /* in the world                                            */
	bool merges;       /* write what merge.h needs: the fields below, and rounds  */
	int size;          /* of the world                                            */
	const char *host;  /* its name                                                */
	const char *clock; /* the same text wherever clock_ns() is the same           */
	int64_t start_ns;  /* time 0 of the file, by clock_ns()                       */
	int64_t epoch_us;  /* the same moment, since 1970                             */
	int64_t since_ns;  /* the beginning of the recording, which may be later      */
	/* Of a recording that shares its file with others: */
	uint32_t *processes; /* the trace's latest number of a process; atomic.  NULL: no
				sharing */
	const char *part;    /* the job's name in a JSON string; NULL: none    */
	uint32_t job; /* if greater than 1: which job of that name                         */
	const int *ranks; /* the number that is written for each rank; NULL: its own */
};

struct chrome {
	struct chrome_origin from;
	const struct labels *labels;
	char *text; /* to be written: each event begins with a comma */
	size_t len, size;
	uint32_t processes;            /* of the trace so far, without number 0 */
	struct chrome_tensor **tensor; /* by label */
	uint32_t tensors;
	struct chrome_tensor *held; /* list: their negotiation is kept back   */
	bool failed;                /* no memory: something is missing        */
	int64_t cycle_ns;           /* of the last CYCLE_START                */
};

/* chrome_open - returns 0, or -1 without memory.  chrome_close - safe on a zeroed one. */
int chrome_open(struct chrome *c, const struct chrome_origin *from,
		const struct labels *labels);
void chrome_close(struct chrome *c);

/* chrome_header - put the beginning of the file into c->text; the closing bracket is not part
 * of the text. */
void chrome_header(struct chrome *c);

/* chrome_is_full - the text has to be written, and len set to 0, before the next record. */
bool chrome_is_full(const struct chrome *c);

/* chrome_take - put the events of the next record, in order of time, into c->text. */
void chrome_take(struct chrome *c, const struct trace_record *r);

/* chrome_settle - put the negotiations that began before @ns into c->text; false if the text is
 * full before all are. */
bool chrome_settle(struct chrome *c, int64_t ns);

/* chrome_tick - a CYCLE_START at @ns.  chrome_dropped - @count records are missing so far. */
void chrome_tick(struct chrome *c, int64_t ns);
void chrome_dropped(struct chrome *c, uint64_t count, int64_t ns);

#endif
