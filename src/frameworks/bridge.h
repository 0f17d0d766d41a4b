/* bridge.h - the current job of a framework's operations, and the threads that use it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAMEWORKS_BRIDGE_H
#define FRAMEWORKS_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "ringup.h"

/*
 * A framework runs operations in threads of its own and keeps graphs of them for longer than
 * a job lasts.  Python joins and leaves jobs.  The bridge holds the present job, and makes
 * leaving it wait until no thread of the framework is inside the library with it.
 */

/* bridge_attach - operations belong to @r from now on; NULL: there is no job.  Waits until no
 * thread is between bridge_enter() and bridge_leave() with another job. */
void bridge_attach(struct ringup *r);

/* bridge_enter - the present job, which stays valid until bridge_leave(); or NULL, and then
 * there is nothing to leave. */
struct ringup *bridge_enter(void);

/* bridge_leave - this thread no longer uses the job. */
void bridge_leave(void);

/*
 * bridge_closed - the job that bridge_attach(NULL) has taken away is closed: the library does
 * not use the memory of its collectives any more.
 */
void bridge_closed(void);

/* bridge_number - the number of the present job.  The thread has entered the bridge. */
uint64_t bridge_number(void);

/* bridge_is_closed - is the job with this number closed? */
bool bridge_is_closed(uint64_t number);

/* bridge_is_closing - must waiting threads leave the bridge?  They poll it as they wait. */
bool bridge_is_closing(void);

#endif
