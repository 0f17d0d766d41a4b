/* merge.h - merge the timelines of several ranks into one, with clocks aligned. */
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
 * knows that all are ready only after each rank has submitted.  So each round of a tensor
 * bounds the offset from both sides; the middle between the narrowest bounds is wrong by at
 * most the time that a message takes.  Where there are no rounds, or they contradict each
 * other, the hosts' wall clocks are used.
 */
enum merge_how {
	MERGE_SAME, /* the first file's clock */
	MERGE_ROUNDS,
	MERGE_WALL,
};

/* One file, and its clock. */
struct merge_file {
	const char *path;
	int rank;
	char *host, *clock; /* "": not in the file */
	double epoch_us;    /* its beginning, since 1970             */
	double start_us;    /* its beginning by its own clock        */
	uint64_t events;
	bool cut; /* its end is missing                    */
	enum merge_how how;
	double ahead_us; /* its clock minus the first file's      */
	double doubt_us; /* the error of ahead_us, at most        */
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
	double first_us; /* time 0 of the merged file, by the first file's clock */
};

/* merge_read - look through @count files, and settle their clocks.  merge_print - the merged
 * file. merge_write - the same to @path, wholly or not at all.  merge_free - also after a
 * failure; safe on a zeroed one. */
int merge_read(struct merge *m, const char *const *paths, int count, struct err *e);
int merge_print(struct merge *m, FILE *f, struct err *e);
int merge_write(struct merge *m, const char *path, struct err *e);
void merge_free(struct merge *m);

#endif
