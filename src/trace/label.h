/* label.h - numbers for the names of tensors and for sets of ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_LABEL_H
#define TRACE_LABEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

/*
 * A record has no room for a name.  Names are entered once, by any thread, and read without a
 * lock by the thread that writes the file: a label with a number does not move or change before
 * labels_free().
 */
enum {
	LABEL_STEP = 1024,  /* labels allocated at a time */
	LABEL_STEPS = 1024, /* steps at most: a million names */
	LABEL_BYTES = 1024, /* of a name; the rest is not shown */
	LABEL_SETS = 256,
};

struct label_set {
	int count;
	int ranks[]; /* in the world */
};

struct labels {
	struct lock lock;
	uint32_t count, table_size;
	uint32_t *table; /* open addressing by hash; 0: free */
	struct label **step[LABEL_STEPS];
	struct label_set *set[LABEL_SETS]; /* atomic */
};

/*
 * label_enter - the number of a name of a group of ranks (0: all), at least 1.
 *
 * The file shows the name, with "?" for bytes that JSON cannot hold, and the group if it is not
 * that of all ranks.  Returns 0 if there is no memory, or no number left.  Any thread.
 */
uint32_t label_enter(struct labels *l, uint64_t group, const char *name, size_t len);

/* label_text - the text between the quotes of a JSON string; "?" if @label is none. */
const char *label_text(const struct labels *l, uint32_t label);

/* label_set - the number of this list of ranks, or -1.  label_ranks - the list, or NULL. */
int label_set(struct labels *l, const int *ranks, int count);
const struct label_set *label_ranks(const struct labels *l, int set);

/* labels_free - forget all; safe on zeroed ones. */
void labels_free(struct labels *l);

#endif
