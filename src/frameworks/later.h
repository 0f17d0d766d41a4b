/* later.h - background threads that wait for collectives, so that operations need not block. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAMEWORKS_LATER_H
#define FRAMEWORKS_LATER_H

#include <stdbool.h>

#include "frameworks/collective.h"

/* Collectives to wait for.  The caller allocates it, sets all up to frees; done() frees it. */
struct later {
	struct collective_run **runs; /* count of them, which have been started        */
	int count;
	void (*done)(struct later *l); /* called by a thread, after all have ended; failures are
					* in each run's status and text              */
	bool apart;                    /* done() may wait for the done() of another later     */
	/* The memory of the collectives goes away with done(): if the process leaves the job
	 * before they have completed, done() waits for bridge_closed(). */
	bool frees;
	bool left;    /* the bridge was left */
	uint64_t job; /* the job whose end done() waits for, if frees  */
	struct later *next;
};

/*
 * later_add - wait for @l's collectives in the background, then call its done().
 *
 * The caller has entered the bridge; a thread leaves it in its stead, after done().  The first
 * thread starts with the first call, and others where done() is apart and a thread is in one;
 * they sleep when there is nothing to wait for, and never end.
 *
 * Threads:    any.
 * Blocking:   never.
 *
 * Returns 0; or RINGUP_ESYSTEM: there is no thread, and the caller keeps @l.
 */
int later_add(struct later *l);

#endif
