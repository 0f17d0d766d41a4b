/* autotune.h - the fastest of a few algorithms, learned from what calls take. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_AUTOTUNE_H
#define BACKEND_AUTOTUNE_H

#include <stdint.h>

/*
 * A way is the number of an algorithm.  Calls go the one that was found best, at first way 0.
 * Now and then some go another one, which becomes the best if the quickest of these took
 * clearly less.  That is soon at first and when calls begin to take another time than they did,
 * else rarely.
 *
 * Zeroed is a new one.  Threads: one at a time.
 */
struct autotune {
	int home, asks;   /* the best so far; where calls shall go now       */
	int last;         /* what was tried last                             */
	int round;        /* so many ways are still to be tried              */
	int refusals;     /* in a row                                        */
	uint32_t samples; /* of the present few                              */
	uint32_t calls;   /* at home since the last trial                    */
	uint32_t spare;   /* so many at least before a change leads to one   */
	int64_t least;    /* the quickest of the present few                 */
	int64_t spent;    /* all of them together                            */
	int64_t age;      /* all calls at home since the last trial        */
	int64_t known;    /* at home, at the last trial; 0: never yet        */
	int64_t tried;    /* by a trial that seems to have found better; or 0 */
	int64_t against;  /* during a trial: what it has to beat             */
};

/*
 * autotune_add     - a call went @way and took @ns; where shall the next ones go?  Bit w of
 * @ways: there is way w; 0 always.  A call that went another way than it says now, since it had
 * begun, does not count.
 * autotune_refused - a call could not go @way: if that happens again and
 * again, it is given up.
 */
int autotune_add(struct autotune *t, unsigned ways, int way, int64_t ns);
int autotune_refused(struct autotune *t, int way);

#endif
