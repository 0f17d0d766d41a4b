/* meter.h - counters of a running job, read from its observation pages, for `ringup top`. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_METER_H
#define HANG_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hang_job;

enum { METER_TEXT = 112, METER_HOST = 64 };

/* A rank, since the start of its job. */
struct meter_rank {
	int rank, pid;
	char host[METER_HOST];
	uint64_t operations, bytes, messages, samples, waited;
	uint64_t waited_for; /* samples of other ranks on this host that waited for this one */
	int64_t idle_ms;     /* since an operation was last begun */
	char in[METER_TEXT]; /* the oldest operation that it waits in; "": none */
	int64_t in_ms;       /* its age                                         */
	int missing;         /* the first rank that this lacks; -1: none is known */
};

struct meter {
	int64_t at_ns;
	struct meter_rank *rank;
	int ranks;
};

/* meter_read - the ranks of @j on this host that have a page.  meter_free - safe when zeroed.
 */
void meter_read(struct meter *m, const struct hang_job *j);
void meter_free(struct meter *m);

/* meter_find - @rank's row, or NULL. */
const struct meter_rank *meter_find(const struct meter *m, int rank);

/* meter_slowest - the rank that the others waited for most between two readings, in more than a
 * tenth of all samples; -1: none. */
int meter_slowest(const struct meter *before, const struct meter *now);

/*
 * meter_metrics - the counts as Prometheus' text, for node_exporter's textfile collector;
 * @name: the job's.  Ownership: the caller's to free(); NULL without memory.
 */
char *meter_metrics(const struct meter *m, const char *name, size_t *len);

#endif
