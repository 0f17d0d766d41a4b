/* handles.h - integer handles of collectives in flight, passed between a graph's operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAMEWORKS_HANDLES_H
#define FRAMEWORKS_HANDLES_H

#include <stdint.h>

#include "frameworks/collective.h"

/*
 * A graph has an operation that starts a collective and another one that waits for it.  Only
 * tensors pass between operations, so a handle is a number; it is never 0, is valid once, and
 * an invalid one is detected.  All functions may be called from any thread.
 */

/* handles_borrow - an unused run, zeroed or used before; NULL if there is no memory. */
struct collective_run *handles_borrow(void);

/* handles_return - @run is unused again. */
void handles_return(struct collective_run *run);

/* handles_put - a number for @run; 0 if there is no memory. */
int64_t handles_put(struct collective_run *run);

/* handles_take - the run of a number, which becomes invalid; NULL: it was invalid. */
struct collective_run *handles_take(int64_t handle);

/* handles_drop - call @drop for each run that was put and not taken, then return it. */
void handles_drop(void (*drop)(struct collective_run *run));

#endif
