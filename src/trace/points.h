/* points.h - the times at which operations reached their trace points, read from records. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_POINTS_H
#define TRACE_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "ringup.h"
#include "trace/record.h"

/*
 * points_find - the times of operations from @first on, by @n records in order of time.
 *
 * Fills out[i] for operation @first + i, for @count operations; all zero is unknown.  A
 * record has the low 32 bits of a number; @count is less than 2^32.  Times are @ahead_ns behind
 * those of the records.  Returns 0, or RINGUP_ENOMEM.
 */
int points_find(const struct trace_record *r, size_t n, uint64_t first, uint64_t count,
		int64_t ahead_ns, struct ringup_points *out);

#endif
