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

/* timeline_begin - as the settings say, when @m has come up; what goes wrong is logged.
 * timeline_join - another group of ranks has come up.  timeline_close - end it for good. */
void timeline_begin(struct member *m);
void timeline_join(struct member *m, struct lane *l);
void timeline_close(struct member *m);

#endif
