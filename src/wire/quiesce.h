/* quiesce.h - after an abort: wait until no rank writes to other ranks' memory any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_QUIESCE_H
#define WIRE_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

struct waitset;

/*
 * A rank writes to buffers of others only between quiesce_enter() and quiesce_leave(), some
 * microseconds at a time.  After an abort no rank enters any more, so when all have left,
 * buffers are their owners' again.
 *
 * quiesce_enter - false if *@abort is set, or *@left has SEGMENT_ABORTED: the others may have
 *                 their buffers back already, and this rank must not write.
 * quiesce_leave - after the last write.
 * quiesce_gone  - the process of @rank has ended, and writes no more.
 * quiesce_wait  - that was set: wait until no other rank writes.  The wait for a stopped
 *                 rank, which writes nothing, ends after 0.1 s; for one that only waits
 *                 for a processor, after 10 s.
 */
bool quiesce_enter(const struct waitset *w, const uint32_t *abort, const uint32_t *left);
void quiesce_leave(const struct waitset *w);
void quiesce_gone(const struct waitset *w, int rank);
void quiesce_wait(const struct waitset *w);

#endif
