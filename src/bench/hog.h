/* hog.h - processes that burn processors beside a measurement. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_HOG_H
#define BENCH_HOG_H

struct err;
struct hog;

/*
 * hog_start - start @count processes that never sleep.
 *
 * Each is bound to a processor of its own, from the last that this process may use
 * backwards.  They die with the calling thread.
 *
 * Ownership: *@hp is the caller's, for hog_stop(), which accepts NULL.
 */
int hog_start(int count, struct hog **hp, struct err *e);
void hog_stop(struct hog *h);

#endif
