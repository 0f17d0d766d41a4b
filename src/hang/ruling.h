/* ruling.h - decides from two samples whether a job hangs, and which rank is to blame. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_RULING_H
#define HANG_RULING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hang/look.h"

enum ruling_kind {
	RULING_MOVES,    /* the job advances                                         */
	RULING_SLOW,     /* ranks wait for one that is busy, or no rank waits        */
	RULING_UNSURE,   /* cannot tell: see why                                     */
	RULING_UNENDING, /* all ranks have started an operation, and it does not end */
	RULING_DEAD,     /* a process is gone                                        */
	RULING_STOPPED,  /* a process is stopped                                     */
	RULING_SILENT,   /* a process does not answer NCCL RAS                       */
	RULING_DISK,     /* a process waits in the kernel                            */
	RULING_LATE,     /* a rank has not started what others wait in               */
	RULING_ODD,      /* a rank is elsewhere in the program                       */
	RULING_APART,    /* ranks wait in different operations, without a majority   */
	RULING_CIRCLE,   /* ranks wait for each other's messages                     */
	RULING_INIT,     /* a rank has not reached the initialisation                */
	RULING_BEHIND,   /* a rank has launched fewer collectives than others        */
};

struct ruling {
	enum ruling_kind kind;
	int status; /* exit status: 0 no hang, 1 a hang, 3 cannot tell */
	bool culprit[ROWS_RANKS], waiting[ROWS_RANKS];
	int culprits, size;
	char group[ROWS_NAME], what[ROWS_TEXT]; /* what is waited for; "": unknown */
	int64_t waited_ms;                      /* the longest wait; -1: unknown   */
	char why[2 * ROWS_TEXT];                /* what cannot be told, what differs */
};

/*
 * ruling_make - judge two looks, @elapsed_ms apart.
 *
 * A missing process counts before one that is late, and a rank is late only if no rank has
 * advanced between the looks.  More than one rank is named only if all of them are missing.
 */
void ruling_make(struct ruling *r, const struct look *before, const struct look *now,
		 int64_t elapsed_ms);

/* ruling_name - "late", for JSON. */
const char *ruling_name(enum ruling_kind kind);

#endif
