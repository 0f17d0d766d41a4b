/* points.h - when operations came to their trace points, out of records. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_POINTS_H
#define TRACE_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "ringup.h"
#include "trace/record.h"

/*
 * points_find - what @n records, in order of time, tell of the operations @first and up.
 *
 * Fills @out of the operation @first + i at i, for @count operations; all zero is unknown.  A
 * record has the low 32 bits of a number; @count is less than 2^32.  Times are @ahead_ns behind
 * those of the records.  Returns 0, or RINGUP_ENOMEM.
 */
int points_find(const struct trace_record *r, size_t n, uint64_t first, uint64_t count,
		int64_t ahead_ns, struct ringup_points *out);

#endif
