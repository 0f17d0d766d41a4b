/* timeline.h - when a rank records its operations, and where. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TIMELINE_H
#define ENGINE_TIMELINE_H

struct err;
struct lane;
struct member;

/* timeline_start, timeline_stop - see ringup_timeline_start().  Any thread. */
int timeline_start(struct member *m, const char *path, int flags, struct err *e);
void timeline_stop(struct member *m);

/* timeline_begin - start the timeline that the settings ask for, when @m has come up; an error
 * is logged.  timeline_join - a new group records, too, if there is a timeline.  timeline_close
 * - end the timeline, and free everything. */
void timeline_begin(struct member *m);
void timeline_join(struct member *m, struct lane *l);
void timeline_close(struct member *m);

#endif
