/* stats.h - medians and quantiles. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STATS_H
#define BASE_STATS_H

/* stats_sort - sort @n numbers, the least first. */
void stats_sort(double *x, int n);

/* stats_median - of @n > 0 numbers, which it sorts. */
double stats_median(double *x, int n);

/* stats_quantile - @x is sorted; @q is 0 to 1; interpolates between two numbers. */
double stats_quantile(const double *x, int n, double q);

#endif
