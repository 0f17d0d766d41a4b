/* timeline.h - start and stop the recording of a rank's operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TIMELINE_H
#define ENGINE_TIMELINE_H

#include <stdint.h>

struct conf;
struct engine;
struct err;
struct comm;
struct ringup_points;

/* The rank that the timeline belongs to; @part as in struct ringup_init. */
struct timeline_rank {
	int rank, size;
	const char *host, *part;
};

/* timeline_start, timeline_stop - see ringup_timeline_start().  Any thread. */
int timeline_start(struct engine *g, const struct timeline_rank *self, const char *path,
		   int flags, struct err *e);
void timeline_stop(struct engine *g);

/* timeline_keep, timeline_points - see ringup_points_keep() and ringup_points_get().  Any
 * thread. */
int timeline_keep(struct engine *g, struct err *e);
int timeline_points(const struct engine *g, uint64_t first, uint64_t count,
		    struct ringup_points *out, struct err *e);

/* timeline_begin - start the timeline of the settings, when @g runs; an error is logged.
 * timeline_join - a new group records, too, if there is a timeline.  timeline_close - end the
 * timeline, and free everything. */
void timeline_begin(struct engine *g, const struct timeline_rank *self, const struct conf *c);
void timeline_join(struct comm *c);
void timeline_close(struct engine *g);

#endif
