/* routine.h - count the lines of a process that differ only in their numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_ROUTINE_H
#define DIAGNOSE_ROUTINE_H

#include <stdbool.h>
#include <stdint.h>

enum { ROUTINE_SHAPES = 4096 }; /* a power of two; half of them are used */

/* All lines of one shape; the places are bytes before them in the log. */
struct routine_line {
	uint64_t shape; /* 0: free */
	uint64_t process;
	uint64_t first, last;
	long count;
	bool is_calm; /* none of them is about a failure or a wait */
};

struct routine {
	struct routine_line line[ROUTINE_SHAPES];
	int n;
};

/* routine_shape - a number for the words of the line, never 0; @process is mixed into it. */
uint64_t routine_shape(uint64_t process, const char *line, const char *end);

/* routine_add - count a line of @process, in any order; shapes beyond the room are not kept. */
void routine_add(struct routine *r, uint64_t process, uint64_t shape, uint64_t at,
		 bool is_calm);

/* routine_find - what is known of the shape, or NULL. */
const struct routine_line *routine_find(const struct routine *r, uint64_t shape);

/* routine_resumed - has @process written calm lines of one shape before and after @at? */
bool routine_resumed(const struct routine *r, uint64_t process, uint64_t at);

/* routine_has_pair - has the process of @l lines of another shape, each of which may follow one
 * of
 * @l but the last? */
bool routine_has_pair(const struct routine *r, const struct routine_line *l);

void routine_reset(struct routine *r);

#endif
