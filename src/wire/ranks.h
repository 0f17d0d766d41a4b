/* ranks.h - format a set of ranks for messages, and map a group's ranks to the world's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_RANKS_H
#define WIRE_RANKS_H

#include <stdbool.h>
#include <stddef.h>

enum { RANKS_TEXT = 128 };

/*
 * ranks_text - "rank 2 of 4", "ranks 2, 3 of 4", "ranks 1-63 of 64": the ranks
 * whose @in is true.  Writes at most RANKS_TEXT bytes and ends a list that is
 * too long with "..."; returns @out, which is empty if the set is.
 */
const char *ranks_text(char *out, const bool *in, int size);

/* ranks_in_world - the world rank of a group's @rank; @world has one for each rank of the
 * group, NULL: the group is the world. */
static inline int ranks_in_world(const int *world, int rank)
{
	return world ? world[rank] : rank;
}

#endif
