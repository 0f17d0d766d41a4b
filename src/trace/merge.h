/* merge.h - the timelines of several ranks as one, on one clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_MERGE_H
#define TRACE_MERGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/events.h"

struct err;
struct merge_round;

/*
 * Each tensor is a process of the merged file, each rank a thread of it, so that the ranks'
 * events of a tensor lie one below the other.
 *
 * Ranks of one host have one clock.  Between hosts the offset comes from the operations: a rank
 * knows that all are ready after each of them has submitted.  So each round of a tensor says
 * that the offset is at least and at most something; in the middle of what all rounds leave it
 * is at most as wrong as a message takes.  Where there are no rounds, or they contradict each
 * other, the hosts' wall clocks have to do.
 */
enum merge_how {
	MERGE_SAME, /* the first file's clock */
	MERGE_ROUNDS,
	MERGE_WALL,
};

/* One file, and what has been found of its clock. */
struct merge_file {
	const char *path;
	int rank;
	char *host, *clock; /* "": it does not say */
	double epoch_us;    /* its beginning, since 1970             */
	double start_us;    /* and by its own clock                  */
	uint64_t events;
	bool cut; /* its end is missing                    */
	enum merge_how how;
	double ahead_us; /* its clock, of the first file's        */
	double doubt_us; /* that much more or less                */
	/* merge.c's: tensors by process, rounds */
	uint32_t *tensor;
	size_t processes;
	struct merge_round *round;
	size_t rounds, room;
};

struct merge {
	struct merge_file *file; /* in the order of ranks */
	int files;
	uint64_t events; /* written                     */
	json_t *names;   /* merge.c's: tensors by name  */
	double first_us; /* of the first clock: the beginning of the merged file */
};

/* merge_read - look through @count files, and settle their clocks.  merge_print - the merged
 * file. merge_write - the same to @path, wholly or not at all.  merge_free - also after a
 * failure; safe on a zeroed one. */
int merge_read(struct merge *m, const char *const *paths, int count, struct err *e);
int merge_print(struct merge *m, FILE *f, struct err *e);
int merge_write(struct merge *m, const char *path, struct err *e);
void merge_free(struct merge *m);

#endif
