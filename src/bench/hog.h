/* hog.h - processes that keep processors busy beside a measurement. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_HOG_H
#define BENCH_HOG_H

struct err;
struct hog;

/*
 * hog_start - start @count processes that never sleep.
 *
 * Each is bound to a processor of its own, counted backwards from the last one that this
 * process may use.  They die with the calling thread.
 *
 * Ownership: *@hp is the caller's, for hog_stop(), which accepts NULL.
 */
int hog_start(int count, struct hog **hp, struct err *e);
void hog_stop(struct hog *h);

#endif
