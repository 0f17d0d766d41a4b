/* autotune.h - online autotuning: choose the fastest of a few algorithms by timing calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_AUTOTUNE_H
#define BACKEND_AUTOTUNE_H

#include <stdint.h>

/*
 * A way is the number of an algorithm.  Calls go the best way so far, at first way 0.
 * Now and then, in a trial, some go another way, which becomes the best if their quickest
 * took clearly less.  Trials come soon at first and when the calls' times change, else
 * rarely.
 *
 * Zeroed is a new one.  Threads: one at a time.
 */
struct autotune {
	int home, asks;   /* the best so far; where calls shall go now       */
	int last;         /* the way of the last trial                       */
	int round;        /* ways that are still to be tried                 */
	int refusals;     /* in a row                                        */
	uint32_t samples; /* calls of the present batch                      */
	uint32_t calls;   /* at home since the last trial                    */
	uint32_t spare;   /* calls at least before a change starts a trial   */
	int64_t least;    /* ns: the quickest of the batch                   */
	int64_t spent;    /* ns: the whole batch                             */
	int64_t age;      /* ns: all calls at home since the last trial      */
	int64_t known;    /* ns: at home, at the last trial; 0: never yet    */
	int64_t tried;    /* ns: of a trial that seems to have won; or 0     */
	int64_t against;  /* ns: during a trial, the time that it has to beat */
};

/*
 * autotune_add     - a call went @way and took @ns; returns the way of the next calls.  Bit w
 * of @ways: way w exists; way 0 always does.  A call that began before the way changed does
 * not count.
 * autotune_refused - a call could not go @way; returns the way of the next calls.  After a few
 * refusals in a row @way is given up.
 */
int autotune_add(struct autotune *t, unsigned ways, int way, int64_t ns);
int autotune_refused(struct autotune *t, int way);

#endif
